"""SPSA: a derivative by all parameters of values at a few points, where all are shifted at once.

For a random direction ``d`` of ones and minus ones the derivative is about ::

    (f(x + h d) - f(x - h d)) / (2 h)  *  1 / d

whose mean over directions is the derivative (Spall, IEEE Trans. Autom. Control 37, 332, 1992).  A
direction of ones and minus ones is its own inverse.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.precision import real_type


def random_directions(
    n_params: int, new_key: Callable[[], Any], num_directions: int, sampler_rng: int | None
) -> Any:
    """Return rows of ones and minus ones.

    Args:
        n_params: how many parameters there are.
        new_key: returns a key of ``jax.random``, of which directions are drawn.
        num_directions: how many directions there are.
        sampler_rng: a seed, of which they are those of PennyLane's.
    """
    shape = num_directions, n_params
    if sampler_rng is None:
        return jax.random.rademacher(new_key(), shape, real_type())
    generator = np.random.default_rng(sampler_rng)
    rows = [generator.choice([-1.0, 1.0], size=n_params) for _ in range(num_directions)]
    return jnp.asarray(np.stack(rows), real_type())
