"""A zero whose derivative is a likelihood ratio, for score-function estimators."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.circuits.ir.tangents import forbid_derivative


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def make_zero_with_ratio_tangent(value: Any, divisor: Any, obstacle: str) -> Any:
    """Return zeros whose tangent is ``d(value) / divisor``.

    Adding the zeros to an estimate does not change its value, and adds this tangent to its tangent.
    With ``divisor = value``, the tangent is the derivative of ``log(value)``.

    Args:
        value: array; the zeros have its shape and dtype.
        divisor: array that broadcasts with ``value``.
        obstacle: the message of the ``DifferentiableCompileError`` that differentiation of
            ``divisor`` raises, as in a second derivative.
    """
    # A result that does not use `value` lets the compiler remove its computation.
    return jnp.zeros_like(value)


@make_zero_with_ratio_tangent.defjvp
def _zero_with_ratio_tangent_jvp(obstacle: str, primals: Any, tangents: Any) -> Any:
    """Return zeros, and the tangent of ``value`` divided by ``divisor``: the JVP rule."""
    value, divisor = primals
    return jnp.zeros_like(value), tangents[0] / forbid_derivative(divisor, obstacle)
