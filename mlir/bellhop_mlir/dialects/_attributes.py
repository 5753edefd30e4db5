"""The rule that all our operations have: which attributes, and of which types."""

from collections.abc import Callable, Mapping

from bellhop_mlir._bindings import ir
from bellhop_mlir.errors import VerificationError

# In the words of runtime/contract.toml, where the runtime sees the attribute too.
_TYPES: dict[str, Callable[[ir.Attribute], bool]] = {
    "string": lambda attribute: isinstance(attribute, ir.StringAttr),
    "bool": lambda attribute: isinstance(attribute, ir.BoolAttr),
    "i64": lambda attribute: isinstance(attribute, ir.IntegerAttr) and str(attribute.type) == "i64",
    "array<i64>": lambda attribute: isinstance(attribute, ir.DenseI64ArrayAttr),
    "array<f64>": lambda attribute: isinstance(attribute, ir.DenseF64ArrayAttr),
    "symbol": lambda attribute: isinstance(attribute, ir.FlatSymbolRefAttr),
    "function type": lambda attribute: (
        isinstance(attribute, ir.TypeAttr) and isinstance(attribute.value, ir.FunctionType)
    ),
}


def require_attributes(op: ir.Operation, types: Mapping[str, str]) -> None:
    """Check that ``op`` has the attributes that ``types`` names, each of its type."""
    for name, type_ in types.items():
        if name not in op.attributes:
            raise VerificationError(f"{op.name} lacks the attribute '{name}'")
        attribute = op.attributes[name]
        if not _TYPES[type_](attribute):
            raise VerificationError(
                f"the attribute '{name}' of {op.name} is {attribute}, but must be of type {type_}"
            )
