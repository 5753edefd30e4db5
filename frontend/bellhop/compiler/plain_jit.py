"""Our primitives in a plain ``jax.jit``: each is compiled as a program of its own there.

``jax.jit(lambda x: 2 * pure_callback(f, float)(x))`` is lowered by JAX.  The lowering rule of the
callback compiles a program of it alone, merges that into JAX's module, and emits a call::

    %0 = call @bellhop_main(%x, %zeros) : (tensor<f64>, tensor<2xui32>) -> tensor<f64>
    %1 = stablehlo.multiply %cst, %0

In a program for a GPU or TPU the rule compiles it for the host, and emits JAX's own callback, which
runs that: however many gates a circuit has, its arguments and its results cross once::

    %0 = stablehlo.custom_call @xla_ffi_python_gpu_callback(%x) {index = 0}
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Effect, Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.compiled_runs import run_compiled
from bellhop._jax.private import ordered_effects
from bellhop.base.types import structs_of
from bellhop.compiler.code import Code, call, merge, table_handle
from bellhop.compiler.compile import compile_program
from bellhop.compiler.delegation import lower_to_call
from bellhop.compiler.failures import keep_whole, kept_by, with_failures
from bellhop.compiler.placement import on_host
from bellhop.mesh.partitioning import is_partitioned, on_first_device
from bellhop_runtime import CallbackTable

# Takes arguments, and arrays that it writes results into.
_HostCall = Callable[[list[np.ndarray], list[np.ndarray]], None]


def _host_call(
    primitive: Primitive, params: dict[str, Any], avals: Sequence[Any], name: str
) -> tuple[_HostCall, Any]:
    """Compile a primitive for the host.

    Args:
        primitive: one of ours.
        params: those of the equation.
        avals: the types of the operands.
        name: that of the program.

    Returns:
        what runs it, and its jaxpr.
    """

    def alone(*args: Any) -> Any:
        return primitive.bind(*args, **params)

    alone.__name__ = name
    with on_host():
        traced = jax.jit(alone).trace(*avals)
        executable = with_failures(traced.lower().compile)

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        with on_host():
            values = run_compiled(executable, None, *arguments)
        for result, value in zip(results, values, strict=True):
            result[...] = value

    return call, traced.jaxpr


def _lower_host_call(
    ctx: mlir.LoweringRuleContext, call: _HostCall, jaxpr: Any, operands: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit a call to the host, ordered and kept as the effects of the primitive say."""
    ordered = ordered_effects(jaxpr)
    tokens = [ctx.tokens_in.get(effect) for effect in ordered]
    token = stablehlo.after_all(tokens) if len(tokens) > 1 else next(iter(tokens), None)
    kind = "io" if jaxpr.effects else "pure"
    results, token = lower_to_call(ctx, call, kind, operands, token)
    if ordered:
        after = mlir.TokenSet(dict.fromkeys(ordered, token))
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(after))
    return results


class _ModulePrograms:
    """The programs in one module of JAX's; its executable keeps them, and so their table, alive.

    No operand brings the table, and its address would make the module one of this process, so
    the table is published: the runtime finds it by the text of a program.
    """

    def __init__(self) -> None:
        self.table = CallbackTable(published=True)
        self.merged: dict[Hashable, tuple[Code, str, list[Effect]]] = {}
        self.on_host: dict[Hashable, tuple[_HostCall, Any]] = {}

    def __reduce__(self) -> Any:
        names = sorted(f"{each.description} ({each.site})" for each in self.table.callbacks)
        raise TypeError(
            "a compiled program with bellhop's callbacks cannot be serialized, since the Python "
            f"functions that it calls are this process's: {', '.join(names)}. JAX's persistent "
            "compilation cache (jax_compilation_cache_dir) serves such programs."
        )

    @classmethod
    def of(cls, context: mlir.ModuleContext) -> "_ModulePrograms":
        calls = keep_whole(context)
        programs = kept_by(context, cls)
        calls.table = programs.table
        return programs


def calls_python(kept: Any) -> bool:
    """Tell whether an object that an executable of JAX's keeps alive is programs with callbacks."""
    return isinstance(kept, _ModulePrograms) and bool(kept.table.callbacks)


def refuse_several_platforms(context: mlir.ModuleContext, what: str) -> None:
    """Refuse what is lowered for no process, or for no platform, in particular.

    Args:
        context: of a program of JAX's own.
        what: which callback or circuit it calls, for errors.

    Raises:
        NotImplementedError: for ``jax.export``, and for several platforms at once.
    """
    if context.lowering_parameters.for_export:
        raise NotImplementedError(
            f"jax.export of a program with bellhop's callbacks and circuits ({what}): what they "
            "call is not in the module. Compile it with bellhop.qjit, and use f.save(path) and "
            "bellhop.load(path)."
        )
    if len(context.platforms) > 1:
        raise NotImplementedError(
            f"a program with bellhop's callbacks and circuits ({what}) is lowered for "
            f"{', '.join(context.platforms)} at once, and each calls Python in a way of its own. "
            "Use lower(lowering_platforms=(platform,)) for each by itself."
        )


def lower_alone(
    ctx: mlir.LoweringRuleContext,
    primitive: Primitive,
    operands: Sequence[ir.Value],
    params: dict[str, Any],
    what: str,
) -> list[ir.Value]:
    """Lower one of our primitives inside a program of JAX's, as a program of its own.

    Equal ones in a module are one program, which is called in several places.

    Args:
        ctx: that of the lowering rule.
        primitive: the primitive.
        operands: of the call.
        params: of the call.
        what: which callback or circuit it is, for errors.
    """
    context = ctx.module_context
    refuse_several_platforms(context, what)
    if is_partitioned(context):
        return on_first_device(ctx, functools.partial(primitive.bind, **params), operands)
    programs = _ModulePrograms.of(context)
    avals = tuple(structs_of(ctx.avals_in))
    key = primitive, tuple(sorted(params.items())), avals
    if set(context.platforms) != {"cpu"}:
        if key not in programs.on_host:
            programs.on_host[key] = _host_call(primitive, params, avals, what)
        return _lower_host_call(ctx, *programs.on_host[key], operands)
    if key not in programs.merged:
        program = compile_program(
            lambda *args: primitive.bind(*args, **params), avals, programs.table, is_merged=True
        )
        code = program.code
        programs.merged[key] = code, merge(ctx, code), ordered_effects(program.jaxpr)
    code, symbol, effects = programs.merged[key]
    # The module may have tokens of JAX's own callbacks beside these.
    tokens = [ctx.tokens_in.get(effect) for effect in effects]
    table = mlir.ir_constant(table_handle(programs.table))
    results = call(ctx, symbol, code, code.operands(operands), table, tokens)
    if effects:
        after = mlir.TokenSet(dict(zip(effects, results[: code.tokens], strict=True)))
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(after))
    return results[code.tokens :]
