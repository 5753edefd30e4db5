"""Validation that the comparator of a sort is a strict weak order.

XLA sorts with the C++ library, which reads out of bounds if the comparator is not an order, such as
a comparator that is always true.  JAX's comparators are lexicographic orders for all values: keys
are computed in the same way from the left and from the right element::

    lt := compare LT|GT key(left), key(right)     integers, or floats in TOTALORDER
        | or(compare LT|GT ..., and(compare EQ ..., lt))      with the same keys in both
"""

from bellhop_mlir._bindings import ir
from bellhop_mlir.errors import VerificationError

# Operations that may compute keys, each of one element only.
_KEY_OPERATIONS = (
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
# Limit on the number of values, above the size of any JAX comparator.
_MAX_VALUES = 10_000


class _Comparator:
    """The comparator of one ``stablehlo.sort``, to check that it is an order.

    The comparator returns whether the left element comes before the right element. Block arguments
    ``2 * i`` and ``2 * i + 1`` are the left and the right element of operand ``i`` of the sort.
    `verify_comparator` makes an instance for one sort.

    Attributes:
        block: body of the comparator.
        numbers: index of each block argument.
        known: results of `expression` so far, by value.
        expressions: a number for each distinct expression of an operation, in order of discovery.
    """

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.numbers = {argument: number for number, argument in enumerate(block.arguments)}
        self.known: dict[object, tuple[object, frozenset[int]]] = {}
        self.expressions: dict[object, int] = {}

    def expression(self, value: ir.Value) -> tuple[object, frozenset[int]]:
        """Describe how a comparator's value is computed from the two elements.

        Two values with equal expressions are the same function, of the left or of the right
        element; `verify_comparison` uses this to check that both sides of a comparison have the
        same key.

        Args:
            value: a value in the comparator's block.

        Returns:
            the expression, a hashable object, and the set of the elements that the value depends
            on, 0 for the left and 1 for the right element.

        Raises:
            VerificationError: for operations that are neither constants nor broadcasts nor in
                ``_KEY_OPERATIONS``, and for comparators of more than ``_MAX_VALUES`` values.
        """
        if value in self.known:
            return self.known[value]
        if len(self.known) > _MAX_VALUES:
            # An upper bound of the known values: the block's arguments and operations.
            n_values = len(self.numbers) + sum(1 for _ in self.block.operations)
            raise VerificationError(
                f"the module's sort has a comparator of {n_values} values, expected at most "
                f"{_MAX_VALUES}. Sort by fewer keys"
            )
        if value in self.numbers:
            number = self.numbers[value]
            found: tuple[object, frozenset[int]] = (
                ("element", number // 2),
                frozenset((number % 2,)),
            )
        else:
            found = self._compute_expression(value)
        self.known[value] = found
        return found

    def _compute_expression(self, value: ir.Value) -> tuple[object, frozenset[int]]:
        """Compute the pair that `expression` returns, for the result of an operation.

        Raises:
            VerificationError: for an operation that is not supported in keys.
        """
        op = _get_producer(value)
        name = op.name.removeprefix("stablehlo.")
        if name == "constant":
            return (str(op.attributes["value"]),), frozenset()
        if name == "broadcast_in_dim" or name in _KEY_OPERATIONS:
            parts = [self.expression(operand) for operand in op.operands]
            attributes = tuple(
                f"{each}={op.attributes[each]}"
                for each in ("comparison_direction", "compare_type")
                if each in op.attributes
            )
            sides = frozenset().union(*(sides for _, sides in parts))
            expression = (name, str(value.type), attributes, *(part for part, _ in parts))
            # Number equal expressions, so that nested expressions stay small.
            return self.expressions.setdefault(expression, len(self.expressions)), sides
        raise _refusal(f"stablehlo.{name} in a key")

    def verify_comparison(self, value: ir.Value, directions: tuple[str, ...]) -> object:
        """Check that a value compares the same key of both elements; return the key.

        A key is a function of one element, such as its absolute value: ``compare LT abs(left),
        abs(right)`` is valid.

        Args:
            value: boolean value of the comparator that should be the result of a
                ``stablehlo.compare``.
            directions: allowed directions of the comparison, such as ``("LT", "GT")``.

        Returns:
            the key, as the expression that `expression` returns for both operands.

        Raises:
            VerificationError: if the value is not a comparison in such a direction, if it does not
                compare the same key of the left and the right element, or if the key has no total
                order (floats without ``TOTALORDER``, complex numbers).
        """
        op = _get_producer(value)
        if op.name != "stablehlo.compare":
            raise _refusal(op.name)
        direction = str(op.attributes["comparison_direction"])
        kind = str(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
        if not any(f" {each}>" in direction for each in directions):
            raise _refusal(f"a comparison {direction}")
        left, right = (self.expression(operand) for operand in op.operands)
        if left[0] != right[0] or {left[1], right[1]} != {frozenset((0,)), frozenset((1,))}:
            raise _refusal("a comparison of different keys of the elements")
        element = str(ir.RankedTensorType(op.operands[0].type).element_type)
        if element.startswith(("f", "bf")) and "TOTALORDER" not in kind:
            # NaN would be equal to everything.
            raise _refusal("a comparison of floats that is not a total order")
        if element.startswith("complex"):
            raise _refusal("a comparison of complex numbers")
        return left[0]

    def verify_order(self, value: ir.Value) -> None:
        """Check that a comparator's value is a lexicographic order of the elements.

        An order is ``lt``, a comparison LT or GT of one key, or ``or(lt, and(eq, rest))``, where
        ``eq`` compares the same key EQ and ``rest`` is an order.

        Args:
            value: boolean value of the comparator, such as its result.

        Raises:
            VerificationError: if the value is not an order.
        """
        while True:
            op = _get_producer(value)
            if op.name == "stablehlo.compare":
                self.verify_comparison(value, ("LT", "GT"))
                return
            if op.name != "stablehlo.or":
                raise _refusal(op.name)
            first, rest = op.operands
            if _get_producer(first).name != "stablehlo.compare":
                first, rest = rest, first
            both = _get_producer(rest)
            if both.name != "stablehlo.and":
                raise _refusal(both.name)
            equal, value = both.operands
            if not self._is_equality(equal):
                equal, value = value, equal
            if self.verify_comparison(first, ("LT", "GT")) != self.verify_comparison(
                equal, ("EQ",)
            ):
                raise _refusal("a test of equality of other keys than the first comparison")

    @staticmethod
    def _is_equality(value: ir.Value) -> bool:
        """Return whether a value is the result of a comparison with direction ``EQ``."""
        op = _get_producer(value)
        is_comparison = op.name == "stablehlo.compare"
        return is_comparison and " EQ>" in str(op.attributes["comparison_direction"])


def verify_comparator(op: ir.Operation) -> None:
    """Check that the comparator of a ``stablehlo.sort`` is an order.

    Raises:
        VerificationError: if not; the message names the unsupported part.
    """
    [block] = op.regions[0].blocks
    *_, end = block.operations
    comparator = _Comparator(block)
    comparator.verify_order(end.operation.operands[0])


def _get_producer(value: ir.Value) -> ir.Operation:
    """Return the operation that defines a value.

    Raises:
        VerificationError: for a block argument, an element of the sorted array.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        raise _refusal("an element itself")
    return owner if isinstance(owner, ir.Operation) else owner.operation


def _refusal(found: str) -> VerificationError:
    """Make the error for a comparator with the part `found`, such as an operation's name."""
    return VerificationError(
        f"the module's sort has a comparator with {found}, expected a lexicographic order of keys"
    )
