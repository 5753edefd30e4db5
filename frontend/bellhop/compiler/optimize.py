"""Optimisation of a lowered module: run the passes and fill the callback table.

The regions of a program are nested modules, which are compiled as separate programs here.

``qjit(lambda x: pure_callback(f, float)(x) + pure_callback(f, float)(x))`` is lowered to ::

    %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %2 = stablehlo.add %0, %1

The passes ``OPTIMIZATION`` merge the two calls; ``f.mlir_opt`` shows the result::

    %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %1 = stablehlo.add %0, %0

The passes ``REGIONS`` and ``CALLS`` convert it to a typed-FFI custom call.  ``index`` is the index
of the callback in the program's table::

    %0 = stablehlo.custom_call @bellhop_callback(%table, %x) {program = ..., index = 0}
    %1 = stablehlo.add %0, %0
"""

import hashlib
import io
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop.base.ir_display import ModuleText, Snapshot, WrittenText
from bellhop.base.types import to_aval
from bellhop.compiler.compile_timing import Stopwatch
from bellhop.compiler.device_buffers import DeviceBuffers
from bellhop.compiler.jax_callback_lowering import DelegatedCallbacks, uses_jax_callbacks
from bellhop.compiler.lowering_context import find_recorded_circuits
from bellhop.compiler.native_target import NativeTarget
from bellhop.compiler.program import Code, Program
from bellhop.compiler.regions import Region, Transfer
from bellhop.concurrency.workers import Workers
from bellhop.devices.devices import (
    Target,
    count_devices,
    describe_target,
    device_name,
    find_target,
    host_device,
    target_name,
    target_platform,
)
from bellhop.errors import CompileError
from bellhop.settings.code_generation import FEW_KERNELS, HAS_BOTH, is_equally_fast, repeats_kernels
from bellhop.settings.loop_simplification import MISCOUNTS_LONG_STEPS
from bellhop_mlir._call_graph import prune_signature
from bellhop_mlir._loop_counters import has_long_steps
from bellhop_mlir._meshes import count_mesh_devices, find_meshes
from bellhop_mlir._runtime_calls import find_runtime_calls
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    find_symbols,
    function_type,
    string_attribute,
    symbol_attribute,
)
from bellhop_mlir.dialects import callback as dialect
from bellhop_mlir.dialects.printing import print_module as printed
from bellhop_mlir.passes import Pass
from bellhop_mlir.pipelines import (
    CALLS,
    DELEGATED_CALLS,
    OPTIMIZATION,
    REGIONS,
    run_pipeline,
)
from bellhop_mlir.transforms.callbacks.convert_callback_to_runtime import ConvertCallbackToRuntime
from bellhop_mlir.transforms.callbacks.delegate_callbacks import MARK
from bellhop_mlir.transforms.callbacks.overlap_calls import OverlapCalls
from bellhop_mlir.transforms.circuits.convert_quantum_to_runtime import ConvertQuantumToRuntime
from bellhop_mlir.transforms.regions.convert_accelerate_to_runtime import ConvertAccelerateToRuntime
from bellhop_mlir.transforms.regions.inline_accelerate import InlineAccelerate
from bellhop_mlir.transforms.regions.keep_on_device import KeepOnDevice
from bellhop_mlir.transforms.regions.place_results import PlaceResults
from bellhop_mlir.transforms.regions.take_arguments import TakeArguments
from bellhop_runtime import Callback, CallbackTable

if TYPE_CHECKING:
    from bellhop.compiler.callback_target import CallbackTarget


# Name of the stage before the first pass.
LOWERED = "lowered"

# The runtime's call that begins a circuit.
_CIRCUIT = "bellhop_circuit_begin"


def optimize(
    module: ir.Module,
    targets: Sequence["CallbackTarget"],
    table: CallbackTable,
    *,
    out_avals: tuple[Any, ...],
    jaxpr: Any = None,
    device: str | None = None,
    out_targets: tuple[Target | None, ...] = (),
    keep_stages: bool = False,
    concurrent: int = 1,
    delegates: bool = False,
    is_merged: bool = False,
    elide_constants: bool = False,
    after: str = LOWERED,
) -> Program:
    """Run the passes over a module; fill the table with its callbacks and regions.

    Regions are compiled by XLA here, and the program itself later, as a part of a ``jax.jit``.

    Args:
        module: the lowered program, which is changed in place.
        targets: the callbacks, by the index in their declarations.
        table: receives the callbacks and the executables of the regions, unless `delegates` is set.
        out_avals: types of the results.
        jaxpr: the jaxpr from which the module was lowered, or None.
        device: name of the device that runs the program; None for the host.
        out_targets: requested device or sharding of each result; empty if there are none.
        keep_stages: whether to keep the text of the module after every pass.
        concurrent: number of independent pure callbacks that the runtime calls concurrently.
        delegates: whether JAX's own callbacks are used instead of the runtime's.
        is_merged: whether the program becomes a part of a ``jax.jit``, so that regions cannot take
            the caller's arguments directly.
        elide_constants: whether to leave large constants out of the optimised module's text;
            writing megabytes of them takes longer than everything else.
        after: name of the pass after which the module was saved or replaced; earlier passes are
            skipped.

    Returns:
        the program, with its code and its stages.

    Raises:
        PassError: if a pass rejects the module.
        CompileError: if a mesh or a region does not fit its devices.
    """
    device = device or device_name(host_device())
    stages: dict[str, str] = {}
    stopwatch = Stopwatch()

    def observe(name: str, module: ir.Module) -> None:
        """Record the time that a pass took, and the module's text if stages are kept.

        Args:
            name: name of the pass that has just run.
            module: the module after the pass.
        """
        stopwatch.lap(name, module)
        if keep_stages:
            stages[name] = ModuleText(printed(module))

    with module.context, ir.Location.unknown():
        module.context.allow_unregistered_dialects = True
        lowered = Snapshot(module)
        if keep_stages:
            stages[after] = lowered.text
        passes = list(OPTIMIZATION)
        if after != LOWERED:
            passes = passes[[pass_.name for pass_ in passes].index(after) + 1 :]
        devices = ["" if target is None else target_name(target) for target in out_targets]
        options: dict[type[Pass], dict[str, Any]] = {
            InlineAccelerate: {"device": device},
            PlaceResults: {"devices": ",".join(devices)},
            KeepOnDevice: {"results": ",".join(str(i) for i, name in enumerate(devices) if name)},
        }

        def run(passes: Sequence[type[Pass]], *, verified: bool = False) -> None:
            """Run passes over the module, with their options from ``options``.

            Args:
                passes: classes of the passes, in order.
                verified: whether the module is known to be valid before the first pass.
            """
            made = [pass_(**options.get(pass_, {})) for pass_ in passes]
            run_pipeline(module, made, observe, verified=verified)

        run(passes)
        optimized = _to_module_text(module, elide_constants)
        digest = hashlib.blake2b(optimized.encode(), digest_size=7).digest()
        # Two programs with the same text may call different functions, so they get different keys.
        # Native calls do not take the table: their key must lead to it.
        is_unique = any(isinstance(target, NativeTarget) for target in targets)
        key = table.reserve(int.from_bytes(digest, "big"), unique=is_unique)
        # The table also has the callbacks whose calls the passes have removed.
        options[ConvertAccelerateToRuntime] = {"first_id": len(targets)}
        options[ConvertCallbackToRuntime] = {"program": key}
        if is_merged:
            # The table of such a program is published, and no operand of circuits names the table.
            options[ConvertQuantumToRuntime] = {"program": key}
        workers = Workers(concurrent) if concurrent > 1 and not delegates else None
        if workers is not None:
            starting = (str(i) for i, target in enumerate(targets) if target.can_run_on_thread_pool)
            options[OverlapCalls] = {"ids": ",".join(starting)}
        run(
            [pass_ for pass_ in REGIONS if not (is_merged and pass_ is TakeArguments)],
            verified=True,
        )
        _check_meshes(module, device)
        callbacks = [target.bind(workers) for target in targets] + _extract_regions(module, targets)
        if not delegates:
            table.set_program(key, callbacks)
        run(DELEGATED_CALLS if delegates else CALLS, verified=True)
        delegate_functions = DelegatedCallbacks(targets, callbacks, device) if delegates else None
        tokens, operands = _drop_unused_arguments(module)
        runtime_calls = find_runtime_calls(module)
        code = Code(
            mlir.module_to_bytecode(module),
            tokens,
            out_avals,
            operands,
            out_targets,
            dialect.find_handle_results(module),
            delegates=None if delegate_functions is None else weakref.ref(delegate_functions),
            runtime_calls=runtime_calls,
            delegates_calls=any(
                MARK in each.attributes for each in find_functions(module).values()
            ),
            takes_arguments=dialect.TAKES_ARGUMENTS in module.operation.attributes,
            uses_older_generator=HAS_BOTH and _suits_older_generator(optimized, module),
            simplifies_loops=_can_simplify_loops(module, _CIRCUIT in runtime_calls),
        )
        return Program(
            code,
            jaxpr,
            lowered,
            WrittenText(optimized),
            stages,
            tuple(targets),
            delegate_functions,
            concurrent,
            find_recorded_circuits(module),
        )


def _check_meshes(module: ir.Module, device: str) -> None:
    """Raise an error if a mesh in a module does not fit the program's devices.

    Args:
        module: the module.
        device: name of the program's device, or of the mesh of a region.

    Raises:
        CompileError: if a mesh in the module has several devices, but not the number of devices
            that `device` names.
    """
    count = count_devices(find_target(device))
    for mesh in find_meshes(module):
        if count_mesh_devices(mesh) in (1, count):
            continue
        if device == device_name(host_device()):
            raise CompileError(
                "a qjit program runs on one host device, and this program has a jax.shard_map or "
                f"a sharding over {count_mesh_devices(mesh)} devices. Use jax.jit instead of qjit, "
                "around jax.shard_map of a function of QNodes and callbacks."
            )
        raise CompileError(
            f"accelerate: a region on {describe_target(find_target(device))} has a "
            f"jax.shard_map or a sharding over {count_mesh_devices(mesh)} devices. Use "
            "accelerate(dev=jax.sharding.NamedSharding(mesh, spec)) with a mesh of these devices."
        )


def _can_simplify_loops(module: ir.Module, has_circuit: bool) -> bool:
    """Return whether XLA's pass that simplifies loops compiles a module correctly.

    Args:
        module: the module after all passes.
        has_circuit: whether it executes a circuit.
    """
    if MISCOUNTS_LONG_STEPS and has_long_steps(module):
        return False
    return not (has_circuit and len(find_operations(module.operation, "stablehlo.while")) > 1)


def _suits_older_generator(optimized: str, module: ir.Module) -> bool:
    """Return whether to compile a program with XLA's older code generator.

    The older generator compiles a kernel faster; the newer generator compiles equal kernels only
    once. True for programs that call the runtime, use small arrays, and have at most
    ``FEW_KERNELS`` kernels or few equal kernels.

    Args:
        optimized: MLIR text after the optimising passes.
        module: the module after all passes.
    """
    calls = optimized.count('"callback.') + optimized.count('"quantum.')
    if not calls or not is_equally_fast(optimized):
        return False
    # Check cheap bounds first: few programs have many kernels, and printing the module is slow.
    kernels = min(calls, optimized.count("= stablehlo."))
    return kernels <= FEW_KERNELS or not repeats_kernels(
        _to_module_text(module, elide_constants=True)
    )


def _to_module_text(module: ir.Module, elide_constants: bool) -> ModuleText:
    """Print a module; if `elide_constants`, constants of more than 16 elements are left out."""
    return ModuleText(printed(module, large_elements_limit=16 if elide_constants else None))


def _drop_unused_arguments(module: ir.Module) -> tuple[int, tuple[int, ...]]:
    """Remove the unused arguments of a program's main function, in place.

    The function takes tokens, which are always kept, then operands, then the callback table, which
    is kept too.

    Returns:
        the number of tokens, and the indices, tokens not counted, of the operands that remain.
    """
    main = find_functions(module)["main"]
    arguments = list(main.regions[0].blocks[0].arguments)
    last = len(arguments) - 1
    tokens = sum(dialect.is_token(value.type) for value in arguments)
    used = [
        index
        for index, value in enumerate(arguments)
        if index < tokens or index == last or any(True for _ in value.uses)
    ]
    results = range(len(function_type(main).results))
    if len(used) <= last:
        prune_signature(main, used, results)
    return tokens, tuple(index - tokens for index in used if tokens <= index < last)


def _extract_regions(module: ir.Module, targets: Sequence["CallbackTarget"]) -> list[Callback]:
    """Compile the regions of a program, and remove them from its module.

    Each region is a nested module. A region that only transfers values is not compiled.

    Args:
        module: a program after convert-accelerate-to-runtime, with a nested module for each region.
        targets: functions that regions may call, by the index in their declarations.

    Returns:
        the `Callback` that runs the region's executable, for each region in the order of the ids.
    """
    regions = find_symbols(module, "builtin.module")
    compiled: list[Callback] = []
    for declaration in sorted(dialect.find_declarations(module).values(), key=lambda op: op.id):
        if declaration.module is None:
            continue
        nested = regions.pop(declaration.module)
        name = string_attribute(declaration, "python")
        site = string_attribute(declaration, "site")
        target = find_target(string_attribute(nested, "bellhop.device"))
        del declaration.attributes["module"]
        main = find_functions(nested)["main"]
        type_ = function_type(main)
        buffers = DeviceBuffers.from_declaration(declaration, type_, target)
        if isinstance(target, jax.Device) and _is_identity(main, find_functions(nested)):
            compiled.append(Transfer(name, target, buffers).as_callback(site))
            nested.erase()
            continue
        table = CallbackTable(published=False)
        program = optimize(
            _extract_module(nested),
            targets,
            table,
            device=target_name(target),
            out_avals=tuple(map(to_aval, type_.results)),
            delegates=uses_jax_callbacks(target_platform(target)),
            elide_constants=True,
        )
        inputs = tuple(map(to_aval, type_.inputs))
        region = Region(name, site, program, inputs, table, target, buffers)
        compiled.append(region.as_callback(site))
        nested.erase()
    return compiled


def _is_identity(function: ir.Operation, by_name: Mapping[str, ir.Operation]) -> bool:
    """Return whether a function returns its arguments unchanged, in the same order.

    It may pass them through calls of other such functions. A region with such a function only
    transfers values.

    Args:
        function: a ``func.func`` with one block.
        by_name: all functions of the module, by their symbols.
    """
    (block,) = function.regions[0].blocks
    *calls, end = (op.operation for op in block.operations)
    values: dict[ir.Value, ir.Value] = {}
    for call in calls:
        if call.name != "func.call" or not _is_identity(by_name[symbol_attribute(call)], by_name):
            return False
        operands = [values.get(value, value) for value in call.operands]
        values |= zip(call.results, operands, strict=True)
    return [values.get(value, value) for value in end.operands] == list(block.arguments)


def _extract_module(nested: ir.Operation) -> ir.Module:
    """Copy a ``builtin.module`` nested in another module to a separate module."""
    # Bytecode preserves all constants.
    bytecode = io.BytesIO()
    nested.write_bytecode(bytecode)
    module = ir.Module.parse(bytecode.getvalue(), nested.context)
    # The parser may wrap it into an implicit module.
    operations = [op.operation for op in module.body.operations]
    if len(operations) == 1 and operations[0].name == "builtin.module":
        inner = operations[0]
        outer, module = module, ir.Module.create(inner.location)
        for name in inner.attributes:
            module.operation.attributes[name] = inner.attributes[name]
        for op in list(inner.regions[0].blocks[0].operations):
            module.body.append(op)
        del outer
    return module
