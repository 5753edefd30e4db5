"""Classification of operations that are cheaper than a transfer of their operands."""

from collections.abc import Mapping

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import find_producer, list_operations, symbol_attribute

# Elementwise operations, and operations that rearrange elements or reduce their number.
_NAMES = (
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast_convert",
    "broadcast",
    "broadcast_in_dim",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "concatenate",
    "constant",
    "convert",
    "cosine",
    "count_leading_zeros",
    "divide",
    "dynamic_slice",
    "dynamic_update_slice",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "iota",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "pad",
    "popcnt",
    "power",
    "real",
    "reduce",
    "remainder",
    "reshape",
    "return",
    "reverse",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "slice",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "transpose",
    "xor",
)
# fmt: on
_CHEAP = frozenset(f"stablehlo.{name}" for name in _NAMES)
_NOT_CHEAP_CHLO = ("chlo.top_k", "chlo.ragged_dot")

# Operations that keep a constant constant.
_CONSTANT_PRESERVING = ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape")


def is_cheap(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> bool:
    """Return whether an operation costs less than a copy of its operands between devices.

    Such operations are elementwise, or rearrange or reduce elements. A call is cheap if all
    operations of its function are. Loops, conditionals and ``callback.accelerate``, which runs a
    function on another device, are never cheap. Passes move cheap operations to the device of
    neighbouring operations to save copies.

    Args:
        op: the operation; operations nested in it, such as the body of a ``stablehlo.reduce``, and
            functions that it calls are checked too.
        functions: the ``func.func`` operations of its module, by symbol.
    """
    if op.name == "func.call":
        body = list_operations(functions[symbol_attribute(op)])
        return all(each.name == "func.return" or is_cheap(each, functions) for each in body)
    is_cheap_itself = op.name in _CHEAP or (
        op.name.startswith("chlo.") and op.name not in _NOT_CHEAP_CHLO
    )
    return is_cheap_itself and all(is_cheap(each, functions) for each in list_operations(op))


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is a constant, possibly reshaped, broadcast or converted.

    A ``stablehlo.iota`` counts as a constant. A function that runs on another device contains
    copies of its constants, which therefore need no transfer.
    """
    op = find_producer(value)
    if op is None:
        return False
    if op.name in ("stablehlo.constant", "stablehlo.iota"):
        return True
    return op.name in _CONSTANT_PRESERVING and is_constant(op.operands[0])
