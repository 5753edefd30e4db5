"""Elements at known places, against NumPy's indexing under JAX's own derivatives."""

import jax
import numpy as np
import pytest

from bellhop.circuits.ir.vectorize.static_gather import gather_static

PLACES = {
    "a run": np.array([3, 4, 5]),
    "another order": np.random.default_rng(1).permutation(12),
    "some twice": np.array([[3, 1], [5, 5]]),
    "one for all": np.zeros(9, int),
    "none": np.array([], int),
}


@pytest.mark.parametrize("places", PLACES)
def test_picks_and_derives_as_indexing_does(places: str) -> None:
    indices = PLACES[places]
    x = np.random.default_rng(2).normal(size=(3, 12))
    weights = np.random.default_rng(3).normal(size=indices.shape)

    def picked(x: jax.Array) -> jax.Array:
        return (gather_static(x, indices) ** 3 * weights).sum()

    def indexed(x: jax.Array) -> jax.Array:
        return (x[indices] ** 3 * weights).sum()

    for derived in (jax.grad, jax.hessian):
        value = jax.jit(jax.vmap(derived(picked)))(x)
        np.testing.assert_allclose(value, jax.jit(jax.vmap(derived(indexed)))(x), atol=1e-12)
