"""Lowering of Bellhop's primitives in a plain ``jax.jit``.

The lowering rule of a callback emits a custom call of the runtime in JAX's module.
``jax.jit(lambda x: 2 * pure_callback(f, float)(x))`` becomes ::

    %table = stablehlo.constant dense<0> : tensor<2xui32>
    %0 = stablehlo.custom_call @bellhop_callback(%table, %x)
        {backend_config = {index = 0 : i64, program = 7 : i64, python = "f"}}
    %1 = stablehlo.multiply %cst, %0

The lowering rule of a circuit compiles a program that contains only the circuit, merges that
program into JAX's module, and emits a call::

    %0 = call @bellhop_main(%x, %zeros) : (tensor<f64>, tensor<2xui32>) -> tensor<f64>

In a program for a GPU or TPU the rule compiles the circuit for the host, and emits JAX's own
callback that runs it, so arguments and results are copied once::

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

# Takes arguments, and arrays to write the results into.
_HostCall = Callable[[list[np.ndarray], list[np.ndarray]], None]


def _compile_host_call(
    primitive: Primitive, params: dict[str, Any], avals: Sequence[Any], name: str
) -> tuple[_HostCall, Any]:
    """Compile a primitive for the host, to be called from a program on a GPU or TPU.

    Args:
        primitive: a primitive of Bellhop, such as a circuit.
        params: parameters of its equation.
        avals: types of the operands.
        name: name of the program.

    Returns:
        a function that runs it, and the jaxpr of the program. The function takes a list of
        arguments and a list of arrays to write the results into.
    """

    def alone(*args: Any) -> Any:
        return primitive.bind(*args, **params)

    alone.__name__ = name
    with use_host():
        traced = jax.jit(alone).trace(*avals)
        executable = run_with_failures(traced.lower().compile)

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Run the compiled program on the host; write its results into ``results``.

        Args:
            arguments: arguments of the program.
            results: arrays of the types of the program's results.
        """
        with use_host():
            values = run_compiled(executable, None, *arguments)
        for result, value in zip(results, values, strict=True):
            result[...] = value

    return call, traced.jaxpr


def _lower_host_call(
    ctx: mlir.LoweringRuleContext, call: _HostCall, jaxpr: Any, operands: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit a call of a host program in a ``jax.jit`` module, by JAX's own callback.

    Args:
        ctx: context of the lowering rule.
        call: runs the program: takes a list of arguments and a list of arrays for the results.
        jaxpr: jaxpr of the program. Its ordered effects determine the tokens, which are read from
            and set in `ctx`; without any effects the call is pure.
        operands: operands of the rule.

    Returns:
        the list of results.
    """
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
    """Bellhop's callbacks and programs in one plain ``jax.jit`` module.

    The module's executable keeps the object alive. The callback table is published: the runtime
    finds it by a hash of the program, since a table address in the module would make the module
    specific to this process.

    Attributes:
        table: the callbacks.
        callbacks: maps ``(target, kind, argument types)`` to the hash by which the runtime finds
            the callback in the table.
        merged: maps ``(primitive, parameters, types)`` to a program that was merged into the
            module: its code, its symbol and its ordered effects.
        on_host: maps ``(primitive, parameters, types)`` to a program that was compiled for the
            host: the function that runs it, and its jaxpr.
    """

    def __init__(self) -> None:
        self.table = CallbackTable(published=True)
        self.callbacks: dict[Hashable, int] = {}
        self.merged: dict[Hashable, tuple[Code, str, list[Effect]]] = {}
        self.on_host: dict[Hashable, tuple[_HostCall, Any]] = {}

    def __reduce__(self) -> Any:
        """Raise an error: an executable with Bellhop's callbacks cannot be serialized.

        Raises:
            TypeError: naming the callbacks.
        """
        names = sorted(f"{each.description} ({each.site})" for each in self.table.callbacks)
        raise TypeError(
            "a compiled program with bellhop's callbacks cannot be serialized, since it calls "
            f"Python functions of this process: {', '.join(names)}. Use JAX's persistent "
            "compilation cache (jax_compilation_cache_dir)."
        )

    @classmethod
    def from_context(cls, context: mlir.ModuleContext) -> "_ModulePrograms":
        """Return the object for the ``jax.jit`` module being lowered; create it at the first call.

        Args:
            context: JAX's context of the module, which keeps the object alive.
        """
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
    """Emit a custom call that calls a callback, in a plain ``jax.jit`` module for the CPU.

    Equal calls of a module share one entry of its callback table.

    Args:
        ctx: context of the lowering rule.
        target: the callback.
        kind: kind of the callback, a key of ``KINDS`` such as ``"pure"``.
        operands: operands of the rule.
        token: token before the call, or None for an unordered call.

    Returns:
        the list of results, and the token after the call or None.
    """
    programs = _ModulePrograms.from_context(ctx.module_context)
    results = [ir_type(ctx, aval) for aval in ctx.avals_out]
    types = tuple((aval.shape, aval.dtype) for aval in ctx.avals_in)
    key = target, kind, types
    program = programs.callbacks.get(key)
    if program is None:
        # A hash that is equal in all processes, so that JAX's persistent cache finds the module.
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
        # The table precedes all operands, and the token precedes all arguments.
        aliases=[
            (len(table) + len(ordered) + argument, len(ordered) + result)
            for argument, result in target.aliases
        ],
    )
    return values[len(ordered) :], values[0] if ordered else None


def has_callbacks(keepalive: Any) -> bool:
    """Return whether an object that a JAX executable keeps alive has callbacks of Bellhop."""
    return isinstance(keepalive, _ModulePrograms) and bool(keepalive.table.callbacks)


def check_single_platform(context: mlir.ModuleContext, label: str) -> None:
    """Raise an error if JAX lowers a module for export or for several platforms.

    Callbacks and circuits are lowered for this process and one platform.

    Args:
        context: JAX's context of the module that is being lowered.
        label: description of the callback or circuit, for errors.

    Raises:
        NotImplementedError: for ``jax.export``, and for several platforms.
    """
    if context.lowering_parameters.for_export:
        raise NotImplementedError(
            f"jax.export of a program with bellhop's callbacks or circuits ({label}) is not "
            "supported, since the module would not contain the Python functions. Compile the "
            "function with bellhop.qjit, and use f.save(path) and bellhop.load(path)."
        )
    if len(context.platforms) > 1:
        raise NotImplementedError(
            f"a program with bellhop's callbacks or circuits ({label}) is lowered for "
            f"{', '.join(context.platforms)} at once, expected one platform. "
            "Use lower(lowering_platforms=(platform,)) for each platform."
        )


def lower_as_program(
    ctx: mlir.LoweringRuleContext,
    primitive: Primitive,
    operands: Sequence[ir.Value],
    params: dict[str, Any],
    label: str,
) -> list[ir.Value]:
    """Lower a primitive of Bellhop, such as a circuit, as a program in a ``jax.jit``.

    On the CPU the program is merged into the module; in a module for a GPU or TPU it is compiled
    for the host, which JAX's own callback calls; in a module that XLA partitions it runs on the
    first device. Equal primitives in a module share one program.

    Args:
        ctx: context of the lowering rule. The tokens of the program's ordered effects are read from
            and set in it.
        primitive: the primitive.
        operands: operands of the rule.
        params: parameters of the primitive's equation.
        label: description of the circuit, for errors.

    Raises:
        NotImplementedError: for ``jax.export``, and for several platforms.
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
    # The module may also have tokens of JAX callbacks.
    tokens = [ctx.tokens_in.get(effect) for effect in effects]
    table = mlir.ir_constant(table_handle(programs.table))
    results = call_program(ctx, symbol, code, code.select_operands(operands), table, tokens)
    if effects:
        after = mlir.TokenSet(dict(zip(effects, results[: code.tokens], strict=True)))
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(after))
    return results[code.tokens :]
