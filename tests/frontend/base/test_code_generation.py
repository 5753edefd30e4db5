"""The kernels of a program, by whichever of XLA's code generators they are made."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

X = np.linspace(0.1, 0.9, 24).reshape(4, 6)

KERNELS = {
    "elementwise": (lambda x: jnp.sin(x) * jnp.exp(-x * x), lambda x: np.sin(x) * np.exp(-x * x)),
    "power": (lambda x: x**1.7, lambda x: x**1.7),
    "reduction": (lambda x: x.sum(1) + x.max(), lambda x: x.sum(1) + x.max()),
    "argmax": (lambda x: jnp.argmax(x % 0.3, 1), lambda x: np.argmax(x % 0.3, 1)),
    "transpose": (lambda x: x.T * 2, lambda x: x.T * 2),
    "product": (lambda x: x @ x.T, lambda x: x @ x.T),
    "gather": (lambda x: x[jnp.array([3, 0])] + 1, lambda x: x[[3, 0]] + 1),
    "scatter": (
        lambda x: x.at[jnp.array([1, 1, 2])].add(1.0),
        lambda x: x + np.array([0.0, 2.0, 1.0, 0.0])[:, None],
    ),
    "cumulative sum": (lambda x: jnp.cumsum(x, 0), lambda x: np.cumsum(x, 0)),
    "sort": (lambda x: jnp.sort(-x, 1), lambda x: np.sort(-x, 1)),
    "concatenation": (
        lambda x: jnp.concatenate([x, x * 2], 1),
        lambda x: np.concatenate([x, x * 2], 1),
    ),
    "integers": (
        lambda x: (x * 100).astype(jnp.int32) // 7,
        lambda x: (x * 100).astype(np.int32) // 7,
    ),
    "choice": (lambda x: jnp.where(x > 0.5, x, 1 / x), lambda x: np.where(x > 0.5, x, 1 / x)),
    "no elements": (lambda x: jnp.tanh(x[:0]).sum(0), lambda x: np.zeros(6, x.dtype)),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_those_of_numpy(name, dtype):
    ours, theirs = KERNELS[name]
    x = X.astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    result = bellhop.qjit(ours)(x)
    np.testing.assert_allclose(result, theirs(x), rtol=tolerance, atol=tolerance)
    assert result.dtype == jax.jit(ours)(x).dtype


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, np.complex64, np.complex128])
def test_values_are_those_of_jax(dtype):
    def function(x):
        return (x * x + x).sum(0), jnp.concatenate([x, -x])

    x = jnp.asarray(X, dtype)
    for ours, theirs in zip(bellhop.qjit(function)(x), jax.jit(function)(x), strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (np.asarray(each, np.complex128) for each in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=2 * float(jnp.finfo(dtype).eps))


def test_program_within_a_program_of_jax():
    function = bellhop.qjit(lambda x: jnp.sin(x) * 2)
    x = jnp.asarray(X)
    expected = 2 * np.sin(X)
    np.testing.assert_allclose(jax.jit(lambda x: function(x) + 1)(x), expected + 1)
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(x), expected)
    np.testing.assert_allclose(bellhop.qjit(lambda x: function(x) + 1)(x), expected + 1)
