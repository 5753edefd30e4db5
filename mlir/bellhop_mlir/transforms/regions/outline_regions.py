"""outline-regions: turn calls of accelerated functions into regions."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import find_operations, replace_operation, symbol_attribute, types_of_values
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.region_name import RegionName


class OutlineRegions(Pass):
    """Turn calls of functions named ``accelerate_...`` into ``callback.accelerate``.

    The frontend gives such names to the functions that the user runs with ``bellhop.accelerate``;
    a ``callback.accelerate`` (a region) runs its function on a device.

    Before::

        %y = func.call @accelerate_cuda_0__expm(%x) : (tensor<2xf64>) -> tensor<2xf64>

    After::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__expm, device = "cuda:0"}
            : (tensor<2xf64>) -> tensor<2xf64>

    Calls inside an accelerated function become regions too: they may name another device.
    """

    needs = ("func.call",)

    def apply(self, module: ir.Module) -> bool:
        """Turn calls of accelerated functions into regions; return False if there are none."""
        found = False
        for op in find_operations(module.operation, "func.call"):
            callee = symbol_attribute(op)
            name = RegionName.parse(callee)
            if name is None:
                continue
            found = True
            with ir.InsertionPoint(op), op.location:
                region = callback.build_accelerate(
                    callee, name.device, list(op.operands), types_of_values(op.results)
                )
            replace_operation(op, list(region.results))
        return found
