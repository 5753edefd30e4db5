"""split-long-blocks: split code with many custom calls into functions."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._block_partition import (
    OperationGroup,
    compute_inputs_and_outputs,
    find_blocks,
    keep_in_place,
    outline_group,
)
from bellhop_mlir.passes import Pass


@dataclass(frozen=True)
class SplitLongBlocks(Pass):
    """Move the operations of long blocks into functions of 100 custom calls each.

    Before, with ``calls=1``::

        %0 = stablehlo.custom_call @bellhop_callback(%table, %x) ...
        %1 = stablehlo.add %0, %x : tensor<f64>
        %2 = stablehlo.custom_call @bellhop_callback(%table, %1) ...
        %3 = stablehlo.custom_call @bellhop_callback(%table, %2) ...
        return %3 : tensor<f64>

    After::

        %0 = call @main_part_1(%table, %x) {mhlo.frontend_attributes = {inlineable = "false"}} ...
        %1 = call @main_part_2(%0, %x, %table) {...} ...
        %2 = call @main_part_3(%table, %1) {...} ...
        return %2 : tensor<f64>

    XLA's CPU backend takes time cubic in the number of calls of a computation (for the transitive
    reduction of the graph of thunks): 144 s for 10 000 callbacks, and 1 s after this pass.  A
    function that must not be inlined is a separate computation.

    Args:
        calls: number of custom calls in a function.  Blocks with at most twice this number stay.

    Preconditions: none.  Constants are duplicated where they are used, since XLA needs some
    operands to be constant.
    """

    needs = ("stablehlo.custom_call",)

    calls: int = 100

    def apply(self, module: ir.Module) -> bool:
        """Move parts of long blocks into functions; return False if no block is long."""
        long = [block for block in find_blocks(module) if _count_calls(block) > 2 * self.calls]
        for block in long:
            parts = self._partition_block(block)
            compute_inputs_and_outputs(parts)
            keep_in_place(parts[-1])
            for number, part in reversed(list(enumerate(parts[:-1], 1))):
                outline_group(module, part, f"part_{number}")
        return bool(long)

    def _partition_block(self, block: ir.Block) -> list[OperationGroup]:
        """Partition a block into groups with at most ``calls`` custom calls each.

        Returns:
            the groups in order, still without inputs and outputs. The last one, with the
            terminator, is to stay in the block.
        """
        parts = [OperationGroup()]
        calls = 0
        for op in block.operations:
            if calls == self.calls:
                parts.append(OperationGroup())
                calls = 0
            parts[-1].operations.append(op.operation)
            calls += op.operation.name == "stablehlo.custom_call"
        return parts


def _count_calls(block: ir.Block) -> int:
    """Return the number of ``stablehlo.custom_call`` operations directly in a block."""
    return sum(op.operation.name == "stablehlo.custom_call" for op in block.operations)
