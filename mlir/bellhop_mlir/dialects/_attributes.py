"""Attributes of Bellhop's operations: construction from Python values, and checks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bellhop_mlir._bindings import ir
from bellhop_mlir.errors import VerificationError


class _AttributeType(NamedTuple):
    """A type of attributes in ``runtime/contract.toml``, such as ``array<i64>``.

    Attributes:
        make: converts a Python value to an attribute of this type.
        fits: returns whether an attribute has this type.
    """

    make: Callable[[Any], ir.Attribute]
    fits: Callable[[ir.Attribute], bool]


def _make_class_type(class_: Any) -> _AttributeType:
    """Make the type of all attributes of one MLIR class, such as ``ir.StringAttr``."""
    return _AttributeType(class_.get, lambda attribute: isinstance(attribute, class_))


def make_i64(value: int) -> ir.IntegerAttr:
    """Convert an integer to a signless 64-bit integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))


def _is_i64(attribute: ir.Attribute) -> bool:
    """Return whether an attribute is a signless 64-bit integer."""
    if not isinstance(attribute, ir.IntegerAttr):
        return False
    type_ = attribute.type
    return isinstance(type_, ir.IntegerType) and type_.width == 64 and type_.is_signless


def _is_function_type(attribute: ir.Attribute) -> bool:
    """Return whether an attribute contains the type of a function."""
    return isinstance(attribute, ir.TypeAttr) and isinstance(attribute.value, ir.FunctionType)


# Attribute types by their names in runtime/contract.toml.
_TYPES = {
    "string": _make_class_type(ir.StringAttr),
    "bool": _make_class_type(ir.BoolAttr),
    "i64": _AttributeType(make_i64, _is_i64),
    "array<i64>": _make_class_type(ir.DenseI64ArrayAttr),
    "array<f64>": _make_class_type(ir.DenseF64ArrayAttr),
    "symbol": _make_class_type(ir.FlatSymbolRefAttr),
    "function type": _AttributeType(ir.TypeAttr.get, _is_function_type),
}


def make_attributes(types: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, ir.Attribute]:
    """Convert Python values to the attributes of an operation.

    Args:
        types: for each attribute's name, its type as in ``runtime/contract.toml``: ``{"code":
            "array<i64>"}``.
        values: for each attribute's name, its value: ``{"code": [0, 3]}``. A value that is an
            ``ir.Attribute`` stays as it is, and its type is not checked.

    Returns:
        the attributes by name, with the names of ``values``.
    """
    return {
        name: value if isinstance(value, ir.Attribute) else _TYPES[types[name]].make(value)
        for name, value in values.items()
    }


def require_attributes(op: ir.Operation, types: Mapping[str, str]) -> None:
    """Check that an operation has all attributes of a signature, with their types.

    Further attributes of the operation are ignored.

    Args:
        op: the operation.
        types: for each required attribute's name, its type as in ``runtime/contract.toml``.

    Raises:
        VerificationError: for a missing attribute, or an attribute of another type.
    """
    for name, type_ in types.items():
        if name not in op.attributes:
            raise VerificationError(f"{op.name} lacks the attribute '{name}'")
        attribute = op.attributes[name]
        if not _TYPES[type_].fits(attribute):
            raise VerificationError(
                f"the attribute '{name}' of {op.name} is {attribute}, but must be of type {type_}"
            )
