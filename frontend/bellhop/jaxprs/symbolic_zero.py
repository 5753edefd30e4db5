"""Symbolic zero tangents, with which JAX's rules say that a value does not depend on an input."""

from typing import Any

import jax
from jax.interpreters import ad


def make_symbolic_zero(value: Any) -> ad.Zero:
    """Return the symbolic zero tangent of an array or tracer; ``float0`` for integers."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())
