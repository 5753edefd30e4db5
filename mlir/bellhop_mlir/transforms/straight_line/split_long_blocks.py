"""split-long-blocks: straight-line code with many calls becomes a sequence of functions."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._block_partition import (
    OperationGroup,
    compute_inputs_and_outputs,
    find_blocks,
    keep_in_place,
    outline_part,
)
from bellhop_mlir.passes import Pass


@dataclass(frozen=True)
class SplitLongBlocks(Pass):
    """Move each hundred custom calls of a long block into a function of their own.

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

    XLA's CPU backend plans the execution of a computation in time that is cubic in its calls
    (its transitive reduction of the graph of thunks): 10 000 callbacks took it 144 s, and take
    1 s in parts.  A function that may not be inlined is a computation of its own.

    Args:
        calls: custom calls in a part.  A block of no more than twice as many stays.

    Preconditions: none.  Constants are repeated where they are used, so that what XLA needs to
    see as constant it does.
    """

    needs = ("stablehlo.custom_call",)

    calls: int = 100

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        long = [block for block in find_blocks(module) if _count_calls(block) > 2 * self.calls]
        for block in long:
            parts = self._partition_block(block)
            compute_inputs_and_outputs(parts)
            keep_in_place(parts[-1])
            for number, part in reversed(list(enumerate(parts[:-1], 1))):
                outline_part(module, part, f"part_{number}")
        return bool(long)

    def _partition_block(self, block: ir.Block) -> list[OperationGroup]:
        """Return the parts of a block; what follows the last of them stays in the block."""
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
    return sum(op.operation.name == "stablehlo.custom_call" for op in block.operations)
