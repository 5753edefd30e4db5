"""Elements of a batch that have ended do not change, where the condition of ``while`` calls Python.

For ``f = lambda n: jax.lax.while_loop(lambda i: (tap(print, i), i < 2)[1], lambda i: i + 1, n)``::

    jax.vmap(f)(jnp.array([1, 5]))    [2 5]; by JAX's rule [2 6]

Replaced: the lowering of ``while_p`` where the condition is mapped and has ordered effects.  JAX's
goes on with all elements until none goes on: it selects where there are no such effects alone.
Versions: 0.10 to 0.12.
Upstream: JAX refuses to map its own ordered effects, so its rule is not reached there.
Installed: by the first call with an effect that is traced.
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


def select_active_elements(goes_on: Any, after: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Return what a loop carries after an iteration: of elements that have ended, what it was.

    Args:
        goes_on: of each element; its axes are the first of what is carried.
        after: the carried values after the body.
        before: those before it.
    """
    axes = tuple(range(goes_on.ndim))
    return [
        jax.lax.select(jax.lax.broadcast_in_dim(goes_on, new.shape, axes), new, old)
        for new, old in zip(after, before, strict=True)
    ]


def _run_batched_while(
    *operands: Any,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
) -> Sequence[Any]:
    first = cond_nconsts + body_nconsts
    of_condition, of_body = operands[:cond_nconsts], operands[cond_nconsts:first]

    def is_active(carried: Sequence[Any]) -> Any:
        return eval_jaxpr(cond_jaxpr.jaxpr, cond_jaxpr.consts, *of_condition, *carried)[0]

    def step(state: Any) -> Any:
        goes_on, carried = state
        after = eval_jaxpr(body_jaxpr.jaxpr, body_jaxpr.consts, *of_body, *carried)
        carried = tuple(select_active_elements(goes_on, after, carried))
        return goes_on & is_active(carried), carried

    carried = operands[first:]
    _, carried = jax.lax.while_loop(
        lambda state: jnp.any(state[0]), step, (is_active(carried), carried)
    )
    return carried


@patch("the lowering of while", "elements of a batch that have ended do not change")
def patch_batched_while() -> None:
    """Select for each element, where a mapped condition has ordered effects."""
    by_jax = original(loops, "_while_lowering")
    selecting = mlir.lower_fun(_run_batched_while, multiple_results=True)

    def lower(ctx: Any, *operands: Any, cond_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        is_mapped = bool(cond_jaxpr.out_avals[0].shape)
        rule = selecting if is_mapped and ordered_effects(cond_jaxpr) else by_jax
        return rule(ctx, *operands, cond_jaxpr=cond_jaxpr, **params)

    mlir.register_lowering(while_p, lower)
