"""SPSA: a derivative by all parameters of values at a few points, where all are shifted at once.

For a random direction ``d`` of ones and minus ones the derivative is about ::

    (f(x + h d) - f(x - h d)) / (2 h)  *  1 / d

whose mean over directions is the derivative (Spall, IEEE Trans. Autom. Control 37, 332, 1992).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pennylane.gradients.finite_difference import finite_diff_coeffs

from bellhop.circuits.precision import real_type


@dataclass(frozen=True)
class SimultaneousRule:
    """A derivative by all parameters, as a mean over directions.

    Attributes:
        directions: ones and minus ones, a row for each direction.
        coefficients: of the values at each multiple of a direction.
        multiples: of the same.
    """

    directions: Any
    coefficients: np.ndarray
    multiples: np.ndarray

    def points(self) -> tuple[Any, Any]:
        """Return for each point which parameters it shifts, and by how much."""
        _, multiples = self._shifted()
        amounts = multiples[:, None, None] * self.directions
        indices = jnp.arange(amounts.shape[-1], dtype=jnp.int32)
        rows = amounts.reshape(-1, amounts.shape[-1])
        return jnp.broadcast_to(indices, rows.shape), rows

    def weights(self, params_dot: Any) -> tuple[Any, Any]:
        """Return what the value at each point, and the one without a shift, is multiplied with."""
        coefficients, _ = self._shifted()
        # A direction of ones and minus ones is its own inverse.
        along = self.directions @ params_dot / len(self.directions)
        here = np.sum(self.coefficients[self.multiples == 0])
        return jnp.ravel(coefficients[:, None] * along), here * jnp.sum(along)

    def _shifted(self) -> tuple[np.ndarray, np.ndarray]:
        is_shifted = self.multiples != 0
        return self.coefficients[is_shifted], self.multiples[is_shifted]


def perturbation(
    n_params: int,
    new_key: Callable[[], Any],
    *,
    h: float,
    approx_order: int,
    strategy: str,
    num_directions: int,
    sampler_rng: int | None,
) -> SimultaneousRule:
    """Return the rule of finite differences along random directions.

    Args:
        n_params: how many parameters there are.
        new_key: returns a key of ``jax.random``, of which directions are drawn.
        h: the step.
        approx_order: of the error.
        strategy: where the points are, ``"center"`` say.
        num_directions: how many directions there are.
        sampler_rng: a seed, of which they are those of PennyLane's.
    """
    shape = num_directions, n_params
    if sampler_rng is None:
        directions = jax.random.rademacher(new_key(), shape, real_type())
    else:
        generator = np.random.default_rng(sampler_rng)
        rows = [generator.choice([-1.0, 1.0], size=n_params) for _ in range(num_directions)]
        directions = jnp.asarray(np.stack(rows), real_type())
    coefficients, multiples = finite_diff_coeffs(1, approx_order, strategy)
    return SimultaneousRule(directions, coefficients / h, multiples * h)
