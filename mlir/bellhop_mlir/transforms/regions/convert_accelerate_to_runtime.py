"""convert-accelerate-to-runtime: turn regions on other devices into callbacks."""

from dataclasses import dataclass

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._call_graph import (
    build_call_graph,
    drop_unused_functions,
    find_reachable,
    prune_signature,
)
from bellhop_mlir._meshes import drop_unused_meshes, find_meshes
from bellhop_mlir._outline import strip_fused_prefix
from bellhop_mlir._purity import find_impure_functions
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    function_type,
    list_operations,
    make_unique_symbol,
    replace_operation,
    source_line,
    string_attribute,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass
from bellhop_mlir.region_name import RegionName, find_region_functions


@dataclass(frozen=True)
class ConvertAccelerateToRuntime(Pass):
    """Move each region's function into a separate module, and call the module.

    A region is a ``callback.accelerate``, which runs a function on another device.

    Before::

        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = "callback.accelerate"(%x) {callee = @accelerate_cuda_0__f, device = "cuda:0"} ...
          return %y : tensor<f64>
        }
        func.func private @accelerate_cuda_0__f(%x: tensor<f64>) -> tensor<f64> { ... }

    After::

        "callback.func"() {sym_name = "accelerate_cuda_0__f_call", id = 0 : i64, python = "f",
                           site = "model.py:7", module = @region_accelerate_cuda_0__f, ...}
        module @region_accelerate_cuda_0__f attributes {bellhop.device = "cuda:0"} {
          func.func public @main(%x: tensor<f64>) -> tensor<f64> { ... }
        }
        func.func public @main(%x: tensor<f64>) -> tensor<f64> {
          %y = "callback.call"(%x) {callee = @accelerate_cuda_0__f_call, kind = "pure"} ...
          return %y : tensor<f64>
        }

    A region that is called in several places becomes one module.  The frontend extracts the modules
    and compiles each for its device; the declaration's id is the index of its executable in the
    program's table.  A region with ordered effects, which takes and returns a token, becomes an
    ordered call of a module that creates its own token: effects are ordered inside of the module,
    and the call is ordered in the program.  The meshes of a region are copied to its module.

    Args:
        first_id: the first free index of the program's table.

    Preconditions: no region is recursive, which the verifier checks.

    Raises an error for: a region that contains a circuit on a quantum device or a region on another
    device, which unnest-regions could not move to the program; a region with effects of several
    orders.
    """

    needs = ("callback.accelerate",)

    first_id: int = 0

    def apply(self, module: ir.Module) -> bool:
        """Turn regions into nested modules, in place; return False if there are none.

        Raises:
            PassError: for a region that has several tokens, or contains a circuit or a region on a
                different device.
        """
        # Calls inside of a region move with it; the compilation of its module converts them.
        regions = callback.find_host_regions(module)
        distinct = {(op.callee, op.device): op for op in regions}
        # The modules are made first: they copy the functions before calls in them change.
        calls = {key: self._nest(module, op) for key, op in distinct.items()}
        impure = find_impure_functions(module)
        for op in regions:
            operands = list(op.operands)
            # A region whose loop has no iterations takes a token, but its function is pure.
            is_ordered = any(callback.is_token(operand.type) for operand in operands)
            kind = "io" if is_ordered or op.callee in impure else "pure"
            with ir.InsertionPoint(op.operation), op.operation.location:
                call = callback.build_call(
                    calls[op.callee, op.device], kind, operands, types_of_values(op.results)
                )
            replace_operation(op.operation, list(call.results))
        if regions:
            drop_unused_functions(module)
            drop_unused_meshes(module)
        return bool(regions)

    def _nest(self, module: ir.Module, region: callback.AccelerateOp) -> str:
        """Copy the functions of a region to a new nested module, and declare the module.

        The functions that the region calls, its meshes and its declarations of callbacks are copied
        too.

        Args:
            module: the module of the program, to which the nested module is added.
            region: the ``callback.accelerate``; it does not change.

        Returns:
            the symbol of the ``callback.func`` that declares the nested module.

        Raises:
            PassError: as for `apply`.
        """
        by_name = find_functions(module)
        declarations = callback.find_declarations(module)
        inside = sorted(find_reachable(build_call_graph(module), [region.callee]))
        _check_tokens(region)
        for name in inside:
            _check_function(by_name[name], region)
        nested = ir.Operation.create(
            "builtin.module",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(
                    make_unique_symbol(module, f"region_{region.callee}")
                ),
                "bellhop.device": ir.StringAttr.get(region.device),
            },
            loc=region.operation.location,
            ip=ir.InsertionPoint.at_block_begin(module.body),
        )
        body = nested.regions[0].blocks.append()
        called: set[str] = set()
        for name in inside:
            clone = by_name[name].clone(ip=ir.InsertionPoint(body))
            if name == region.callee:
                clone.attributes["sym_name"] = ir.StringAttr.get("main")
                clone.attributes["sym_visibility"] = ir.StringAttr.get("public")
                _remove_token(clone)
            called |= {symbol_attribute(call) for call in find_operations(clone, "callback.call")}
        for mesh in find_meshes(module):
            mesh.clone(ip=ir.InsertionPoint.at_block_begin(body))
        drop_unused_meshes(nested)
        for name in sorted(called):
            declarations[name].operation.clone(ip=ir.InsertionPoint.at_block_begin(body))
        type_ = function_type(by_name[region.callee])
        # A new name, as the function's own name may still be used.
        call = make_unique_symbol(module, f"{region.callee}_call")
        with ir.InsertionPoint.at_block_begin(module.body), region.operation.location:
            callback.build_func(
                call,
                _drop_tokens(type_.inputs),
                _drop_tokens(type_.results),
                python=_user_name(region),
                site=source_line(region.operation),
                id=max([self.first_id, *(op.id + 1 for op in declarations.values())]),
                module=string_attribute(nested, "sym_name"),
            )
        return call


def _user_name(region: callback.AccelerateOp) -> str:
    """Return the names of the user's functions in a region, for profiles and errors.

    They are from the location of ``region``, separated by a comma and a space; a merged region has
    several. If the location has none, the name is from the symbol of the region's function.
    """
    names = find_region_functions(str(region.operation.location))
    name = RegionName.parse(region.callee)
    return ", ".join(names) or (name.function if name else strip_fused_prefix(region.callee))


def _drop_tokens(values: list[ir.Type]) -> list[ir.Type]:
    """Return a list of types without ``!stablehlo.token``."""
    return [type_ for type_ in values if not callback.is_token(type_)]


def _remove_token(function: ir.Operation) -> None:
    """Make a function create its token instead of taking and returning it.

    Nothing happens if its first argument is not a token.
    """
    type_ = function_type(function)
    if not (type_.inputs and callback.is_token(type_.inputs[0])):
        return
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), function.location:
        made = stablehlo.create_token()
    block.arguments[0].replace_all_uses_with(made)
    prune_signature(function, range(1, len(type_.inputs)), range(1, len(type_.results)))


def _check_tokens(region: callback.AccelerateOp) -> None:
    """Raise `PassError` if a token is not the first operand, or not the first result.

    ``region`` then has several tokens, for effects of several orders.
    """
    for values in (types_of_values(region.operands), types_of_values(region.results)):
        if any(map(callback.is_token, values[1:])):
            raise PassError(
                f"the region @{region.callee} on {region.device} has effects of several orders, "
                "bellhop's and JAX's own, which only the program's own device can run. Use "
                "bellhop's callbacks for all of them."
            )


def _check_function(function: ir.Operation, region: callback.AccelerateOp) -> None:
    """Raise `PassError` if a function has operations that its region's device cannot run.

    These are operations of a circuit, and a ``callback.accelerate`` for a different device.

    Args:
        function: a ``func.func`` that the region runs, directly or in callees.
        region: the ``callback.accelerate``.
    """
    for op in list_operations(function):
        if op.name.startswith("quantum."):
            raise PassError(
                f"the region @{region.callee} on {region.device} runs a circuit on a quantum "
                "device, which only the program's own device can do. Move the QNode out of the "
                "jax.shard_map in the accelerated function."
            )
        if op.name == "callback.accelerate" and callback.AccelerateOp(op).device != region.device:
            raise PassError(
                f"the region @{region.callee} on {region.device} contains a region on "
                f"{callback.AccelerateOp(op).device} inside of a jax.shard_map, which is not "
                "supported: each device would run it. Move the inner region out of the "
                "jax.shard_map."
            )
