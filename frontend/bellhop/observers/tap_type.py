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
    DebugCall,
    checkpoint_residuals,
    ordered_effect,
)
from bellhop.compiler.callback_target import CallbackTarget

# Callback type of the call that a tap is lowered to.
_WITHOUT_RESULTS = DebugCall("tap_without_results")


class Tap(CallbackType):
    """Callback type of taps: asynchronous calls whose results are their operands.

    Since a tap returns its operands, derivatives pass through it. In reverse mode the tap of a
    tangent becomes a tap of the cotangent.
    """

    kind = "tap"
    effects = frozenset({ordered_effect})

    def target(self, *args: Any, **options: Any) -> CallbackTarget:
        """Build the `CallbackTarget` of a tap: its function and types, with ``asynchronous=True``.

        Arguments are as for `CallbackType.target`.
        """
        return super().target(*args, asynchronous=True, **options)

    def bind(self, target: CallbackTarget, leaves: Sequence[Any]) -> Any:
        """Bind the tap's primitive: add it to the traced program, or queue the call now.

        Args:
            target: the tap's function and options.
            leaves: leaves of the function's arguments ``(args, kwargs)``.

        Returns:
            the pytree ``(args, kwargs)``, whose leaves are the results of the primitive: the same
            values as ``leaves``.
        """
        return jax.tree.unflatten(target.in_tree, self.primitive.bind(*leaves, target=target))

    def run(self, *leaves: Operand, target: CallbackTarget) -> list[Any]:
        """Queue the call with concrete values; return them as arrays: the impl rule."""
        _WITHOUT_RESULTS.primitive.bind(*leaves, target=target)
        return [jnp.asarray(leaf) for leaf in leaves]

    def abstract_eval(self, *avals: Aval, target: CallbackTarget) -> Any:
        """Return the types of the operands as result types, and the effects of the call."""
        _, effects = super().abstract_eval(*avals, target=target)
        return avals, effects

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Batching rule of a tap: call the function once with the whole batch.

        The function normally gets arrays with the batch axis first. If the function takes JAX's
        transformations as its last argument (``target.transforms`` is not None), the arrays are
        passed as they are, and the transformation ``("batch", {"batch_dims": dims})`` is appended.

        Args:
            operands: leaves of the arguments, some of them with a batch axis.
            dims: batch axis of each operand, or None.
            target: the tap's function and options.

        Returns:
            the values, and their batch axes.
        """
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
        """JVP rule of a tap: send the primals to the function; return the tangents unchanged."""
        return self.primitive.bind(*primals, target=target), tangents

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> list[Any]:
        """Transpose rule of a tap: send the cotangents to the function, and return them.

        JAX applies the rule to taps of tangents: reverse mode does not compute tangents, and so the
        function is called with the cotangents in their place.

        Args:
            cotangents: cotangent of each result, an array or a symbolic zero.
            *operands: the value of each operand; JAX's ``UndefinedPrimal`` for a tangent.
            target: the tap's function and options.

        Returns:
            for each operand its cotangent, or None if it is not a tangent.

        Raises:
            DifferentiableCompileError: if the function does not take JAX's transformations as an
                argument (``target.transforms`` is None), so that it could not tell cotangents from
                values.
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
        """Partial evaluation rule of a tap under ``jax.checkpoint``.

        If an operand is unknown, that is, depends on a tangent, the tap happens only in the
        recomputation. Otherwise it happens in the first pass, and again when the values are
        recomputed, unless ``saveable``, JAX's policy, saves its results.

        Args:
            saveable: JAX's policy, which selects results to save.
            unknown: for each operand, whether it is unknown.
            instantiated: for each operand, whether the recomputation has its value already.
            eqn: the equation of the tap.

        Returns:
            JAX's tuple: the known equation and the recomputed equation, or None; for each result
            whether it is unknown and whether the recomputation computes it; and residuals.
        """
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
        """Lower a tap to a call without results; return the operands."""
        of_call = ctx.replace(primitive=_WITHOUT_RESULTS.primitive, avals_out=())
        _WITHOUT_RESULTS.lower(of_call, *operands, target=target)
        if of_call.tokens_out is not None:
            ctx.set_tokens_out(of_call.tokens_out)
        return operands


def _transform_target(
    target: CallbackTarget, transform: tuple[str, dict[str, Any]]
) -> CallbackTarget:
    """Append a transformation to the list that a tapped function gets as its last argument.

    Args:
        transform: name and parameters, such as ``("transpose", {})``.

    Returns:
        a copy of the target.
    """
    return dataclasses.replace(target, transforms=(*(target.transforms or ()), transform))
