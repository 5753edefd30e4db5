"""Our primitives in a plain ``jax.jit``, which JAX lowers to a module of its own.

The lowering rule of a callback emits a custom call of the runtime in JAX's module.
``jax.jit(lambda x: 2 * pure_callback(f, float)(x))`` becomes ::

    %table = stablehlo.constant dense<0> : tensor<2xui32>
    %0 = stablehlo.custom_call @bellhop_callback(%table, %x)
        {backend_config = {index = 0 : i64, program = 7 : i64, python = "f"}}
    %1 = stablehlo.multiply %cst, %0

The lowering rule of a circuit compiles a program of the circuit alone, merges that program into
JAX's module, and emits a call of it::

    %0 = call @bellhop_main(%x, %zeros) : (tensor<f64>, tensor<2xui32>) -> tensor<f64>

In a program for a GPU or TPU the rule compiles it for the host, and emits JAX's own callback, which
runs that: however many gates a circuit has, its arguments and its results cross once::

    %0 = stablehlo.custom_call @xla_ffi_python_gpu_callback(%x) {index = 0}
"""

import functools
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Effect, Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type, ordered_effects
from bellhop._jax.slow_dispatch import run_compiled
from bellhop.base.types import to_structs
from bellhop.compiler.compile import compile_program
from bellhop.compiler.failures import find_or_keep, preserve_exceptions, run_with_failures
from bellhop.compiler.host_placement import use_host
from bellhop.compiler.jax_callback_lowering import lower_to_python_call
from bellhop.compiler.program import Code, call_program, merge_program, table_handle
from bellhop.mesh.custom_call_sharding import is_partitioned, lower_on_first_device
from bellhop_mlir._runtime_calls import RuntimeCallBuilder
from bellhop_mlir.dialects._attributes import make_i64
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_runtime import CallbackTable

if TYPE_CHECKING:
    from bellhop.compiler.callback_target import CallbackTarget

# Takes arguments, and arrays that it writes results into.
_HostCall = Callable[[list[np.ndarray], list[np.ndarray]], None]


def _compile_host_call(
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
    with use_host():
        traced = jax.jit(alone).trace(*avals)
        executable = run_with_failures(traced.lower().compile)

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        with use_host():
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
    results, token = lower_to_python_call(ctx, call, kind, operands, token)
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
        # The keys of callbacks in the table, by target and types of the arguments.
        self.callbacks: dict[Hashable, int] = {}
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
    def from_context(cls, context: mlir.ModuleContext) -> "_ModulePrograms":
        calls = preserve_exceptions(context)
        programs = find_or_keep(context, cls)
        calls.table = programs.table
        return programs


def lower_callback(
    ctx: mlir.LoweringRuleContext,
    target: "CallbackTarget",
    kind: str,
    operands: Sequence[ir.Value],
    token: ir.Value | None,
) -> tuple[list[ir.Value], ir.Value | None]:
    """Lower a callback in a program of JAX's own for the CPU to a custom call of the runtime.

    Args:
        ctx: that of the lowering rule.
        target: the Python function.
        kind: one of ``bellhop_mlir.dialects.callback_kinds``.
        operands: the operands of the call.
        token: the token before the call; None for a call without order.

    Returns:
        the results, and the token after the call where there is one.
    """
    programs = _ModulePrograms.from_context(ctx.module_context)
    results = [ir_type(ctx, aval) for aval in ctx.avals_out]
    types = tuple((aval.shape, aval.dtype) for aval in ctx.avals_in)
    key = target, kind, types
    program = programs.callbacks.get(key)
    if program is None:
        # The same in every process, so that JAX's persistent cache serves the module.
        types_out = [(aval.shape, aval.dtype) for aval in ctx.avals_out]
        parts = len(programs.callbacks), target.qualified_name, target.site, kind, types, types_out
        text = " ".join(map(str, parts))
        digest = hashlib.blake2b(text.encode(), digest_size=7).digest()
        program = programs.table.reserve(int.from_bytes(digest, "big"))
        programs.table.set_program(program, [target.bind()])
        programs.callbacks[key] = program
    ordered = [] if token is None else [token]
    table = [mlir.ir_constant(table_handle(programs.table))] if KINDS[kind].takes_table else []
    values = RuntimeCallBuilder().create(
        KINDS[kind].custom_call,
        [*table, *ordered, *operands],
        [*(value.type for value in ordered), *results],
        {
            "program": make_i64(program),
            "index": make_i64(0),
            "python": ir.StringAttr.get(target.qualified_name),
        },
        has_side_effect=not KINDS[kind].is_pure,
        # The table stands before all operands, the token before all arguments.
        aliases=[
            (len(table) + len(ordered) + argument, len(ordered) + result)
            for argument, result in target.aliases
        ],
    )
    return values[len(ordered) :], values[0] if ordered else None


def has_callbacks(keepalive: Any) -> bool:
    """Tell whether an object that an executable of JAX's keeps alive is programs with callbacks."""
    return isinstance(keepalive, _ModulePrograms) and bool(keepalive.table.callbacks)


def check_single_platform(context: mlir.ModuleContext, label: str) -> None:
    """Refuse what is lowered for no process, or for no platform, in particular.

    Args:
        context: of a program of JAX's own.
        label: which callback or circuit it calls, for errors.

    Raises:
        NotImplementedError: for ``jax.export``, and for several platforms at once.
    """
    if context.lowering_parameters.for_export:
        raise NotImplementedError(
            f"jax.export of a program with bellhop's callbacks and circuits ({label}): what they "
            "call is not in the module. Compile it with bellhop.qjit, and use f.save(path) and "
            "bellhop.load(path)."
        )
    if len(context.platforms) > 1:
        raise NotImplementedError(
            f"a program with bellhop's callbacks and circuits ({label}) is lowered for "
            f"{', '.join(context.platforms)} at once, and each calls Python in a way of its own. "
            "Use lower(lowering_platforms=(platform,)) for each by itself."
        )


def lower_as_program(
    ctx: mlir.LoweringRuleContext,
    primitive: Primitive,
    operands: Sequence[ir.Value],
    params: dict[str, Any],
    label: str,
) -> list[ir.Value]:
    """Lower one of our primitives inside a program of JAX's, as a program of its own.

    Equal ones in a module are one program, which is called in several places.

    Args:
        ctx: that of the lowering rule.
        primitive: the primitive.
        operands: of the call.
        params: of the call.
        label: which callback or circuit it is, for errors.
    """
    context = ctx.module_context
    check_single_platform(context, label)
    if is_partitioned(context):
        return lower_on_first_device(ctx, functools.partial(primitive.bind, **params), operands)
    programs = _ModulePrograms.from_context(context)
    avals = tuple(to_structs(ctx.avals_in))
    key = primitive, tuple(sorted(params.items())), avals
    if set(context.platforms) != {"cpu"}:
        if key not in programs.on_host:
            programs.on_host[key] = _compile_host_call(primitive, params, avals, label)
        return _lower_host_call(ctx, *programs.on_host[key], operands)
    if key not in programs.merged:
        program = compile_program(
            lambda *args: primitive.bind(*args, **params), avals, programs.table, is_merged=True
        )
        code = program.code
        programs.merged[key] = code, merge_program(ctx, code), ordered_effects(program.jaxpr)
    code, symbol, effects = programs.merged[key]
    # The module may have tokens of JAX's own callbacks beside these.
    tokens = [ctx.tokens_in.get(effect) for effect in effects]
    table = mlir.ir_constant(table_handle(programs.table))
    results = call_program(ctx, symbol, code, code.operands(operands), table, tokens)
    if effects:
        after = mlir.TokenSet(dict(zip(effects, results[: code.tokens], strict=True)))
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(after))
    return results[code.tokens :]
