"""convert-accelerate-to-runtime: regions elsewhere become callbacks that run executables."""

from dataclasses import dataclass
from typing import ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import (
    drop_unused_functions,
    function_type,
    functions,
    named,
    operations,
    reachable,
    replace,
    symbol,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.errors import PassError


@dataclass(frozen=True)
class ConvertAccelerateToRuntime:
    """Move each accelerated function into a module of its own and call that.

    Before::

        %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__sin, device = "cuda:0"} ...

    After::

        builtin.module @region_accelerate_cuda_0__sin attributes {bellhop.device = "cuda:0"} {
          func.func public @main(%x: tensor<f64>) -> tensor<f64> { ... }
        }
        "callback.func"() {sym_name = "accelerate_cuda_0__sin", id = 1 : i64,
                           module = @region_accelerate_cuda_0__sin, ...}
        %y = "callback.call"(%x) {callee = @accelerate_cuda_0__sin_call, kind = "pure"} ...

    The frontend takes the nested modules out and compiles each for its device; the number
    of the declaration is where its executable stands in the program's table.  Refused: a
    region that runs a circuit on a quantum device, or one with ordered effects.
    """

    name: ClassVar[str] = "convert-accelerate-to-runtime"

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        declared: set[str] = set()
        # Calls inside another region move with it; its own compilation converts them.
        by_name = functions(module)
        inside = set().union(
            *(
                reachable(by_name, symbol(op))
                for op in named(module.operation, "callback.accelerate")
            )
        )
        for op in named(module.operation, "callback.accelerate"):
            if _enclosing_function(op) in inside:
                continue
            region = callback.AccelerateOp(op)
            # '_call' keeps the symbol apart from the function, which may stay in use.
            name = f"{region.callee}_call"
            if name not in declared:
                _nest(module, region, name)
                declared.add(name)
            with ir.InsertionPoint(op), op.location:
                call = callback.call(
                    name, "pure", list(op.operands), [value.type for value in op.results]
                )
            replace(op, list(call.results))
        if declared:
            drop_unused_functions(module)


def _enclosing_function(op: ir.Operation) -> str:
    parent = op.parent
    while parent.name != "func.func":
        parent = parent.parent
    return ir.StringAttr(parent.attributes["sym_name"]).value


def _nest(module: ir.Module, region: callback.AccelerateOp, name: str) -> None:
    by_name = functions(module)
    callee = by_name[region.callee]
    declarations = callback.declarations(module)
    nested = ir.Operation.create(
        "builtin.module",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(f"region_{region.callee}"),
            "bellhop.device": ir.StringAttr.get(region.device),
        },
        loc=region.operation.location,
        ip=ir.InsertionPoint.at_block_begin(module.body),
    )
    body = nested.regions[0].blocks.append()
    used_declarations: set[str] = set()
    for function_name in sorted(reachable(by_name, region.callee)):
        _check(by_name[function_name], region)
        clone = by_name[function_name].clone(ip=ir.InsertionPoint(body))
        if function_name == region.callee:
            clone.attributes["sym_name"] = ir.StringAttr.get("main")
            clone.attributes["sym_visibility"] = ir.StringAttr.get("public")
        used_declarations |= {symbol(call) for call in named(clone, "callback.call")}
    for used in sorted(used_declarations):
        declarations[used].operation.clone(ip=ir.InsertionPoint.at_block_begin(body))
    type_ = function_type(callee)
    with ir.InsertionPoint.at_block_begin(module.body), region.operation.location:
        callback.func(
            name,
            type_.inputs,
            type_.results,
            python=region.callee.split("__", 1)[1],
            site=region.device,
            id=1 + max((op.id for op in declarations.values()), default=-1),
            module=f"region_{region.callee}",
        )


def _check(function: ir.Operation, region: callback.AccelerateOp) -> None:
    if any(callback.is_token(type_) for type_ in function_type(function).inputs):
        raise PassError(
            f"the region @{region.callee} on {region.device} has ordered effects (a print, or "
            "a debug callback), which only the program's own device can run. Move them out of "
            "the accelerated function."
        )
    for op in operations(function):
        if op.name.startswith("quantum."):
            raise PassError(
                f"the region @{region.callee} on {region.device} runs a circuit on a quantum "
                "device, which only the program's own device can do. Move the QNode out of the "
                "accelerated function."
            )
