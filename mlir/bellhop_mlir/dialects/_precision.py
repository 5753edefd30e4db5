"""The border between the program's precision and that of the runtime, which is double.

What a program gives in single precision is converted on its way in, and what it asks for in
single precision on its way out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bellhop_mlir._bindings import ir
from bellhop_mlir.dialects._signature import Signature


def as_double(value: ir.Value) -> ir.Value:
    """Return a tensor in double precision."""
    return _convert_to_type(value, _to_double_type(value.type))


@dataclass(frozen=True)
class DoubleSignature(Signature):
    """The signature of an operation whose real and complex numbers are in double precision.

    An operand that the signature allows in several types stays as it is.
    """

    def __call__(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Type] = (), **attributes: Any
    ) -> list[ir.Value]:
        """Build an operation, of operands and with results of either precision."""
        forms = [*self.operands, *[""] * len(operands)]
        given = [
            as_double(operand) if "f64" in form and " or " not in form else operand
            for operand, form in zip(operands, forms, strict=False)
        ]
        values = super().__call__(given, list(map(_to_double_type, results)), **attributes)
        types = self._result_types(operands, results)
        return [_convert_to_type(value, type_) for value, type_ in zip(values, types, strict=True)]


def _to_double_type(type_: ir.Type) -> ir.Type:
    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    if isinstance(element, ir.F32Type):
        return ir.RankedTensorType.get(tensor.shape, ir.F64Type.get())
    if isinstance(element, ir.ComplexType) and isinstance(element.element_type, ir.F32Type):
        return ir.RankedTensorType.get(tensor.shape, ir.ComplexType.get(ir.F64Type.get()))
    return type_


def _convert_to_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return ir.Operation.create("stablehlo.convert", results=[type_], operands=[value]).result
