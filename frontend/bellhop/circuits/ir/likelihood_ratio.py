"""The likelihood ratio ``p / p0``: one, with the derivative of ``log p``."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.circuits.ir.tangents import forbid_derivative


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def make_zero_with_ratio_tangent(value: Any, divisor: Any, obstacle: str) -> Any:
    """Return zero, whose derivative is that of a value, divided by something."""
    # Not the value itself, which nobody needs then but for the derivative.
    return jnp.zeros_like(value)


@make_zero_with_ratio_tangent.defjvp
def _zero_with_ratio_tangent_jvp(obstacle: str, primals: Any, tangents: Any) -> Any:
    value, divisor = primals
    return jnp.zeros_like(value), tangents[0] / forbid_derivative(divisor, obstacle)
