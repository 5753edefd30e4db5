"""Calls that a jaxpr makes again, after another jaxpr has made them: removed where they may be.

JAX splits the derivative of a ``while`` into a loop of the known values, which runs first, and one
that computes them again with the tangents.  With ``forget_repeated_effects`` the second loop ::

    _ y_dot = while[
      body={ lambda ; y y_dot. let
          bellhop_callback[note] y
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

has no ``bellhop_callback``, since the first loop has made that call.  A call with effects whose
result the second loop uses stays there, and is made twice.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.patches.effects_of_split_loops import patch_while_partial_eval
from bellhop._jax.private import is_bellhop_effect, is_callback_effect
from bellhop.base.equations import (
    inner_jaxprs,
    iterate_equations,
    map_equations_reversed,
    replace_inner_jaxprs,
)
from bellhop.tracing.state import is_tracing


def call_key(eqn: JaxprEqn) -> Any:
    """Return a key that an equation and its copies in derivatives have in common."""
    return eqn.primitive, *sorted((name, id(value)) for name, value in eqn.params.items())


def call_keys(closed: ClosedJaxpr) -> set[Any]:
    """Return the keys of all equations with effects of a jaxpr, at any depth."""
    return {call_key(eqn) for eqn in iterate_equations(closed.jaxpr) if eqn.effects}


def without_calls(
    closed: ClosedJaxpr, is_made: Callable[[JaxprEqn], bool], error: Exception | None = None
) -> ClosedJaxpr:
    """Remove equations with effects that another jaxpr has made before.

    Args:
        closed: the jaxpr.
        is_made: tells whether an equation with effects was made before.
        error: raised where a result of such an equation is used; None keeps the equation.

    Returns:
        the new jaxpr; ``closed`` itself where it has no effects.
    """
    if not closed.effects:
        return closed

    def without(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn | None:
        if eqn.effects and any(inner_jaxprs(eqn)):
            changed = replace_inner_jaxprs(eqn, lambda inner: without_calls(inner, is_made, error))
            return changed.replace(effects=eqn.effects - (_inner(eqn) - _inner(changed)))
        if not (eqn.effects and is_made(eqn)):
            return eqn
        if not any(used):
            return None
        if error is None:
            return eqn
        raise error

    equations = map_equations_reversed(closed.jaxpr, without)
    lost = _union(closed.jaxpr.eqns) - _union(equations)
    effects = closed.effects - lost
    return ClosedJaxpr(closed.jaxpr.replace(eqns=equations, effects=effects), closed.consts)


def _inner(eqn: JaxprEqn) -> frozenset[Any]:
    return _union(inner_jaxprs(eqn))


def _union(each: Any) -> frozenset[Any]:
    return frozenset().union(*(one.effects for one in each))


def forget_repeated_effects() -> None:
    """Let JAX split a loop so that its linear part does not call Python for effect again."""
    patch_while_partial_eval(_without_known)


def _without_known(again: ClosedJaxpr, known: ClosedJaxpr) -> ClosedJaxpr:
    """Remove calls for effect from a jaxpr whose known part has made them."""
    keys = call_keys(known)
    # JAX's own callbacks outside of our programs are not our concern.
    is_meant = is_callback_effect if is_tracing() else is_bellhop_effect
    return without_calls(
        again, lambda eqn: call_key(eqn) in keys and all(map(is_meant, eqn.effects))
    )
