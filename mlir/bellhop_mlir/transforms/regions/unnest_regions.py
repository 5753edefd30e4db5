"""unnest-regions: what a region holds for other devices is left to the program."""

from collections.abc import Sequence

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import drop_unused_functions
from bellhop_mlir._op_cost import is_cheap, is_constant
from bellhop_mlir._outline import inline_call, move_to_region
from bellhop_mlir._walk import find_functions, list_operations, symbol_attribute, walk_operations
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass

_HOLDING_BLOCKS = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


class UnnestRegions(Pass):
    """Make regions around what a region holds for other devices, and for the host.

    Before::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} ...
        func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> {
          %a = stablehlo.sine %x
          %b = "callback.accelerate"(%a) {callee = @accelerate_cpu_0__g, device = "cpu:0"} ...
          %c = stablehlo.cosine %b
          return %c
        }

    After::

        %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f_0, device = "cuda:0"} ...
        %b = "callback.accelerate"(%a) {callee = @accelerate_cpu_0__g, device = "cpu:0"} ...
        %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__f_1, device = "cuda:0"} ...

    A device waits while its program calls the host, and may run one program at a time: a region on
    it, which one within the first runs on the host, would wait for ever.  Circuits on quantum
    devices and the progress of loops are the host's too.  Loops and conditionals that hold any of
    these become the program's, and what stands in them regions of the device; conditions, and what
    stands between the operations of a circuit, stay the program's where they are cheap.

    What stands in another operation, such as ``sdy.manual_computation``, stays in the region, and
    is refused later.

    Preconditions: outline-regions ran before.
    """

    needs = ("callback.accelerate",)

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        found = False
        while (region := _find_mixed_region(module)) is not None:
            found = True
            _RegionUnnester(module, region).unnest()
        if found:
            drop_unused_functions(module)
        return found


def _find_mixed_region(module: ir.Module) -> callback.AccelerateOp | None:
    """Return a region of the program that holds what other devices run, where it can be moved."""
    for region in callback.find_host_regions(module):
        if _has_foreign_operations(
            module, list_operations(find_functions(module)[region.callee]), region.device
        ):
            return region
    return None


def _has_foreign_operations(module: ir.Module, ops: Sequence[ir.Operation], device: str) -> bool:
    """Tell whether some of the operations, or of what they call, are of others than a device."""
    by_name, pending, seen = find_functions(module), list(ops), set[str]()
    while pending:
        op = pending.pop()
        if not _can_move(op):
            continue
        if _must_run_outside(op, device):
            return True
        # Only so may what a function holds move: not where a shard_map calls it.
        if op.name in ("func.call", "callback.accelerate") and symbol_attribute(op) not in seen:
            seen.add(symbol_attribute(op))
            pending += list_operations(by_name[symbol_attribute(op)])
    return False


def _must_run_outside(op: ir.Operation, device: str) -> bool:
    """Tell whether an operation is a region of another device, or only the program can do it."""
    if op.name == "callback.accelerate":
        return callback.AccelerateOp(op).device != device
    if op.name == "callback.call":
        return callback.CallOp(op).traits.is_host_only
    return op.name.startswith("quantum.") and op.name != "quantum.seed"


def _can_move(op: ir.Operation) -> bool:
    while (op := op.parent.operation).name != "func.func":
        if op.name not in _HOLDING_BLOCKS:
            return False
    return True


class _RegionUnnester:
    """A region whose operations the program takes apart.

    Args:
        module: the module.
        region: the region.
    """

    def __init__(self, module: ir.Module, region: callback.AccelerateOp) -> None:
        self._module = module
        self._region = region.operation
        self._callee, self._device = region.callee, region.device
        self._location = region.operation.location

    def unnest(self) -> None:
        """Put regions of the device around the others, which become the program's."""
        self._outline_block(self._inline(self._region))

    def _inline(self, call: ir.Operation) -> list[ir.Operation]:
        return inline_call(call, find_functions(self._module)[symbol_attribute(call)])

    def _outline_block(self, ops: Sequence[ir.Operation], *, keeps_cheap: bool = False) -> None:
        """Move what stands in a block to the device, but for what others run, and what holds it.

        Args:
            ops: follow one another.
            keeps_cheap: whether what is cheap stays, as between the operations of a circuit.
        """
        pending, group = list(ops), list[ir.Operation]()
        while pending:
            op = pending.pop(0)
            if not self._is_taken_apart(op):
                group.append(op)
            elif op.name == "func.call":
                pending = self._inline(op) + pending
            else:
                self._outline_group(group, keeps_cheap)
                group = []
                if op.name.startswith("quantum."):
                    keeps_cheap = op.name != "quantum.end"
                for number, region in enumerate(op.regions):
                    *inside, _ = [each.operation for each in region.blocks[0].operations]
                    is_condition = op.name == "stablehlo.while" and number == 0
                    self._outline_block(inside, keeps_cheap=keeps_cheap or is_condition)
        self._outline_group(group, keeps_cheap)

    def _outline_group(self, group: Sequence[ir.Operation], keeps_cheap: bool) -> None:
        """Make a region of operations that follow one another.

        Constants go where they are used, and the program joins its tokens: a region takes one.
        """
        members = [
            op
            for op in group
            if op.name != "stablehlo.after_all"
            and not (len(op.results) and is_constant(op.results[0]))
        ]
        by_name = find_functions(self._module)
        if not members or (keeps_cheap and all(is_cheap(op, by_name) for op in members)):
            return
        with self._location:
            move_to_region(self._module, members, self._device, self._callee)

    def _is_taken_apart(self, op: ir.Operation) -> bool:
        if op.name == "callback.accelerate":
            return True
        return _has_foreign_operations(self._module, walk_operations(op), self._device)
