"""unnest-regions: move operations of other devices out of regions."""

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
    """Split regions that contain operations of other devices or of the host.

    A region is a ``callback.accelerate``, which runs a function on a device.

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

    A device waits while its program calls the host, and may run one program at a time: if the
    called host region contained a region on the same device, it would deadlock.  Circuits on
    quantum devices and progress bars of loops run on the host too.  Loops and conditionals that
    contain such operations become part of the program, and the remaining operations inside of them
    become regions on the device; cheap conditions, and cheap operations between the operations of a
    circuit, become part of the program.

    Operations inside of other operations, such as ``sdy.manual_computation``, stay in the region;
    convert-accelerate-to-runtime raises an error for them.

    Preconditions: outline-regions ran before.
    """

    needs = ("callback.accelerate",)

    def apply(self, module: ir.Module) -> bool:
        """Split regions with operations of other devices; return False if there are none."""
        found = False
        while (region := _find_mixed_region(module)) is not None:
            found = True
            _RegionUnnester(module, region).unnest()
        if found:
            drop_unused_functions(module)
        return found


def _find_mixed_region(module: ir.Module) -> callback.AccelerateOp | None:
    """Return a ``callback.accelerate`` whose function must be split, or None.

    The function has operations that its device cannot run and that can move out of it.
    """
    for region in callback.find_host_regions(module):
        if _has_foreign_operations(
            module, list_operations(find_functions(module)[region.callee]), region.device
        ):
            return region
    return None


def _has_foreign_operations(module: ir.Module, ops: Sequence[ir.Operation], device: str) -> bool:
    """Return whether some operation, also in a callee, cannot run on a device.

    Such an operation must run outside of the function that runs on the device. Operations that
    cannot move out of the function do not count (`_can_move`).

    Args:
        module: the module.
        ops: the operations; nested operations must be listed too.
        device: the device, as ``platform:id``.
    """
    by_name, pending, seen = find_functions(module), list(ops), set[str]()
    while pending:
        op = pending.pop()
        if not _can_move(op):
            continue
        if _must_run_outside(op, device):
            return True
        # The operations of a function can move only if its call can: not out of a shard_map.
        if op.name in ("func.call", "callback.accelerate") and symbol_attribute(op) not in seen:
            seen.add(symbol_attribute(op))
            pending += list_operations(by_name[symbol_attribute(op)])
    return False


def _must_run_outside(op: ir.Operation, device: str) -> bool:
    """Return whether an operation cannot run inside of a function on a device.

    Such operations are a ``callback.accelerate`` for another device, progress bars and operations
    of circuits, except ``quantum.seed``.

    Args:
        op: the operation; nested operations and callees are not checked.
        device: device on which the function runs, as ``platform:id``.
    """
    if op.name == "callback.accelerate":
        return callback.AccelerateOp(op).device != device
    if op.name == "callback.call":
        return callback.CallOp(op).traits.is_host_only
    return op.name.startswith("quantum.") and op.name != "quantum.seed"


def _can_move(op: ir.Operation) -> bool:
    """Return whether only loops and conditionals enclose an operation in its function.

    If the function runs on another device, the operation can then be taken out of it: the loops and
    conditionals become part of the program.
    """
    while (op := op.parent.operation).name != "func.func":
        if op.name not in _HOLDING_BLOCKS:
            return False
    return True


class _RegionUnnester:
    """Splits a region into smaller regions and operations of the program.

    A region is a ``callback.accelerate``, which runs a function on a device. The pass makes an
    instance for a region, and calls `unnest` once.

    Args:
        module: the module.
        region: the ``callback.accelerate``, with operations that must run outside of it.
    """

    def __init__(self, module: ir.Module, region: callback.AccelerateOp) -> None:
        self._module = module
        self._region = region.operation
        self._callee, self._device = region.callee, region.device
        self._location = region.operation.location

    def unnest(self) -> None:
        """Inline the region's function, and outline groups of its operations as regions.

        Operations that must run outside of a region stay in the program.
        """
        self._outline_block(self._inline(self._region))

    def _inline(self, call: ir.Operation) -> list[ir.Operation]:
        """Inline a ``func.call`` or ``callback.accelerate``; return the inlined operations."""
        return inline_call(call, find_functions(self._module)[symbol_attribute(call)])

    def _outline_block(self, ops: Sequence[ir.Operation], *, keeps_cheap: bool = False) -> None:
        """Move operations of the program into functions that run on the region's device.

        There is one function, with a ``callback.accelerate``, for each group of operations between
        operations that cannot run on the device. Loops and conditionals around the latter stay, and
        their blocks are split in the same way.

        Args:
            ops: consecutive operations of the program.
            keeps_cheap: whether groups of cheap operations stay in the program: in the condition of
                a loop, and between the operations of a circuit.
        """
        pending, group = list(ops), list[ir.Operation]()
        while pending:
            op = pending.pop(0)
            if not self._must_split(op):
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
        """Move operations into one function that runs on the region's device.

        Constants and ``stablehlo.after_all`` stay in the program: each region gets its own copy of
        a constant, and takes only one token.

        Args:
            group: the operations, in program order.
            keeps_cheap: whether the group stays in the program if all its operations are cheap.
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

    def _must_split(self, op: ir.Operation) -> bool:
        """Return whether an operation is or contains one that cannot run on the device.

        Every ``callback.accelerate`` counts as such, also on the region's own device.
        """
        if op.name == "callback.accelerate":
            return True
        return _has_foreign_operations(self._module, walk_operations(op), self._device)
