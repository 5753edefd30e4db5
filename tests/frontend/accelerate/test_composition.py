"""accelerate composes with whatever jax.jit composes with, in any order and nesting.

With the identity in place of ``accelerate``, each program is plain JAX on the default device: that
is the reference.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.frontend.accelerate.compositions import CASES

import bellhop


def _assert_equal(observed, expected):
    assert jax.tree.structure(observed) == jax.tree.structure(expected)
    for o, e in zip(jax.tree.leaves(observed), jax.tree.leaves(expected), strict=True):
        assert o.dtype == e.dtype
        if jnp.issubdtype(e.dtype, jax.dtypes.prng_key):
            o, e = jax.random.key_data(o), jax.random.key_data(e)
        np.testing.assert_allclose(o, e, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def expected():
    @functools.cache
    def value(name):
        function, arguments = CASES[name](lambda f: f)
        return jax.jit(function)(*arguments)

    return value


@pytest.mark.parametrize("name", CASES)
def test_in_qjit(on, expected, name):
    function, arguments = CASES[name](on)
    _assert_equal(bellhop.qjit(function)(*arguments), expected(name))


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_on_its_own(other, expected, name):
    function, arguments = CASES[name](lambda f: bellhop.accelerate(f, dev=other))
    arrays = jax.tree.map(jnp.asarray, arguments)
    _assert_equal(function(*arrays), expected(name))


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_in_a_plain_jit(expected, name):
    function, arguments = CASES[name](lambda f: bellhop.accelerate(f, dev="cpu:1"))
    _assert_equal(jax.jit(function)(*arguments), expected(name))


def test_an_effect_in_a_loop_that_runs_no_times():
    """Its place in the order stays, and nothing that is called."""

    def looped(x, v):
        def body(carry, i):
            jax.debug.callback(print, carry, ordered=True)
            return 2 * carry, i

        return jax.lax.scan(body, x, v)[0]

    region = bellhop.accelerate(looped, dev="cpu:1")
    assert float(bellhop.qjit(region)(0.5, np.array([]))) == 0.5
