"""Building the custom calls of ``runtime/contract.toml``."""

from collections.abc import Mapping, Sequence

from bellhop_mlir._bindings import ir
from bellhop_mlir.dialects.callback import is_token


def custom_call(
    target: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    attributes: Mapping[str, ir.Attribute],
    *,
    has_side_effect: bool,
    in_place: bool = False,
) -> ir.Operation:
    """Build a typed-FFI ``stablehlo.custom_call`` at the insertion point.

    Every buffer is row-major: without that constraint XLA may hand over any layout.  With
    ``in_place`` the first result is written where the first operand was.
    """
    i32 = ir.IntegerType.get_signless(32)
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=list(results),
        operands=list(operands),
        attributes={
            "call_target_name": ir.StringAttr.get(target),
            "has_side_effect": ir.BoolAttr.get(has_side_effect),
            "api_version": ir.IntegerAttr.get(i32, 4),
            "backend_config": ir.DictAttr.get(dict(attributes)),
            "operand_layouts": ir.ArrayAttr.get([_row_major(value.type) for value in operands]),
            "result_layouts": ir.ArrayAttr.get([_row_major(type_) for type_ in results]),
            "output_operand_aliases": ir.ArrayAttr.get(
                [_first_in_place(len(results))] if in_place else []
            ),
        },
    )


def _first_in_place(results: int) -> ir.Attribute:
    output = "[]" if results == 1 else "[0]"
    return ir.Attribute.parse(
        f"#stablehlo.output_operand_alias<output_tuple_indices = {output}, operand_index = 0, "
        "operand_tuple_indices = []>"
    )


def i64(value: int) -> ir.IntegerAttr:
    """Return a 64-bit integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _row_major(type_: ir.Type) -> ir.Attribute:
    rank = 0 if is_token(type_) else ir.RankedTensorType(type_).rank
    order = ", ".join(str(axis) for axis in reversed(range(rank)))
    return ir.Attribute.parse(f"dense<[{order}]> : tensor<{rank}xindex>")
