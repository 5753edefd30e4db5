"""Zeros of any type, in place of values that are never used."""

from bellhop_mlir._bindings import ir, stablehlo


def build_zeros(type_: ir.Type) -> ir.Value:
    """Build an array of zeros of a ranked tensor type, at the current insertion point."""
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(type_).element_type)
    number = stablehlo.constant(ir.Attribute.parse("dense<0> : tensor<i32>"))
    return stablehlo.broadcast_in_dim(type_, stablehlo.convert(scalar, number), [])
