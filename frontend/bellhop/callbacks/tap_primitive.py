"""The primitive of taps: calls that the program does not wait for, which return what they saw."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Effect, Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop.callbacks.primitive import debug_callback_p, ordered_effect
from bellhop.compiler.target import CallbackTarget

# Its results are its operands, so that what flows through it has derivatives.
tap_p = Primitive("bellhop_tap")
tap_p.multiple_results = True


@tap_p.def_impl
def _tap_now(*leaves: Any, target: CallbackTarget) -> list[Any]:
    debug_callback_p.bind(*leaves, target=target)
    return [jnp.asarray(leaf) for leaf in leaves]


@tap_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, target: CallbackTarget) -> tuple[Sequence[Any], set[Effect]]:
    keep_effects_in_loops()
    target.check_arguments(avals)
    return avals, {ordered_effect}


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, target: CallbackTarget) -> Any:
    def tap(*leaves: Any) -> tuple[Any, ...]:
        debug_callback_p.bind(*leaves, target=target)
        return leaves

    return mlir.lower_fun(tap, multiple_results=True)(ctx, *operands)


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    """Tap the whole batch at once."""
    if target.transforms is not None:
        target = _transformed(target, ("batch", {"batch_dims": tuple(dims)}))
        return tap_p.bind(*operands, target=target), list(dims)
    # Nobody tells this function where the batch is, so it always comes first.
    args = [
        operand if dim is None else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands, dims, strict=True)
    ]
    return tap_p.bind(*args, target=target), [None if dim is None else 0 for dim in dims]


def _transformed(target: CallbackTarget, transform: tuple[str, dict[str, Any]]) -> CallbackTarget:
    return dataclasses.replace(target, transforms=(*(target.transforms or ()), transform))


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], Sequence[Any]]:
    return tap_p.bind(*primals, target=target), tangents


def _transpose(cotangents: Sequence[Any], *operands: Any, target: CallbackTarget) -> list[Any]:
    """Tap the cotangents in place of the tangents, which reverse mode never computes."""
    if target.transforms is None:
        raise target.tangent_error()
    seen = [
        ad.instantiate_zeros(cotangent) if ad.is_undefined_primal(operand) else operand
        for cotangent, operand in zip(cotangents, operands, strict=True)
    ]
    results = tap_p.bind(*seen, target=_transformed(target, ("transpose", {})))
    return [
        result if ad.is_undefined_primal(operand) else None
        for result, operand in zip(results, operands, strict=True)
    ]


def _partial_eval(
    saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: Any
) -> tuple[Any, ...]:
    """Under ``jax.checkpoint``, tap again where values are computed again."""
    residuals = [var for var, inst in zip(eqn.invars, instantiated, strict=True) if not inst]
    if any(unknown):
        some = [True] * len(eqn.outvars)
        return None, eqn, some, some, residuals
    none = [False] * len(eqn.outvars)
    avals = [var.aval for var in eqn.invars]
    if saveable(eqn.primitive, *avals, **eqn.params) is True:
        return eqn, None, none, none, []
    return eqn, eqn, none, [True] * len(eqn.outvars), residuals


batching.primitive_batchers[tap_p] = _batch
ad.primitive_jvps[tap_p] = _jvp
ad.primitive_transposes[tap_p] = _transpose
pe.partial_eval_jaxpr_custom_rules[tap_p] = _partial_eval
mlir.register_lowering(tap_p, _lower, cacheable=False)
