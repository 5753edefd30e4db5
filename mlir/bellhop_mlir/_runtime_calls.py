"""Construction of the custom calls in ``runtime/contract.toml``."""

from collections.abc import Hashable, Mapping, Sequence

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import find_operations, replace_operation, string_attribute, types_of_values
from bellhop_mlir.dialects._contract import CUSTOM_CALLS
from bellhop_mlir.dialects.callback import is_token


class RuntimeCallBuilder:
    """Builds the custom calls with which a module calls the runtime.

    A conversion pass makes one instance for a run over one module. The attributes that depend only
    on target and types, such as layouts, are cached, as a module may have thousands of equal calls.
    """

    def __init__(self) -> None:
        self._version = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4)
        self._layouts: dict[int, ir.Attribute] = {}
        self._common_attributes: dict[Hashable, dict[str, ir.Attribute]] = {}

    def replace(
        self,
        op: ir.Operation,
        target: str,
        operands: Sequence[ir.Value],
        attributes: Mapping[str, ir.Attribute],
        *,
        has_side_effect: bool = True,
        aliases: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Replace an operation by a typed-FFI ``stablehlo.custom_call``.

        Args:
            op: the operation, which is erased. The call has the same result types and location.
            target: name of the custom call, a key of ``runtime/contract.toml``.
            operands: the call's operands.
            attributes: the call's attributes for the runtime, which become its ``backend_config``.
            has_side_effect: whether XLA must keep the call: not drop, merge or hoist it.
            aliases: pairs of the index of an operand and the index of the result that reuses its
                memory.
        """
        results = self.create(
            target,
            operands,
            types_of_values(op.results),
            attributes,
            has_side_effect=has_side_effect,
            aliases=aliases,
            ip=ir.InsertionPoint(op),
            loc=op.location,
        )
        replace_operation(op, results)

    def create(
        self,
        target: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute],
        *,
        has_side_effect: bool = True,
        aliases: Sequence[tuple[int, int]] = (),
        ip: ir.InsertionPoint | None = None,
        loc: ir.Location | None = None,
    ) -> list[ir.Value]:
        """Create a typed-FFI ``stablehlo.custom_call`` and return its results.

        Every buffer is row-major; without this constraint XLA may choose any layout.

        Args:
            target: name of the custom call, a key of ``runtime/contract.toml``.
            operands: the operands.
            results: types of the call's results.
            attributes: the call's attributes for the runtime, which become its ``backend_config``.
            has_side_effect: whether XLA must keep the call: not drop, merge or hoist it.
            aliases: pairs of the index of an operand and the index of the result that reuses its
                memory.
            ip: where the call is inserted; None for the context's current insertion point.
            loc: the call's location; None for the context's current location.
        """
        inputs = types_of_values(operands)
        key = target, has_side_effect, tuple(aliases), tuple(inputs), tuple(results)
        if key not in self._common_attributes:
            self._common_attributes[key] = {
                "call_target_name": ir.StringAttr.get(target),
                "has_side_effect": ir.BoolAttr.get(has_side_effect),
                "api_version": self._version,
                "operand_layouts": self._row_major_layouts(inputs),
                "result_layouts": self._row_major_layouts(results),
                "output_operand_aliases": ir.ArrayAttr.get(
                    [_make_alias(operand, result, len(results)) for operand, result in aliases]
                ),
            }
        call = ir.Operation.create(
            "stablehlo.custom_call",
            results=list(results),
            operands=list(operands),
            attributes={
                **self._common_attributes[key],
                "backend_config": ir.DictAttr.get(dict(attributes)),
            },
            ip=ip,
            loc=loc,
        )
        return list(call.results)

    def _row_major_layouts(self, types: Sequence[ir.Type]) -> ir.ArrayAttr:
        """Build the attribute with a row-major layout for each operand or result type."""
        return ir.ArrayAttr.get([self._layout(_rank(type_)) for type_ in types])

    def _layout(self, rank: int) -> ir.Attribute:
        """Return the row-major layout of an array: ``dense<[1, 0]>`` for rank 2."""
        if rank not in self._layouts:
            order = ", ".join(str(axis) for axis in reversed(range(rank)))
            self._layouts[rank] = ir.Attribute.parse(f"dense<[{order}]> : tensor<{rank}xindex>")
        return self._layouts[rank]


def find_runtime_calls(module: ir.Module) -> frozenset[str]:
    """Return the names of the custom calls in a module that Bellhop's runtime implements."""
    calls = find_operations(module.operation, "stablehlo.custom_call")
    return CUSTOM_CALLS & {string_attribute(call, "call_target_name") for call in calls}


def _rank(type_: ir.Type) -> int:
    """Return the number of axes of a tensor type; 0 for a token."""
    return 0 if is_token(type_) else ir.RankedTensorType(type_).rank


def _make_alias(operand: int, result: int, results: int) -> ir.Attribute:
    """Build StableHLO's attribute for one result that reuses the memory of an operand.

    Args:
        operand: index of the operand.
        result: index of the result.
        results: number of results of the call; with one result, StableHLO writes no index.
    """
    output = "[]" if results == 1 else f"[{result}]"
    return ir.Attribute.parse(
        f"#stablehlo.output_operand_alias<output_tuple_indices = {output}, operand_index = "
        f"{operand}, operand_tuple_indices = []>"
    )
