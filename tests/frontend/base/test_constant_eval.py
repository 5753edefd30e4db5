"""Values that constants, or the numbers of iterations, decide while JAX traces them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellhop.jaxprs.constant_eval import evaluate_constant, evaluate_static

WIRES = jnp.array([4, 2, 7, 1, 5])

# What indices and lengths are computed by, of two numbers.
COMPUTATIONS: list[Callable[[Any, Any], Any]] = [
    lambda i, j: WIRES[i + j],
    lambda i, j: WIRES[::-1][1:][i - j],
    lambda i, j: jnp.stack([WIRES[-1], i, (i - 7) // 2, (i - 7) % 3, jnp.abs(j - i)]),
    lambda i, j: jnp.where(i > j, jnp.roll(WIRES, 2)[j], -i),
    lambda i, j: jnp.clip((i << 2) ^ (j >> 1), 1, 9) | (~i & 3),
    lambda i, j: jnp.outer(WIRES, jnp.arange(3))[i].reshape(3, 1).T[0, j],
    lambda i, j: jax.lax.rem(i - 5, j + 1) + jax.lax.div(i - 5, j + 1),
    lambda i, j: (WIRES + i).max() - WIRES.min() + WIRES[:2].sum(),
    lambda i, j: list(WIRES)[3] + jnp.concatenate([WIRES, i[None]])[5],
    lambda i, j: (i == j).astype(jnp.int32) * jnp.minimum(i, 2).astype(jnp.int32),
]


@pytest.mark.parametrize("compute", COMPUTATIONS)
def test_same_values_as_in_the_program(compute: Callable[[Any, Any], Any]) -> None:
    at = [(i, j) for i in range(3) for j in range(3)]
    found = None

    def outer(offset: Any) -> None:
        # Constants may be another trace's.
        def inner(i: Any, j: Any) -> None:
            nonlocal found
            found = evaluate_static(compute(i, j), (i, j), at)

        jax.make_jaxpr(inner)(0, 0)

    jax.make_jaxpr(outer)(0)
    program = jax.jit(compute)
    np.testing.assert_array_equal(found, [program(jnp.asarray(i), jnp.asarray(j)) for i, j in at])


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: WIRES[x],
        lambda x: jnp.floor(jnp.asarray(0.7)).astype(int),
        lambda x: jax.lax.div(WIRES[0], WIRES[0] - 4),
        lambda x: jax.pure_callback(lambda: np.asarray(1), jax.ShapeDtypeStruct((), int)),
        lambda x: jnp.arange(1 << 20)[3],
    ],
)
def test_others_are_unknown(compute: Callable[[Any], Any]) -> None:
    found: Any = 0

    def trace(x: Any) -> None:
        nonlocal found
        found = evaluate_constant(compute(x))

    jax.make_jaxpr(trace)(0)
    assert found is None
