"""Removal of side effects from loops that derivatives recompute.

JAX splits the derivative of a ``while`` into a loop of known values and a linear loop, which
recomputes the known values::

    y = while[body={ lambda ; y. let debug_print y    z = sin y in (z,) } ...] x
    _ y_dot = while[
      body={ lambda ; y y_dot. let
          debug_print y
          z = sin y
          z_dot = mul y_dot (cos y)
        in (z, z_dot) }
    ] x x_dot

The jaxpr that ``remove_duplicate_effects(second, first, where)`` returns prints nothing.
"""

from jax.extend.core import ClosedJaxpr

from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.repeated_calls import get_call_key, get_call_keys, remove_calls


def repeated_effects_error(where: str) -> DifferentiableCompileError:
    """Make the error for a call with side effects whose result a recomputed loop needs.

    Args:
        where: description of the derivative, which begins the message.
    """
    error = DifferentiableCompileError(
        f"{where}: the derivative of a loop with a dynamic trip count recomputes the loop, which "
        "would repeat calls with side effects whose results the derivative needs. Move the calls "
        "out of the loop, or use a static trip count, or a derivative of bellhop's with "
        "method='fd'."
    )
    error.where = where
    return error


def remove_duplicate_effects(
    recomputed: ClosedJaxpr, first: ClosedJaxpr, where: str
) -> ClosedJaxpr:
    """Remove the calls with side effects that another jaxpr has executed before.

    Calls with side effects that ``first`` does not have are kept.

    Args:
        recomputed: jaxpr that recomputes values of ``first``.
        first: jaxpr that runs before it.
        where: description of the derivative, for errors.

    Returns:
        the new jaxpr; ``recomputed`` itself if it has no effects.

    Raises:
        DifferentiableCompileError: if a result of a removed call is needed.
    """
    if not recomputed.effects:
        return recomputed
    executed = get_call_keys(first)
    return remove_calls(
        recomputed, lambda eqn: get_call_key(eqn) in executed, repeated_effects_error(where)
    )


def remove_effects(recomputed: ClosedJaxpr, where: str) -> ClosedJaxpr:
    """Remove all calls with side effects from a jaxpr that recomputes values.

    Args:
        recomputed: jaxpr that recomputes values of an earlier jaxpr, which had the same effects.
        where: description of the derivative, for errors.

    Returns:
        the new jaxpr; ``recomputed`` itself if it has no effects.

    Raises:
        DifferentiableCompileError: if a result of a removed call is needed.
    """
    return remove_calls(recomputed, lambda _: True, repeated_effects_error(where))
