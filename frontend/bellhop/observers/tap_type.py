"""The flavour of taps: calls that the program does not wait for, which return what they saw."""

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

# What a tap is lowered to.
_WITHOUT_RESULTS = Report("tap_without_results")


class Tap(CallbackType):
    """Calls whose results are their operands, so that what flows through has derivatives."""

    kind = "tap"
    effects = frozenset({ordered_effect})

    def target(self, *args: Any, **options: Any) -> CallbackTarget:
        """Return what another thread calls."""
        return super().target(*args, asynchronous=True, **options)

    def bind(self, target: CallbackTarget, leaves: Sequence[Any]) -> Any:
        """Tap leaves; return ``(args, kwargs)`` of what flows on."""
        return jax.tree.unflatten(target.in_tree, self.primitive.bind(*leaves, target=target))

    def run(self, *leaves: Operand, target: CallbackTarget) -> list[Any]:
        """Tap right away, where no program is being traced."""
        _WITHOUT_RESULTS.primitive.bind(*leaves, target=target)
        return [jnp.asarray(leaf) for leaf in leaves]

    def abstract_eval(self, *avals: Aval, target: CallbackTarget) -> Any:
        """Return the types of the operands, and the effects."""
        _, effects = super().abstract_eval(*avals, target=target)
        return avals, effects

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Tap the whole batch at once."""
        if target.transforms is not None:
            target = _transform_target(target, ("batch", {"batch_dims": tuple(dims)}))
            return self.primitive.bind(*operands, target=target), list(dims)
        # Nobody tells this function where the batch is, so it always comes first.
        args = [
            operand if dim is None else jnp.moveaxis(operand, dim, 0)
            for operand, dim in zip(operands, dims, strict=True)
        ]
        results = self.primitive.bind(*args, target=target)
        return results, [None if dim is None else 0 for dim in dims]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Tap primal values."""
        return self.primitive.bind(*primals, target=target), tangents

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> list[Any]:
        """Tap the cotangents in place of the tangents, which reverse mode never computes."""
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
        """Under ``jax.checkpoint``, tap again where values are computed again."""
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
        """Lower to a call without results, whose operands go on."""
        of_call = ctx.replace(primitive=_WITHOUT_RESULTS.primitive, avals_out=())
        _WITHOUT_RESULTS.lower(of_call, *operands, target=target)
        if of_call.tokens_out is not None:
            ctx.set_tokens_out(of_call.tokens_out)
        return operands


def _transform_target(
    target: CallbackTarget, transform: tuple[str, dict[str, Any]]
) -> CallbackTarget:
    return dataclasses.replace(target, transforms=(*(target.transforms or ()), transform))
