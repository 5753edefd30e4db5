"""Conversion between a program's precision and the runtime's double precision.

Single-precision operands are converted to double, and results back to single.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bellhop_mlir._bindings import ir
from bellhop_mlir.dialects._signature import Signature


def to_double(value: ir.Value) -> ir.Value:
    """Convert a tensor to double precision."""
    return _convert_to_type(value, _to_double_type(value.type))


@dataclass(frozen=True)
class DoubleSignature(Signature):
    """Signature of an operation of the quantum dialect, with double-precision numbers.

    A call of an instance builds the operation. Operands of single precision are converted to double
    before it, and its results are converted to the types that the caller gives. Operands that the
    signature allows in several types are not converted.
    """

    def __call__(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Type] = (), **attributes: Any
    ) -> list[ir.Value]:
        """Build the operation, and conversions from and to single precision.

        Args:
            operands: the operands, in single or double precision.
            results: types of the results whose type the signature leaves open, in single or double
                precision.
            **attributes: values of the attributes, by name.

        Returns:
            the results, converted to ``results`` where these are in single precision.
        """
        forms = [*self.operands, *[""] * len(operands)]
        converted = [
            to_double(operand) if "f64" in form and " or " not in form else operand
            for operand, form in zip(operands, forms, strict=False)
        ]
        values = super().__call__(converted, list(map(_to_double_type, results)), **attributes)
        types = self._result_types(operands, results)
        return [_convert_to_type(value, type_) for value, type_ in zip(values, types, strict=True)]


def _to_double_type(type_: ir.Type) -> ir.Type:
    """Return the double-precision type of a tensor type.

    ``f32`` elements become ``f64``, ``complex<f32>`` become ``complex<f64>``; types with other
    elements are returned as they are.
    """
    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    if isinstance(element, ir.F32Type):
        return ir.RankedTensorType.get(tensor.shape, ir.F64Type.get())
    if isinstance(element, ir.ComplexType) and isinstance(element.element_type, ir.F32Type):
        return ir.RankedTensorType.get(tensor.shape, ir.ComplexType.get(ir.F64Type.get()))
    return type_


def _convert_to_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    """Convert a tensor to a type of the same shape, unless it has this type already."""
    if value.type == type_:
        return value
    return ir.Operation.create("stablehlo.convert", results=[type_], operands=[value]).result
