"""fuse-accelerate: merge neighbouring regions on the same device."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import (
    drop_unused_functions,
    find_functions_containing,
    find_host_functions,
    iterate_references,
)
from bellhop_mlir._dependence import DependenceGraph
from bellhop_mlir._op_cost import is_cheap
from bellhop_mlir._outline import inline_containing_functions, outline_region
from bellhop_mlir._purity import find_impure_functions, is_pure
from bellhop_mlir._walk import find_functions, list_blocks, list_operations, walk_operations
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass


class FuseAccelerate(Pass):
    """Merge regions on the same device, so that values between them stay there.

    A region is a ``callback.accelerate``, which runs a function on another device.

    Before::

        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %a = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} ...
          %b = stablehlo.negate %a : tensor<f64>
          %c = "callback.accelerate"(%b) {callee = @accelerate_cuda_0__g, device = "cuda:0"} ...
          return %c : tensor<f64>
        }

    After::

        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %c = "callback.accelerate"(%x) {callee = @fused__f, device = "cuda:0"} ...
          return %c : tensor<f64>
        }
        func.func private @fused__f(%x: tensor<f64>) -> tensor<f64> {
          %a = func.call @accelerate_cuda_0__f(%x) : (tensor<f64>) -> tensor<f64>
          %b = stablehlo.negate %a : tensor<f64>
          %c = func.call @accelerate_cuda_0__g(%b) : (tensor<f64>) -> tensor<f64>
          return %c : tensor<f64>
        }

    Operations between two regions become part of the merged region if they are cheap
    (``_op_cost.py``): elementwise operations, slices, reductions.  Independent regions are merged
    too, for one call instead of two.  A loop that contains only regions on one device and cheap
    operations becomes a region, so that its carried values stay on the device.  Functions that
    contain regions and are called once, such as the body of ``lax.scan``, are inlined first.

    Two regions are not merged if a circuit, a callback or a region on another device waits for the
    first, or if the second waits for such an operation that could run concurrently with the first.

    Preconditions: inline-accelerate ran before, so that all regions are on other devices.
    """

    needs = ("callback.accelerate",)

    def apply(self, module: ir.Module) -> bool:
        """Merge regions on the same device, in place.

        Returns:
            True, also if no regions were merged, since functions may have been inlined.
        """
        inline_containing_functions(module, lambda op: op.name == "callback.accelerate")
        for function in find_host_functions(module):
            for block in reversed(list_blocks(function)):
                while _fuse_loop(module, block) or _fuse_two(module, block):
                    pass
        drop_unused_functions(module)
        return True


def _fuse_loop(module: ir.Module, block: ir.Block) -> bool:
    """Outline one loop of a block to a function that runs on another device.

    The loop must contain a region (a ``callback.accelerate``, which runs a function on a device)
    and otherwise only regions on the same device and cheap operations (`is_cheap`); the regions
    must be pure. They become part of the new region's function.

    Returns:
        whether ``block`` had such a loop; the pass calls again until it has none.
    """
    by_name = find_functions(module)
    for op in block.operations:
        loop = op.operation
        if loop.name != "stablehlo.while":
            continue
        inside = list_operations(loop)
        regions = [each for each in inside if each.name == "callback.accelerate"]
        if (
            len({_device_name(each) for each in regions}) == 1
            and all(
                each.name == "callback.accelerate" or is_cheap(each, by_name) for each in inside
            )
            and _has_pure_regions(module, regions)
        ):
            outline_region(module, [loop], _device_name(regions[0]))
            return True
    return False


def _fuse_two(module: ir.Module, block: ir.Block) -> bool:
    """Merge two regions of a block, with the cheap operations between them.

    A region is a ``callback.accelerate``, which runs a function on another device. Both must be
    pure and on the same device. The operations on data paths from the first to the second must be
    cheap (`is_cheap`), and become part of the merged region. Any further operation between the two
    that depends on the first, or on which the second depends, must be pure, and must not be a
    callback, circuit or region.

    Returns:
        whether ``block`` had such a pair; the pass calls again until it has none.
    """
    if sum(op.operation.name == "callback.accelerate" for op in block.operations) < 2:
        return False
    by_name = find_functions(module)
    impure = find_impure_functions(module)
    dependence = DependenceGraph(block)
    all_ops = dependence.operations
    regions = [
        i
        for i, op in enumerate(all_ops)
        if op.name == "callback.accelerate" and is_pure(op, impure)
    ]

    calling_out = find_functions_containing(module, _leaves_device)

    def is_light(i: int) -> bool:
        """Return whether an operation is pure, and not a callback, circuit or region.

        A merged region may start and end later than its parts, so only such operations may wait for
        it or be awaited by it. ``i`` is the operation's index in the block; nested operations and
        callees are checked too.
        """
        return is_pure(all_ops[i], impure) and not any(
            op.name.startswith("callback.") or not calling_out.isdisjoint(iterate_references(op))
            for op in walk_operations(all_ops[i])
        )

    for place, second in enumerate(regions):
        before_second = dependence.find_dependencies(second)
        after_second = dependence.find_dependents(second)
        for first in reversed(regions[:place]):
            if _device_name(all_ops[first]) != _device_name(all_ops[second]):
                continue
            after_first = dependence.find_dependents(first)
            path = after_first & before_second
            # Operations that wait for both regions once they are merged, and operations that the
            # merged region waits for.
            waiting = {i for i in after_first - path - after_second if i < second}
            awaited = {
                i
                for i in before_second - path - dependence.find_dependencies(first)
                if first < i < second
            } - {first}
            if not all(is_cheap(all_ops[i], by_name) for i in path):
                continue
            if not all(is_light(i) for i in (waiting | awaited) - {second}):
                continue
            members = [all_ops[i] for i in sorted({first, second} | path)]
            waiting_ops = [all_ops[i] for i in sorted(waiting - {second})]
            anchor = members[-1]
            for op in waiting_ops:
                op.move_after(anchor)
                anchor = op
            outline_region(module, members, _device_name(all_ops[first]))
            return True
    return False


def _leaves_device(op: ir.Operation) -> bool:
    """Return whether an operation is in the dialect ``callback`` or ``quantum``."""
    return op.name.startswith(("callback.", "quantum."))


def _has_pure_regions(module: ir.Module, regions: list[ir.Operation]) -> bool:
    """Return whether no ``callback.accelerate`` in a list has side effects."""
    impure = find_impure_functions(module)
    return all(is_pure(op, impure) for op in regions)


def _device_name(op: ir.Operation) -> str:
    """Return the device, as ``platform:id``, of a ``callback.accelerate``."""
    return callback.AccelerateOp(op).device
