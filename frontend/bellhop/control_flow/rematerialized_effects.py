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

What ``remove_duplicate_effects(second, first, where)`` returns prints nothing.
"""

from jax.extend.core import ClosedJaxpr

from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.repeated_calls import call_key, call_keys, without_calls


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


def remove_duplicate_effects(
    recomputed: ClosedJaxpr, first: ClosedJaxpr, where: str
) -> ClosedJaxpr:
    """Return a jaxpr without the effects that another one has.

    Args:
        recomputed: computes values of ``first`` again.
        first: runs before it.
        where: what is differentiated, for errors.

    Raises:
        DifferentiableCompileError: where a result of such an effect is needed again.
    """
    if not recomputed.effects:
        return recomputed
    made = call_keys(first)
    return without_calls(
        recomputed, lambda eqn: call_key(eqn) in made, repeated_effects_error(where)
    )


def remove_effects(recomputed: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Return a jaxpr, all of whose effects were made before, without effects.

    Args:
        recomputed: computes values again.
        where: what is differentiated, for errors.

    Raises:
        DifferentiableCompileError: where a result of an effect is needed again.
    """
    return without_calls(recomputed, lambda _: True, repeated_effects_error(where))
