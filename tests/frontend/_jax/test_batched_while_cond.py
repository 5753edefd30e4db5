"""Loops of a batch whose condition calls Python, against the loops of its elements."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

FIRST = np.array([[1, 5], [0, 2]])


@pytest.mark.parametrize(
    "compiled", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", "not"]
)
def test_elements_that_have_ended_do_not_change(compiled: Callable[..., Any]) -> None:
    seen = []

    def loop(first: Any) -> Any:
        def goes_on(carried: Any) -> Any:
            bellhop.tap(lambda i: seen.append(np.array(i)), carried[0])
            return carried[0] < 2

        def step(carried: Any) -> Any:
            i, values, key = carried
            return i + 1, values + i, jax.random.fold_in(key, i)

        i, values, key = jax.lax.while_loop(
            goes_on, step, (first, jnp.zeros(3, int), jax.random.key(first))
        )
        return i, values, jax.random.key_data(key)

    found = compiled(jax.vmap(jax.vmap(loop)))(FIRST)
    bellhop.barrier_wait()
    # All elements are looked at once before each iteration, and once after the last.
    assert [each.tolist() for each in seen] == [
        [[1, 5], [0, 2]],
        [[2, 5], [1, 2]],
        [[2, 5], [2, 2]],
    ]
    expected = [[jax.device_get(loop(first)) for first in row] for row in FIRST]
    for place, leaf in enumerate(found):
        np.testing.assert_array_equal(leaf, [[each[place] for each in row] for row in expected])
