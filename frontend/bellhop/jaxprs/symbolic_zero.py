"""Symbolic zero tangents, with which JAX's rules say that a value does not depend on an input."""

from typing import Any

import jax
from jax.interpreters import ad


def make_symbolic_zero(value: Any) -> ad.Zero:
    """Return the symbolic zero tangent of a value.

    Args:
        value: array or tracer; the tangent of an integer array has the dtype ``float0``.
    """
    return ad.Zero(jax.typeof(value).to_tangent_aval())
