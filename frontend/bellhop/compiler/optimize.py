"""From a lowered module to a program: runs the passes, and fills the table of callbacks.

``qjit(lambda x: pure_callback(f, float)(x) + pure_callback(f, float)(x))`` is lowered to ::

    %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %2 = stablehlo.add %0, %1

The passes ``OPTIMIZATION`` make one call of the two, which is what ``f.mlir_opt`` shows::

    %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
    %1 = stablehlo.add %0, %0

The passes ``REGIONS`` and ``CALLS`` make a typed-FFI custom call of it.  ``index`` is the number of
the callback in the table of the program::

    %0 = stablehlo.custom_call @bellhop_callback(%table, %x) {program = ..., index = 0}
    %1 = stablehlo.add %0, %0
"""

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop.base.code_generation import FEW, HAS_BOTH, repeats_kernels
from bellhop.base.devices import (
    Target,
    describe_target,
    device_name,
    host_device,
    number_of_devices,
    target_name,
    target_of_name,
)
from bellhop.base.module_text import ModuleText, Snapshot
from bellhop.base.workers import Workers
from bellhop.compiler.code import Code, Program
from bellhop.compiler.context import stamped
from bellhop.compiler.delegation import Delegates
from bellhop.compiler.instruments import Stopwatch
from bellhop.errors import CompileError
from bellhop_mlir._call_graph import narrow
from bellhop_mlir._meshes import meshes, size
from bellhop_mlir._runtime_calls import runtime_calls
from bellhop_mlir._walk import function_type, functions
from bellhop_mlir.dialects import callback as dialect
from bellhop_mlir.dialects.printing import text as printed
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
from bellhop_mlir.transforms.regions.convert_accelerate_to_runtime import ConvertAccelerateToRuntime
from bellhop_mlir.transforms.regions.inline_accelerate import InlineAccelerate
from bellhop_mlir.transforms.regions.keep_on_device import KeepOnDevice
from bellhop_mlir.transforms.regions.place_results import PlaceResults
from bellhop_mlir.transforms.regions.take_arguments import TakeArguments
from bellhop_runtime import Callback, CallbackTable

if TYPE_CHECKING:
    from bellhop.compiler.target import CallbackTarget


# The name of the stage before the first pass.
LOWERED = "lowered"


def optimize(
    module: ir.Module,
    device: str,
    targets: Sequence["CallbackTarget"],
    table: CallbackTable,
    take_regions: Callable[[ir.Module, Sequence["CallbackTarget"]], list[Callback]],
    *,
    jaxpr: Any,
    out_avals: tuple[Any, ...],
    out_targets: tuple[Target | None, ...] = (),
    keep_stages: bool = False,
    concurrent: int = 1,
    delegates: bool = False,
    is_merged: bool = False,
    elides: bool = False,
    after: str = LOWERED,
) -> Program:
    """Run the passes over a module and give its callbacks and regions a table.

    Args:
        module: the program as lowered; it is changed in place.
        device: where the program itself runs.
        targets: the callbacks, by the numbers that the declarations in the module have.
        table: gets the callbacks and the executables of the regions.
        take_regions: moves the regions out of the module, and returns a callback for each that runs
            it.
        jaxpr: the jaxpr from which the module was lowered.
        out_avals: the types of the results.
        out_targets: where each of them is asked for; empty where none is.
        keep_stages: whether to keep the text of the module after every pass.
        concurrent: how many independent pure callbacks the runtime calls at once.
        delegates: whether JAX calls the callbacks, instead of the runtime.
        is_merged: whether it becomes a part of a program of JAX's: then no call of ours has the
            arguments that regions would take.
        elides: whether the text of the optimised module leaves out large constants.  Writing many
            megabytes of them takes longer than everything else.
        after: the name of the pass after which the module was saved, if it was not just lowered.
    """
    stages: dict[str, str] = {}
    stopwatch = Stopwatch()

    def observe(name: str, module: ir.Module) -> None:
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
            made = [pass_(**options.get(pass_, {})) for pass_ in passes]
            run_pipeline(module, made, observe, verified=verified)

        run(passes)
        optimized = _text(module, elides)
        digest = hashlib.blake2b(optimized.encode(), digest_size=7).digest()
        # Two programs with the same text may call different functions, so they get different keys.
        key = table.reserve(int.from_bytes(digest, "big"))
        # The table also has the callbacks whose calls the passes have removed.
        options[ConvertAccelerateToRuntime] = {"first_id": len(targets)}
        options[ConvertCallbackToRuntime] = {"program": key}
        workers = Workers(concurrent) if concurrent > 1 and not delegates else None
        if workers is not None:
            starting = (str(i) for i, target in enumerate(targets) if target.may_start)
            options[OverlapCalls] = {"ids": ",".join(starting)}
        run(
            [pass_ for pass_ in REGIONS if not (is_merged and pass_ is TakeArguments)],
            verified=True,
        )
        _check_meshes(module, device)
        callbacks = [target.bind(workers) for target in targets] + take_regions(module, targets)
        if not delegates:
            table.set_program(key, callbacks)
        run(DELEGATED_CALLS if delegates else CALLS, verified=True)
        kept = Delegates(targets, callbacks, device) if delegates else None
        tokens, operands = _used_arguments(module)
        code = Code(
            mlir.module_to_bytecode(module),
            tokens,
            out_avals,
            operands,
            out_targets,
            dialect.given_results(module),
            delegates=None if kept is None else weakref.ref(kept),
            runtime_calls=runtime_calls(module),
            delegates_calls=any(MARK in each.attributes for each in functions(module).values()),
            takes_arguments=dialect.TAKES_ARGUMENTS in module.operation.attributes,
            repeats_kernels=_repeats_kernels(optimized, module),
        )
        return Program(
            code,
            jaxpr,
            lowered,
            optimized,
            stages,
            tuple(targets),
            kept,
            concurrent,
            stamped(module),
        )


def _check_meshes(module: ir.Module, device: str) -> None:
    """Refuse a program that is to be partitioned over other devices than it runs on."""
    count = number_of_devices(target_of_name(device))
    for mesh in meshes(module):
        if size(mesh) in (1, count):
            continue
        if device == device_name(host_device()):
            raise CompileError(
                f"a qjit program runs on one host device, and this one holds a jax.shard_map or a "
                f"sharding over {size(mesh)}. Partition it from outside: jax.jit in place of "
                "qjit, around jax.shard_map of a function of QNodes and callbacks."
            )
        raise CompileError(
            f"accelerate: a region on {describe_target(target_of_name(device))} holds a "
            f"jax.shard_map or a sharding over {size(mesh)} devices. Use "
            "accelerate(dev=jax.sharding.NamedSharding(mesh, spec)) with a mesh of these devices."
        )


def _repeats_kernels(optimized: str, module: ir.Module) -> bool:
    # To write the text again takes longer than to look into it, and few programs have many calls.
    calls = optimized.count('"callback.call"') + optimized.count('"quantum.')
    is_worth_it = HAS_BOTH and min(calls, optimized.count("= stablehlo.")) > FEW
    return is_worth_it and repeats_kernels(_text(module, elides=True))


def _text(module: ir.Module, elides: bool) -> ModuleText:
    return ModuleText(printed(module, large_elements_limit=16 if elides else None))


def _used_arguments(module: ir.Module) -> tuple[int, tuple[int, ...]]:
    """Leave a program the arguments that it uses; return how many tokens, and which others.

    It has its table last.
    """
    main = functions(module)["main"]
    arguments = list(main.regions[0].blocks[0].arguments)
    last = len(arguments) - 1
    tokens = sum(dialect.is_token(value.type) for value in arguments)
    kept = [
        place
        for place, value in enumerate(arguments)
        if place < tokens or place == last or any(True for _ in value.uses)
    ]
    results = range(len(function_type(main).results))
    if len(kept) <= last:
        narrow(main, kept, results)
    return tokens, tuple(place - tokens for place in kept if tokens <= place < last)
