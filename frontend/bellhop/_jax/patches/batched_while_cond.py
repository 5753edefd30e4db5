"""Keep finished elements unchanged in batched ``while`` loops with effects.

For ``f = lambda n: jax.lax.while_loop(lambda i: (tap(print, i), i < 2)[1], lambda i: i + 1, n)``::

    jax.vmap(f)(jnp.array([1, 5]))    [2 5]; by JAX's rule [2 6]

Replaced: the lowering of ``while_p`` where the condition is mapped and has ordered effects.  JAX's
lowering updates all elements until the last one ends: it uses `select` only without such effects.
Versions: 0.10 to 0.12.
Upstream: ``select`` in the lowering of loops with effects too.
Issue: jax#20628.
Installed: when the first call with an effect is traced.
Test: ``test_batched_while_cond.py``.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.lax.control_flow import loops  # noqa: TID251
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import while_p
from jax.interpreters import mlir

from bellhop._jax.private import ordered_effects
from bellhop._patching import original, patch


def select_active_elements(
    is_active: Any, after: Sequence[Any], before: Sequence[Any]
) -> list[Any]:
    """Select the new carried values of a loop for active batch elements, else the old.

    Args:
        is_active: bool[batch], whether each batch element's loop continues.
        after: carried values after the iteration, each of shape [batch, ...].
        before: carried values before the iteration, of the same shapes.
    """
    axes = tuple(range(is_active.ndim))
    return [
        jax.lax.select(jax.lax.broadcast_in_dim(is_active, new.shape, axes), new, old)
        for new, old in zip(after, before, strict=True)
    ]


def _run_batched_while(
    *operands: Any,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Sequence[Any]:
    """Run a batched ``while`` loop; do not change elements whose loop has ended.

    The condition is evaluated once an iteration, so that its effects happen once.

    Args:
        *operands: constants of the condition, constants of the body, and initial carried values
            of shape [batch, ...].
        cond_jaxpr: condition, ``(*constants, *carried) -> bool[batch]``.
        cond_nconsts: number of its constants.
        body_jaxpr: body, ``(*constants, *carried) -> carried``.
        body_nconsts: number of its constants.

    Returns:
        the final carried values, each of shape [batch, ...].
    """
    first = cond_nconsts + body_nconsts
    cond_consts, body_consts = operands[:cond_nconsts], operands[cond_nconsts:first]

    def is_active(carried: Sequence[Any]) -> Any:
        """Evaluate the condition, bool[batch], for the carried values."""
        return eval_jaxpr(cond_jaxpr.jaxpr, cond_jaxpr.consts, *cond_consts, *carried)[0]

    def step(state: Any) -> Any:
        """Run an iteration on ``(is_active, carried)``; return the new state.

        Finished elements do not change.
        """
        active, carried = state
        after = eval_jaxpr(body_jaxpr.jaxpr, body_jaxpr.consts, *body_consts, *carried)
        carried = tuple(select_active_elements(active, after, carried))
        return active & is_active(carried), carried

    carried = operands[first:]
    _, carried = jax.lax.while_loop(
        lambda state: jnp.any(state[0]), step, (is_active(carried), carried)
    )
    return carried


@patch("the lowering of while", "elements of a batch that have ended do not change")
def patch_batched_while() -> None:
    """Replace the lowering of ``while``, to keep finished batch elements unchanged.

    The new lowering is used for loops whose condition is batched and has ordered effects. All other
    loops keep JAX's lowering, in which finished elements do not change either.
    """
    lower_with_jax = original(loops, "_while_lowering")
    selecting = mlir.lower_fun(_run_batched_while, multiple_results=True)

    def lower(ctx: Any, *operands: Any, cond_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        """Lower a ``while`` equation, so that finished batch elements do not change.

        If the condition is batched and has ordered effects, the loop selects the new values of
        active elements. All other loops are lowered by JAX's rule.
        """
        is_mapped = bool(cond_jaxpr.out_avals[0].shape)
        rule = selecting if is_mapped and ordered_effects(cond_jaxpr) else lower_with_jax
        return rule(ctx, *operands, cond_jaxpr=cond_jaxpr, **params)

    mlir.register_lowering(while_p, lower)
