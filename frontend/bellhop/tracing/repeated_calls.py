"""Removal of calls with effects that an earlier jaxpr has executed.

JAX splits the derivative of a ``while`` into a loop of the known values, which runs first, and a
loop that recomputes them with the tangents.  With ``drop_repeated_effects`` the second loop ::

    _ y_dot = while[
      body={ lambda ; y y_dot. let
          bellhop_callback[note] y
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

has no ``bellhop_callback``, since the first loop has executed that call.  A call with effects whose
result the second loop uses stays there, and is executed twice.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.patches.effects_of_split_loops import patch_while_partial_eval
from bellhop._jax.private import is_bellhop_effect, is_callback_effect
from bellhop.jaxprs.equations import (
    inner_jaxprs,
    iterate_equations,
    map_equations_reversed,
    replace_inner_jaxprs,
)
from bellhop.tracing.state import is_tracing


def get_call_key(eqn: JaxprEqn) -> Any:
    """Return a hashable key that an equation shares with its copies in derivatives.

    It consists of the primitive and the identities of the equation's parameters, so it finds the
    same call in another jaxpr.
    """
    return eqn.primitive, *sorted((name, id(value)) for name, value in eqn.params.items())


def get_call_keys(closed: ClosedJaxpr) -> set[Any]:
    """Return `get_call_key` of each equation with effects in a jaxpr, at any depth."""
    return {get_call_key(eqn) for eqn in iterate_equations(closed.jaxpr) if eqn.effects}


def remove_calls(
    closed: ClosedJaxpr, was_executed: Callable[[JaxprEqn], bool], error: Exception | None = None
) -> ClosedJaxpr:
    """Remove the equations with effects that another jaxpr has executed before.

    Args:
        closed: the jaxpr; equations inside of loops and branches are removed too.
        was_executed: takes an equation with effects; returns whether it was executed before.
        error: exception to raise if a result of such an equation is used. None: the equation is
            kept if a result is used, and its effects happen again.

    Returns:
        the new jaxpr; ``closed`` itself if it has no effects.

    Raises:
        Exception: `error`, if it is given and a result of such an equation is used.
    """
    if not closed.effects:
        return closed

    def remove(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn | None:
        """Return an equation without calls that were executed before; None to remove it.

        An equation with inner jaxprs, such as a loop, is kept without such calls inside.

        Args:
            eqn: an equation of the jaxpr.
            used: for each result of the equation, whether it is used.

        Raises:
            Exception: ``error``, if it is given and a result of a removed equation is used.
        """
        if eqn.effects and any(inner_jaxprs(eqn)):
            changed = replace_inner_jaxprs(
                eqn, lambda inner: remove_calls(inner, was_executed, error)
            )
            return changed.replace(
                effects=eqn.effects - (_inner_effects(eqn) - _inner_effects(changed))
            )
        if not (eqn.effects and was_executed(eqn)):
            return eqn
        if not any(used):
            return None
        if error is None:
            return eqn
        raise error

    equations = map_equations_reversed(closed.jaxpr, remove)
    lost = _union_effects(closed.jaxpr.eqns) - _union_effects(equations)
    effects = closed.effects - lost
    return ClosedJaxpr(closed.jaxpr.replace(eqns=equations, effects=effects), closed.consts)


def _inner_effects(eqn: JaxprEqn) -> frozenset[Any]:
    """Return the effects of all jaxprs in an equation's parameters."""
    return _union_effects(inner_jaxprs(eqn))


def _union_effects(each: Any) -> frozenset[Any]:
    """Return the union of the effects of some jaxprs or equations."""
    return frozenset().union(*(one.effects for one in each))


def drop_repeated_effects() -> None:
    """Patch JAX so that the derivative of a ``while`` executes its side effects once.

    JAX runs such a loop for the known values, and again for the tangents; calls with effects are
    removed from the second loop.
    """
    patch_while_partial_eval(_remove_known_calls)


def _remove_known_calls(recomputed: ClosedJaxpr, known: ClosedJaxpr) -> ClosedJaxpr:
    """Remove callback calls from a loop that another loop has executed before.

    JAX splits the derivative of a ``while`` into a loop of the known values and a loop that
    recomputes these values for the tangents. A call whose result the second loop uses stays, and is
    executed twice. While a Bellhop program is traced, calls of all callbacks are removed; otherwise
    calls of Bellhop's callbacks only, and ``jax.pure_callback`` etc. are called again.

    Args:
        recomputed: jaxpr of the second loop.
        known: jaxpr of the first loop.
    """
    keys = get_call_keys(known)
    # Outside of Bellhop's programs, JAX's own callbacks keep JAX's behaviour.
    is_relevant = is_callback_effect if is_tracing() else is_bellhop_effect
    return remove_calls(
        recomputed, lambda eqn: get_call_key(eqn) in keys and all(map(is_relevant, eqn.effects))
    )
