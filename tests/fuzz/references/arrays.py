"""What crosses from JAX's arrays to Python's functions and back, one call after another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def to_python(tree: Any) -> Any:
    """Return NumPy's arrays, of primal values where there are derivatives."""
    return jax.tree.map(lambda x: np.array(jax.lax.stop_gradient(jnp.asarray(x))), tree)


def to_jax(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls Python as a callback does: at once."""
    return lambda *args, **kwargs: to_jax(function(*to_python(args), **to_python(kwargs)))
