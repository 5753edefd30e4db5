"""outline-regions: calls of accelerated functions become regions of their own."""

import re

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import named, replace, symbol, types
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass

# What accelerate() of the frontend calls its jitted functions; JAX's transformations
# may lengthen the end of a name but keep its beginning.
_REGION_NAME = re.compile(r"accelerate_(?P<platform>[a-z]+)_(?P<id>\d+)__")


class OutlineRegions(Pass):
    """Turn calls of functions that are named as accelerated into ``callback.accelerate``.

    Before::

        %y = func.call @accelerate_cuda_0__expm(%x) : (tensor<2xf64>) -> tensor<2xf64>

    After::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__expm, device = "cuda:0"}
            : (tensor<2xf64>) -> tensor<2xf64>

    Calls inside an accelerated function become regions too: they may name another device.
    """

    def apply(self, module: ir.Module) -> bool:
        """Change ``module`` in place; return False where nothing changed."""
        found = False
        for op in named(module.operation, "func.call"):
            callee = symbol(op)
            match = _REGION_NAME.match(callee)
            if match is None:
                continue
            found = True
            device = f"{match['platform']}:{match['id']}"
            with ir.InsertionPoint(op), op.location:
                region = callback.accelerate(callee, device, list(op.operands), types(op.results))
            replace(op, list(region.results))
        return found
