"""The primitives that callbacks are: abstract value, transformations and lowering."""

import functools
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Effect, Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops, keep_rules_around
from bellhop._jax.private import (
    InputOutputEffect,
    hold_weakly_in_caches,
    ir_type,
    register_effect,
    register_ordered_effect,
)
from bellhop.callbacks.partitioned import attempted
from bellhop.callbacks.vmap_method import call_each, call_each_now, call_with_batch
from bellhop.compiler.context import lowering_in_progress
from bellhop.compiler.delegation import is_delegated, lower_by_jax
from bellhop.compiler.plain_jit import lower_alone
from bellhop.compiler.target import CallbackTarget
from bellhop.mesh.manual_axes import varying_as
from bellhop.mesh.partitioning import is_partitioned, on_first_device
from bellhop_mlir.dialects import callback as dialect
from bellhop_runtime import Callback


class CallbackEffect(Effect):
    """Orders the calls that carry it as the program does."""

    def __str__(self) -> str:
        return "Callback"


register_ordered_effect(CallbackEffect)
register_effect(InputOutputEffect)
hold_weakly_in_caches(CallbackTarget)
ordered_effect = CallbackEffect()
input_output_effect = InputOutputEffect()

pure_callback_p = Primitive("bellhop_pure_callback")
debug_callback_p = Primitive("bellhop_debug_callback")
io_callback_p = Primitive("bellhop_io_callback")
ordered_io_callback_p = Primitive("bellhop_ordered_io_callback")


def _call_now(*leaves: Any, target: CallbackTarget) -> list[Any]:
    """Call the function right away, where no program is being traced."""
    return [jnp.asarray(result) for result in _call_with_arrays(target, leaves)]


def _call_with_arrays(target: CallbackTarget, leaves: Sequence[Any]) -> list[np.ndarray]:
    target.check_arguments([jax.typeof(leaf) for leaf in leaves])
    results = [np.empty(aval.shape, aval.dtype) for aval in target.result_avals]
    callback = target.bind()

    def call(arguments: list[np.ndarray], results: list[np.ndarray]) -> None:
        if target.asynchronous:
            Callback.tap(callback, arguments)
            return
        for argument, result in target.aliases:
            results[result][...] = arguments[argument]
            arguments[argument] = results[result]
        callback(arguments, results)

    arguments = [_host_array(leaf) for leaf in leaves]
    if target.takes_device:
        arguments.append(np.array(_device_ordinal(leaves), np.int32))
    call_each_now(call, arguments, results, target.loops)
    return results


def _device_ordinal(leaves: Sequence[Any]) -> int:
    """Return the number of the CPU device that holds the arguments; elsewhere, of the first."""
    for leaf in leaves:
        if isinstance(leaf, jax.Array):
            for device in leaf.devices():
                if device.platform == "cpu":
                    # JAX may have dropped the device since.
                    return device.client.local_devices().index(device)
    return 0


def _host_array(leaf: Any) -> np.ndarray:
    dtype = jax.typeof(leaf).dtype
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        # As in a compiled program, where a key is the words that it consists of.
        return np.asarray(jax.random.key_data(leaf))
    return np.array(leaf, dtype, order="C", copy=None)


def _abstract_eval(
    *avals: Any, target: CallbackTarget, effects: Collection[Effect]
) -> tuple[Sequence[Any], Collection[Effect]]:
    keep_effects_in_loops()
    target.check_arguments(avals)
    return varying_as(avals, target.result_avals), effects


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, primitive: Primitive, target: CallbackTarget
) -> tuple[list[Any], list[int]]:
    return call_with_batch(primitive.bind, operands, dims, target)


def _jvp_pure(
    primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    differentiated = any(type(tangent) is not ad.Zero for tangent in tangents)
    if differentiated and any(_is_inexact(aval) for aval in target.result_avals):
        raise target.derivative_error()
    results = pure_callback_p.bind(*primals, target=target)
    return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]


def _is_inexact(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def _refuse_transposition(
    cotangents: Sequence[Any], *operands: Any, target: CallbackTarget
) -> Sequence[Any]:
    """Refuse what only a function said to be linear gets to: nothing says that it is."""
    del cotangents, operands
    raise target.derivative_error()


def _jvp_debug(
    primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    del tangents
    return debug_callback_p.bind(*primals, target=target), []


def _jvp_io(
    primitive: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    target: CallbackTarget,
) -> tuple[list[Any], list[Any]]:
    if any(_is_differentiated(tangent) for tangent in tangents):
        raise target.side_effect_error()
    results = primitive.bind(*primals, target=target)
    return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]


def _is_differentiated(tangent: Any) -> bool:
    # Integers may come with tangents of their own type, which say nothing.
    return type(tangent) is not ad.Zero and jax.typeof(tangent).dtype != jax.dtypes.float0


def _refuse_batching(
    operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[int]]:
    del operands, dims
    raise target.order_error()


def _partial_eval_debug(
    saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: Any
) -> tuple[Any, ...]:
    """Under ``jax.checkpoint``, report when the arguments are first known, and only then."""
    del saveable
    if any(unknown):
        residuals = [var for var, inst in zip(eqn.invars, instantiated, strict=True) if not inst]
        return None, eqn, [], [], residuals
    return eqn, None, [], [], []


def _lower(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    primitive: Primitive,
    kind: str,
    is_ordered: bool,
    declared: int | None,
    target: CallbackTarget,
) -> Any:
    lowering = lowering_in_progress()
    kind = "tap" if target.asynchronous else kind
    if target.partitioned and lowering is None and is_partitioned(ctx.module_context):
        # JAX's callback is one that XLA leaves to each device.  There is no order among these.
        lower_by_jax(ctx, target, kind, operands, None)
        ctx.set_tokens_out(ctx.tokens_in)
        return []
    if lowering is None and not is_delegated(ctx.module_context.platforms[0]):
        if is_partitioned(ctx.module_context) and not target.asynchronous:
            call, settle = attempted(
                primitive, io_callback_p, target, _call_with_arrays, len(operands)
            )
            return on_first_device(ctx, call, operands, settle)
        return lower_alone(ctx, primitive, operands, {"target": target})
    if target.loops:
        each = functools.partial(call_each, primitive.bind, target=target)
        return mlir.lower_fun(lambda *args: each(args), multiple_results=True)(ctx, *operands)
    token = ctx.tokens_in.get(ordered_effect) if is_ordered else None
    lower = (
        lower_by_jax
        if lowering is None
        else functools.partial(_lower_to_dialect, declared=declared)
    )
    results, token = lower(ctx, target, kind, operands, token)
    if token is not None:
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({ordered_effect: token})))
    return results


def _lower_to_dialect(
    ctx: mlir.LoweringRuleContext,
    target: CallbackTarget,
    kind: str,
    operands: Sequence[Any],
    token: Any,
    *,
    declared: int | None,
) -> tuple[list[Any], Any]:
    lowering = lowering_in_progress()
    assert lowering is not None
    symbol = lowering.declare(ctx.replace(avals_in=ctx.avals_in[:declared]), target)
    types = [ir_type(ctx, aval) for aval in ctx.avals_out]
    if token is None:
        call = dialect.call(symbol, kind, list(operands), types, target.aliases)
        return list(call.results), None
    call = dialect.call(symbol, kind, [token, *operands], [token.type, *types], target.aliases)
    next_token, *results = call.results
    return results, next_token


def register_callback(
    primitive: Primitive,
    kind: str,
    effects: Collection[Effect] = (),
    *,
    declared: int | None = None,
) -> None:
    """Make a primitive one that calls its ``target``, where programs are traced and outside.

    Args:
        primitive: its rules of differentiation are left to the caller.
        kind: what the callback dialect calls it.
        effects: those of a call; ``ordered_effect`` may be among them.
        declared: how many of the operands are arguments of the function; None for all.
    """
    primitive.multiple_results = True
    primitive.def_impl(_call_now)
    primitive.def_effectful_abstract_eval(
        functools.partial(_abstract_eval, effects=frozenset(effects))
    )
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive=primitive)
    lower = functools.partial(
        _lower,
        primitive=primitive,
        kind=kind,
        is_ordered=ordered_effect in effects,
        declared=declared,
    )
    mlir.register_lowering(primitive, lower, cacheable=False)


for _primitive in (pure_callback_p, io_callback_p, ordered_io_callback_p):
    ad.primitive_transposes[_primitive] = _refuse_transposition

register_callback(pure_callback_p, "pure")
ad.primitive_jvps[pure_callback_p] = _jvp_pure
keep_rules_around(pure_callback_p)

register_callback(debug_callback_p, "debug", {ordered_effect})
ad.primitive_jvps[debug_callback_p] = _jvp_debug
pe.partial_eval_jaxpr_custom_rules[debug_callback_p] = _partial_eval_debug

for _primitive, _effects in (
    (io_callback_p, {input_output_effect}),
    # Of both: one orders it, by the other JAX refuses to run branches that are not taken.
    (ordered_io_callback_p, {ordered_effect, input_output_effect}),
):
    register_callback(_primitive, "io", _effects)
    ad.primitive_jvps[_primitive] = functools.partial(_jvp_io, _primitive)
batching.primitive_batchers[ordered_io_callback_p] = _refuse_batching
