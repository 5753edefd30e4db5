"""Remove repeated effects from the linear part of a differentiated ``while`` loop.

JAX splits the derivative of a ``while`` into a loop of the known values and a loop that recomputes
them together with the tangents, effects included::

    y = while[body={ lambda ; y. let debug_print y    z = sin y in (z,) } ...] x
    _ y_dot = while[
      body={ lambda ; y y_dot. let
          debug_print y                                          removed by this patch
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

If the second loop has no linear equations left, reverse mode evaluates it only for its effects
since jax 0.12, and has no rule for it in earlier versions.

Replaced: the partial evaluation of ``while_p``.
Versions: 0.10 to 0.12.
Upstream: a rule of JAX that leaves effects out of the loop that it recomputes.
Issue: none reported.
Installed: when a program, or a call of Bellhop with effects, is first traced.
Test: ``test_derivatives_of_long_loops.py``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from jax._src import effects  # noqa: TID251
from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import while_p

from bellhop._patching import patch, replace_item

# Takes the recomputed body or condition and its known part; returns the replacement.
Change = Callable[[ClosedJaxpr, ClosedJaxpr], ClosedJaxpr]


@patch("the partial evaluation of while", "loops that are computed again do not repeat effects")
def patch_while_partial_eval(without_known_effects: Change) -> None:
    """Avoid repeated side effects when JAX splits a ``while`` loop for its derivative.

    JAX runs the loop once for the known values, and recomputes these in a second loop with the
    tangents. This patch replaces JAX's partial evaluation rule of ``while``, to remove the effects
    of the recomputed equations from the second loop.

    Args:
        without_known_effects: takes the body or condition of the second loop, and its known part,
            which the first loop has executed; returns the jaxpr without the effects of the known
            part.
    """
    apply_jax_rule = partial_eval.custom_partial_eval_rules[while_p]

    def rule(trace: Any, *tracers: Any, **params: Any) -> list[Any]:
        """Split a ``while`` loop with JAX's rule; remove effects from the second loop."""
        n_before = len(trace.effect_handles)
        results = apply_jax_rule(trace, *tracers, **params)
        is_unknown = [not trace.to_jaxpr_tracer(result).is_known() for result in results]
        if all(is_unknown):
            # All results are unknown, so the loop is not split.
            return results
        handles = trace.effect_handles[n_before:]
        del trace.effect_handles[n_before:]
        for handle in handles:
            recipe = handle.recipe
            if recipe.primitive is while_p:
                recipe = _remove_effects(recipe, tracers, is_unknown, without_known_effects)
                for result in results:
                    if getattr(result, "recipe", None) is handle.recipe:
                        result.recipe = recipe
                handle = dataclasses.replace(handle, recipe=recipe)
            if effects.partial_eval_kept_effects.filter_in(recipe.effects):
                trace.effect_handles.append(handle)
        return results

    replace_item(partial_eval.custom_partial_eval_rules, while_p, rule)


def _remove_effects(recipe: Any, tracers: Any, is_unknown: list[bool], change: Change) -> Any:
    """Remove the known part's effects from a ``while`` equation that recomputes it.

    Args:
        recipe: JAX's ``JaxprEqnRecipe``, from which partial evaluation will make the equation.
        tracers: the loop's operands: constants of condition and body, then carried values.
        is_unknown: for each carried value, whether it is unknown, that is, depends on a tangent.
        change: takes the body or condition and its known part; returns the jaxpr without the known
            part's effects.

    Returns:
        a new ``JaxprEqnRecipe``.
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
    # A loop's effects are the effects of body and condition, and its reference effects, which have
    # indices.
    remaining = params["cond_jaxpr"].effects | params["body_jaxpr"].effects
    before = recipe.params["cond_jaxpr"].effects | recipe.params["body_jaxpr"].effects
    return recipe._replace(params=params, effects=recipe.effects - (before - remaining))
