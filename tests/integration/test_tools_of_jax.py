"""checkify, jax.debug.breakpoint and Pallas kernels in programs of bellhop."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental import pallas as pl

import bellhop


def test_checkify_in_a_program():
    double = bellhop.pure_callback(lambda x: 2 * x, float)

    def checked(x):
        checkify.check(x > 0, "x is {x}, expected a positive number", x=x)
        return double(x)

    @bellhop.qjit
    def f(x):
        return checkify.checkify(checked)(x)

    error, value = f(1.5)
    assert error.get() is None
    assert value == 3
    error, value = f(-1.5)
    assert "x is -1.5, expected a positive number" in error.get()
    with pytest.raises(checkify.JaxRuntimeError, match="x is -1.5"):
        error.throw()
    # Around a compiled function too.
    error, _ = checkify.checkify(bellhop.qjit(checked))(jnp.float64(-2.0))
    assert "x is -2.0" in error.get()


def test_checkify_in_a_region():
    def checked(x):
        checkify.check(jnp.all(x > 0), "not positive")
        return jnp.log(x)

    region = bellhop.accelerate(checkify.checkify(checked), dev=jax.devices("cpu")[-1])
    error, value = bellhop.qjit(region)(jnp.ones(2))
    assert error.get() is None
    np.testing.assert_array_equal(value, [0, 0])
    assert "not positive" in bellhop.qjit(region)(-jnp.ones(2))[0].get()


def test_a_breakpoint_in_a_program():
    shown = io.StringIO()

    @bellhop.qjit
    def f(x):
        y = 2 * x
        jax.debug.breakpoint(backend="cli", stdin=io.StringIO("p y\nc\n"), stdout=shown)
        return y + 1

    assert f(1.5) == 4
    jax.effects_barrier()
    assert "Entering jdb" in shown.getvalue()
    assert "Array(3." in shown.getvalue()


def scale(x_ref, out_ref):
    out_ref[...] = 2 * x_ref[...]


@pytest.mark.parametrize("form", ["qjit", "region"])
def test_a_kernel_of_pallas_in_a_program(form):
    def kernel(x):
        return pl.pallas_call(
            scale, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True
        )(x)

    if form == "region":
        kernel = bellhop.accelerate(kernel, dev=jax.devices("cpu")[-1])
    total = bellhop.pure_callback(np.sum, float)
    f = bellhop.qjit(lambda x: total(kernel(x)) + kernel(x).sum())
    assert f(np.arange(8.0)) == 112
