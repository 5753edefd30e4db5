"""Whether the comparator of a sort is an order, as XLA believes.

XLA sorts with the C++ library, which reads past the end of the array where a comparator is no
order: a comparator that is always true, say.  JAX's comparators have one form, which is an order
whatever the values are: a lexicographic one, of keys that are computed alike of the left and of the
right element::

    lt := compare LT|GT key(left), key(right)     integers, or floats in TOTALORDER
        | or(compare LT|GT ..., and(compare EQ ..., lt))      with the same keys in both
"""

from bellhop_mlir._bindings import ir
from bellhop_mlir.errors import VerificationError

# What keys are computed by: all of one element alone.
_OF_KEYS = (
    "compare",
    "select",
    "real",
    "imag",
    "convert",
    "bitcast_convert",
    "abs",
    "negate",
    "xor",
)
# Keys are expressions; more of them than any program has.
_MOST_VALUES = 10_000


class _Comparator:
    """The values of one comparator, as expressions of the left or the right elements."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.numbers = {argument: number for number, argument in enumerate(block.arguments)}
        self.known: dict[object, tuple[object, frozenset[int]]] = {}
        self.expressions: dict[object, int] = {}

    def expression(self, value: ir.Value) -> tuple[object, frozenset[int]]:
        """Return the form of a value, alike on both sides, and the sides that it uses.

        Raises:
            VerificationError: where an operation is none of ``_OF_KEYS``.
        """
        if value in self.known:
            return self.known[value]
        if len(self.known) > _MOST_VALUES:
            raise VerificationError(
                f"its sort has a comparator of more than {_MOST_VALUES} operations"
            )
        if value in self.numbers:
            number = self.numbers[value]
            found: tuple[object, frozenset[int]] = (
                ("element", number // 2),
                frozenset((number % 2,)),
            )
        else:
            found = self._computed(value)
        self.known[value] = found
        return found

    def _computed(self, value: ir.Value) -> tuple[object, frozenset[int]]:
        op = _operation(value)
        name = op.name.removeprefix("stablehlo.")
        if name == "constant":
            return (str(op.attributes["value"]),), frozenset()
        if name == "broadcast_in_dim" or name in _OF_KEYS:
            parts = [self.expression(operand) for operand in op.operands]
            attributes = tuple(
                f"{each}={op.attributes[each]}"
                for each in ("comparison_direction", "compare_type")
                if each in op.attributes
            )
            sides = frozenset().union(*(sides for _, sides in parts))
            expression = (name, str(value.type), attributes, *(part for part, _ in parts))
            # Equal expressions have one number, so that they do not grow.
            return self.expressions.setdefault(expression, len(self.expressions)), sides
        raise _refusal(f"stablehlo.{name} in a key")

    def keys(self, value: ir.Value, directions: tuple[str, ...]) -> object:
        """Return the keys that a comparison compares, if it compares the two sides.

        Raises:
            VerificationError: where it does not.
        """
        op = _operation(value)
        if op.name != "stablehlo.compare":
            raise _refusal(op.name)
        direction = str(op.attributes["comparison_direction"])
        kind = str(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
        if not any(f" {each}>" in direction for each in directions):
            raise _refusal(f"a comparison {direction}")
        left, right = (self.expression(operand) for operand in op.operands)
        if left[0] != right[0] or {left[1], right[1]} != {frozenset((0,)), frozenset((1,))}:
            raise _refusal("a comparison of what is no key of both elements")
        element = str(ir.RankedTensorType(op.operands[0].type).element_type)
        if element.startswith(("f", "bf")) and "TOTALORDER" not in kind:
            # NaN would be equal to everything.
            raise _refusal("a comparison of floats that is no total order")
        if element.startswith("complex"):
            raise _refusal("a comparison of complex numbers")
        return left[0]

    def verify_order(self, value: ir.Value) -> None:
        """Refuse a value that does not say whether one element comes before the other."""
        while True:
            op = _operation(value)
            if op.name == "stablehlo.compare":
                self.keys(value, ("LT", "GT"))
                return
            if op.name != "stablehlo.or":
                raise _refusal(op.name)
            first, rest = op.operands
            if _operation(first).name != "stablehlo.compare":
                first, rest = rest, first
            both = _operation(rest)
            if both.name != "stablehlo.and":
                raise _refusal(both.name)
            equal, value = both.operands
            if not self._is_equality(equal):
                equal, value = value, equal
            if self.keys(first, ("LT", "GT")) != self.keys(equal, ("EQ",)):
                raise _refusal("other keys where they are equal")

    @staticmethod
    def _is_equality(value: ir.Value) -> bool:
        op = _operation(value)
        is_comparison = op.name == "stablehlo.compare"
        return is_comparison and " EQ>" in str(op.attributes["comparison_direction"])


def verify_comparator(op: ir.Operation) -> None:
    """Refuse a ``stablehlo.sort`` unless its comparator is an order.

    Raises:
        VerificationError: naming what it has instead.
    """
    [block] = op.regions[0].blocks
    *_, end = block.operations
    comparator = _Comparator(block)
    comparator.verify_order(end.operation.operands[0])


def _operation(value: ir.Value) -> ir.Operation:
    owner = value.owner
    if isinstance(owner, ir.Block):
        raise _refusal("an element itself")
    return owner if isinstance(owner, ir.Operation) else owner.operation


def _refusal(what: str) -> VerificationError:
    return VerificationError(f"its sort has a comparator that is no order: {what}")
