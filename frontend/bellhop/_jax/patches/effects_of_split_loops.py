"""The linear part of a loop of computed length does not repeat the effects of its known part.

JAX splits the derivative of a ``while`` into a loop of the known values and one that computes them
again with the tangents, effects included::

    y = while[body={ lambda ; y. let debug_print y    z = sin y in (z,) } ...] x
    _ y_dot = while[
      body={ lambda ; y y_dot. let
          debug_print y                                          not with this patch
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

Where nothing linear is left in the second loop, reverse mode evaluates it since jax 0.12, for its
effects alone; before, reverse mode had no rule for it.

Replaced: the partial evaluation of ``while_p``.
Versions: 0.10 to 0.12.
Upstream: JAX computes the loop again on purpose, since residuals have no static shape; a rule that
leaves out effects would do.
Installed: when a program, or one of our calls with effects, is first traced.
Test: ``test_derivatives_of_long_loops.py``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from jax._src import effects  # noqa: TID251
from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import while_p

from bellhop._patching import patch

# Takes the body or the condition, as computed again, and its known part; returns what replaces it.
Change = Callable[[ClosedJaxpr, ClosedJaxpr], ClosedJaxpr]


@patch("the partial evaluation of while", "loops that are computed again do not repeat effects")
def split_loops_by(without_known_effects: Change) -> None:
    """Remove effects from loops that are computed again.

    Args:
        without_known_effects: takes a jaxpr and its known part, which has run before; returns the
            jaxpr without the effects of the known part.
    """
    by_jax = partial_eval.custom_partial_eval_rules[while_p]

    def rule(trace: Any, *tracers: Any, **params: Any) -> list[Any]:
        n_before = len(trace.effect_handles)
        results = by_jax(trace, *tracers, **params)
        is_unknown = [not trace.to_jaxpr_tracer(result).is_known() for result in results]
        if all(is_unknown):
            # The loop runs once, where all of it is known.
            return results
        handles = trace.effect_handles[n_before:]
        del trace.effect_handles[n_before:]
        for handle in handles:
            recipe = handle.recipe
            if recipe.primitive is while_p:
                recipe = _changed(recipe, tracers, is_unknown, without_known_effects)
                for result in results:
                    if getattr(result, "recipe", None) is handle.recipe:
                        result.recipe = recipe
                handle = dataclasses.replace(handle, recipe=recipe)
            if effects.partial_eval_kept_effects.filter_in(recipe.effects):
                trace.effect_handles.append(handle)
        return results

    partial_eval.custom_partial_eval_rules[while_p] = rule


def _changed(recipe: Any, tracers: Any, is_unknown: list[bool], change: Change) -> Any:
    """Return the recipe of a loop that is computed again without the effects of its known part.

    Args:
        recipe: of the equation.
        tracers: its operands.
        is_unknown: which of the carried values are unknown.
        change: removes effects.
    """
    params = dict(recipe.params)
    n_cond, n_consts = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    consts = [not tracer.is_known() for tracer in tracers[:n_consts]]
    parts = (("cond_jaxpr", consts[:n_cond], False), ("body_jaxpr", consts[n_cond:], is_unknown))
    for name, unknown_consts, instantiate in parts:
        closed = params[name]
        if closed.effects:
            unknown = [*unknown_consts, *is_unknown]
            known, *_ = partial_eval.partial_eval_jaxpr_nounits(closed, unknown, instantiate)
            params[name] = change(closed, known)
    # The effects of a loop are those of both, and references that it changes, which are numbered.
    kept = params["cond_jaxpr"].effects | params["body_jaxpr"].effects
    before = recipe.params["cond_jaxpr"].effects | recipe.params["body_jaxpr"].effects
    return recipe._replace(params=params, effects=recipe.effects - (before - kept))
