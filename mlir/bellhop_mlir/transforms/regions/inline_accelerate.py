"""inline-accelerate: inline regions on the program's own device."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import (
    build_call_graph,
    drop_unused_functions,
    find_reachable,
)
from bellhop_mlir._outline import inline_call
from bellhop_mlir._walk import find_enclosing_function, find_functions, symbol_attribute
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass


@dataclass(frozen=True)
class InlineAccelerate(Pass):
    """Inline the regions whose device is the program's device.

    A region is a ``callback.accelerate``, which runs a function on a device.

    Before::

        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = "callback.accelerate"(%x) {callee = @accelerate_cpu_0__sin, device = "cpu:0"} ...
          return %y : tensor<f64>
        }
        func.func private @accelerate_cpu_0__sin(%x: tensor<f64>) -> tensor<f64> {
          %y = stablehlo.sine %x : tensor<f64>
          return %y : tensor<f64>
        }

    After::

        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = stablehlo.sine %x : tensor<f64>
          return %y : tensor<f64>
        }

    Functions without callers are dropped.  Regions in a function that is also part of a region on
    another device are not inlined: this would move them to that device.

    Args:
        device: the program's own device, as ``platform:id``.

    Preconditions: no region is recursive, which the verifier checks.
    """

    needs = ("callback.accelerate",)

    device: str = "cpu:0"

    def apply(self, module: ir.Module) -> bool:
        """Inline regions on the program's device; return False if there are none."""
        found = False
        # A region may contain regions, which are found after its body is inlined.
        while regions := self._find_inlinable(module):
            found = True
            by_name = find_functions(module)
            for op in regions:
                inline_call(op, by_name[symbol_attribute(op)])
        if found:
            drop_unused_functions(module)
        return found

    def _find_inlinable(self, module: ir.Module) -> list[ir.Operation]:
        """Return the ``callback.accelerate`` operations on the program's device to inline.

        Regions in a function that a region on another device also reaches are left out.
        """
        regions = callback.find_host_regions(module)
        elsewhere = find_reachable(
            build_call_graph(module), {op.callee for op in regions if op.device != self.device}
        )
        return [
            op.operation
            for op in regions
            if op.device == self.device and find_enclosing_function(op.operation) not in elsewhere
        ]
