"""Callback type of taps: asynchronous calls that return their operands."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.interpreters import ad, mlir
from jax.interpreters.mlir import ir

from bellhop.base.types import Aval, Operand
from bellhop.callbacks.callback_type import (
    CallbackType,
    Report,
    checkpoint_residuals,
    ordered_effect,
)
from bellhop.compiler.callback_target import CallbackTarget

# Callback type of the call that a tap is lowered to.
_WITHOUT_RESULTS = Report("tap_without_results")


class Tap(CallbackType):
    """Asynchronous calls whose results are their operands.

    Derivatives of the operands pass through a tap, so that it can be transposed.
    """

    kind = "tap"
    effects = frozenset({ordered_effect})

    def target(self, *args: Any, **options: Any) -> CallbackTarget:
        """Build the target of an asynchronous call."""
        return super().target(*args, asynchronous=True, **options)

    def bind(self, target: CallbackTarget, leaves: Sequence[Any]) -> Any:
        """Tap the leaves; return ``(args, kwargs)`` with the results in their place."""
        return jax.tree.unflatten(target.in_tree, self.primitive.bind(*leaves, target=target))

    def run(self, *leaves: Operand, target: CallbackTarget) -> list[Any]:
        """Tap now, with concrete operands: the primitive's impl rule."""
        _WITHOUT_RESULTS.primitive.bind(*leaves, target=target)
        return [jnp.asarray(leaf) for leaf in leaves]

    def abstract_eval(self, *avals: Aval, target: CallbackTarget) -> Any:
        """Return the types of the operands, and the effects."""
        _, effects = super().abstract_eval(*avals, target=target)
        return avals, effects

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Batching rule: tap the whole batch in one call."""
        if target.transforms is not None:
            target = _transform_target(target, ("batch", {"batch_dims": tuple(dims)}))
            return self.primitive.bind(*operands, target=target), list(dims)
        # The function does not know the batch axis of each argument, so it is always the first.
        args = [
            operand if dim is None else jnp.moveaxis(operand, dim, 0)
            for operand, dim in zip(operands, dims, strict=True)
        ]
        results = self.primitive.bind(*args, target=target)
        return results, [None if dim is None else 0 for dim in dims]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """JVP rule: tap the primal values; the tangents pass through."""
        return self.primitive.bind(*primals, target=target), tangents

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> list[Any]:
        """Transpose rule: tap the cotangents of tapped tangents.

        Reverse mode never computes the tangents themselves.
        """
        if target.transforms is None:
            raise target.tangent_error()
        seen = [
            ad.instantiate_zeros(cotangent) if ad.is_undefined_primal(operand) else operand
            for cotangent, operand in zip(cotangents, operands, strict=True)
        ]
        results = self.primitive.bind(*seen, target=_transform_target(target, ("transpose", {})))
        return [
            result if ad.is_undefined_primal(operand) else None
            for result, operand in zip(results, operands, strict=True)
        ]

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Partial evaluation rule: tap again when ``jax.checkpoint`` recomputes the values."""
        residuals = checkpoint_residuals(instantiated, eqn)
        all_, none = [True] * len(eqn.outvars), [False] * len(eqn.outvars)
        if any(unknown):
            return None, eqn, all_, all_, residuals
        avals = [var.aval for var in eqn.invars]
        if saveable(eqn.primitive, *avals, **eqn.params) is True:
            return eqn, None, none, none, []
        return eqn, eqn, none, all_, residuals

    def lower(
        self, ctx: mlir.LoweringRuleContext, *operands: ir.Value, target: CallbackTarget
    ) -> Sequence[Any]:
        """Lower to a call without results; the results are the operands."""
        of_call = ctx.replace(primitive=_WITHOUT_RESULTS.primitive, avals_out=())
        _WITHOUT_RESULTS.lower(of_call, *operands, target=target)
        if of_call.tokens_out is not None:
            ctx.set_tokens_out(of_call.tokens_out)
        return operands


def _transform_target(
    target: CallbackTarget, transform: tuple[str, dict[str, Any]]
) -> CallbackTarget:
    """Return the target with one more transformation among its function's arguments."""
    return dataclasses.replace(target, transforms=(*(target.transforms or ()), transform))
