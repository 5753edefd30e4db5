"""place-results: put results of the program onto the devices that its caller chose."""

from dataclasses import dataclass

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._purity import find_impure_functions
from bellhop_mlir._walk import find_functions, find_producer, make_unique_symbol
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.region_name import RegionName


@dataclass(frozen=True)
class PlaceResults(Pass):
    """Make each result with a requested device the result of a region on the device.

    A region is a ``callback.accelerate``, which runs a function on a device.

    Before, with ``devices="cuda:0,"``::

        func.func public @main(...) -> (tensor<f64>, tensor<8xf64>) { ... return %y, %z }

    After::

        func.func public @main(...) -> (tensor<f64>, tensor<8xf64>) {
          ...
          %p = "callback.accelerate"(%y) {callee = @accelerate_cuda_0__result, device = "cuda:0"}
          return %p, %z
        }
        func.func private @accelerate_cuda_0__result(%x: tensor<f64>) -> tensor<f64> { return %x }

    Later, fuse-accelerate merges the region with regions before it, and keep-on-device makes the
    program return a handle of the result.

    Args:
        devices: for each result, tokens not counted, its device as ``platform:id``, or nothing;
            separated by commas.

    Preconditions: there is a ``@main``.
    """

    needs = ("func.func",)

    devices: str = ""

    def apply(self, module: ir.Module) -> bool:
        """Place the results of ``@main`` on ``devices``; return False if nothing changes."""
        devices = {place: device for place, device in enumerate(self.devices.split(",")) if device}
        if not devices:
            return False
        main = find_functions(module)["main"]
        *_, end = main.regions[0].blocks[0].operations
        tokens = sum(callback.is_token(value.type) for value in end.operands)
        impure = find_impure_functions(module)
        callees: dict[tuple[str, ir.Type], str] = {}
        for place, device in devices.items():
            value = end.operands[tokens + place]
            if _is_pure_on_device(find_producer(value), device, impure):
                continue
            if (device, value.type) not in callees:
                callees[device, value.type] = _declare_identity(module, device, value.type)
            with ir.InsertionPoint(end), main.location:
                placed = callback.build_accelerate(
                    callees[device, value.type], device, [value], [value.type]
                )
            end.operands[tokens + place] = placed.results[0]
        return bool(callees)


def _is_pure_on_device(op: ir.Operation | None, device: str, impure: set[str]) -> bool:
    """Return whether a pure ``callback.accelerate`` on a device computes a value.

    The value can then stay on the device.

    Args:
        op: the operation that computes the value; None for a block argument.
        device: the device, as ``platform:id``.
        impure: symbols of functions with side effects.
    """
    if op is None or op.name != "callback.accelerate":
        return False
    region = callback.AccelerateOp(op)
    return region.device == device and region.callee not in impure


def _declare_identity(module: ir.Module, device: str, type_: ir.Type) -> str:
    """Add a function that returns its argument to a module; return its symbol.

    Args:
        module: the module.
        device: device in the symbol, which is ``accelerate_cuda_0__result`` for ``cuda:0``; gets a
            number if the module has the symbol already.
        type_: type of the argument.
    """
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        name = make_unique_symbol(module, str(RegionName(device, "result")))
        function = func.FuncOp(name, ([type_], [type_]), visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp(list(function.regions[0].blocks[0].arguments))
    return name
