"""What crosses to an accelerated region and back: structures, dtypes, shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


def on(dev, function):
    return bellhop.accelerate(function, dev=dev)


def test_pytrees_several_results_and_keywords(dev):
    @bellhop.accelerate(dev=dev)
    def f(tree, *, n, flag=True):
        return {"s": tree["a"] * n, "t": (jnp.arange(3), None)}, flag

    observed = bellhop.qjit(lambda a, n: f({"a": a, "b": None}, n=n))(np.ones(2), 3)
    assert jax.tree.structure(observed) == jax.tree.structure(({"s": 0, "t": (0, None)}, 0))
    np.testing.assert_array_equal(observed[0]["s"], [3.0, 3.0])
    np.testing.assert_array_equal(observed[0]["t"][0], [0, 1, 2])
    assert observed[1].dtype == bool


DTYPES = ["bool", "int8", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32"]
DTYPES += ["float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_crosses(dev, dtype):
    x = jnp.array([0, 1, 1], dtype)
    f = bellhop.qjit(lambda x: on(dev, lambda v: (v[::-1], v.reshape(3, 1)))(x))
    reversed_, column = f(x)
    assert reversed_.dtype == column.dtype == x.dtype
    np.testing.assert_array_equal(reversed_, np.asarray(x)[::-1])


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)], ids=str)
def test_odd_shapes_cross(dev, shape):
    f = bellhop.qjit(lambda x: on(dev, lambda v: v + 1)(x))
    np.testing.assert_array_equal(f(np.zeros(shape)), np.ones(shape))


def test_large_arrays_cross(dev):
    x = np.arange(1_000_000.0).reshape(1000, 1000)
    f = bellhop.qjit(lambda x: on(dev, lambda v: v.T * 2)(x) + 1)
    for _ in range(3):
        np.testing.assert_array_equal(f(x), x.T * 2 + 1)


def test_random_keys_cross(dev):
    key = jax.random.key(0)
    f = bellhop.qjit(lambda k: on(dev, lambda k: jax.random.normal(k, (2,)))(k))
    np.testing.assert_array_equal(f(key), jax.random.normal(key, (2,)))


def test_integer_arguments_beside_differentiated_ones(dev):
    f = on(dev, lambda x, n: x**n)
    assert bellhop.qjit(jax.grad(f))(2.0, 3) == 12.0
