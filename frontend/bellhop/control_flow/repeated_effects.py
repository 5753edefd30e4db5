"""Loops that are computed again, without the side effects that they had the first time.

JAX splits the derivative of a ``while`` into a loop of what is known and one of what is linear, and
the second computes the values of the first again::

    y = while[body={ lambda ; y. let debug_print y    z = sin y in (z,) } ...] x
    _ y_dot = while[
      body={ lambda ; y y_dot. let
          debug_print y
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

What ``without_repeated(second, first, where)`` returns prints nothing.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.base.equations import (
    changed_from_the_end,
    equations_of,
    inner_jaxprs,
    with_inner_jaxprs,
)
from bellhop.errors import DifferentiableCompileError


def repeated_effects_error(where: str) -> DifferentiableCompileError:
    """Return the error for calls with side effects whose results a derivative needs again."""
    error = DifferentiableCompileError(
        f"{where}: a loop whose length is computed in the program is differentiated, and its "
        "derivative needs results of calls with side effects in it: they would happen twice, "
        "since its values are computed again. Take the calls out of the loop, give it a known "
        "length, or use method='fd'."
    )
    error.where = where
    return error


def without_repeated(again: ClosedJaxpr, first: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Return a jaxpr without the effects that another one has.

    Args:
        again: computes values of ``first`` again.
        first: runs before it.
        where: what is differentiated, for errors.

    Raises:
        DifferentiableCompileError: where a result of such an effect is needed again.
    """
    if not again.effects:
        return again
    made = {_call(eqn) for eqn in equations_of(first.jaxpr) if eqn.effects}
    return _without(again, lambda eqn: _call(eqn) in made, where)


def without_effects(again: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Return a jaxpr, all of whose effects were made before, without effects.

    Args:
        again: computes values again.
        where: what is differentiated, for errors.

    Raises:
        DifferentiableCompileError: where a result of an effect is needed again.
    """
    return _without(again, lambda _: True, where)


def _call(eqn: JaxprEqn) -> Any:
    """Return what an equation and its copies in derivatives have in common."""
    return eqn.primitive, *sorted((name, id(value)) for name, value in eqn.params.items())


def _without(closed: ClosedJaxpr, is_made: Callable[[JaxprEqn], bool], where: str) -> ClosedJaxpr:
    if not closed.effects:
        return closed

    def without(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn | None:
        if eqn.effects and any(inner_jaxprs(eqn)):
            eqn = with_inner_jaxprs(eqn, lambda inner: _without(inner, is_made, where))
            return eqn.replace(effects=_union(inner.effects for inner in inner_jaxprs(eqn)))
        if not (eqn.effects and is_made(eqn)):
            return eqn
        if any(used):
            raise repeated_effects_error(where)
        return None

    equations = changed_from_the_end(closed.jaxpr, without)
    effects = _union(eqn.effects for eqn in equations)
    return ClosedJaxpr(closed.jaxpr.replace(eqns=equations, effects=effects), closed.consts)


def _union(sets: Any) -> frozenset[Any]:
    return frozenset().union(*sets)
