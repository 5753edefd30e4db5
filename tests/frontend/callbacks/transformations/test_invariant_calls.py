"""Pure calls that do not change in a loop are made once, and never where no iteration is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


class Counted:
    """A pure callback that counts its calls, and raises on a negative argument."""

    def __init__(self):
        self.calls = 0
        self.callback = bellhop.pure_callback(self.run, float)

    def run(self, x):
        self.calls += 1
        if x < 0:
            raise ArithmeticError("negative")
        return 2 * x

    def __call__(self, x):
        return self.callback(x)


def fori(p):
    return lambda x, y, n: jax.lax.fori_loop(0, n, lambda i, v: v + p(y), x)


def while_(p):
    return lambda x, y, n: jax.lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + p(y)), (0, x)
    )[1]


def of_bellhop(p):
    return lambda x, y, n: bellhop.for_loop(0, n, 1)(lambda i, v: v + p(y))(x)


def under_an_operation(p):
    return lambda x, y, n: jax.lax.fori_loop(0, n, lambda i, v: v + p(jnp.abs(y) * jnp.sign(y)), x)


def nested_jit(p):
    return lambda x, y, n: jax.lax.fori_loop(0, n, lambda i, v: v + jax.jit(p)(y), x)


def chained(p):
    return lambda x, y, n: jax.lax.fori_loop(0, n, lambda i, v: v + p(p(y)) / 2, x)


def inner_loop(p):
    def f(x, y, n):
        def body(i, v):
            return jax.lax.fori_loop(0, 1, lambda j, w: w + p(y), v)

        return jax.lax.fori_loop(0, n, body, x)

    return f


def condition_with_a_reduction(p):
    return lambda x, y, n: jax.lax.while_loop(
        lambda c: jnp.all(jnp.stack([c[0], c[0]]) < n), lambda c: (c[0] + 1, c[1] + p(y)), (0, x)
    )[1]


LOOPS = [
    condition_with_a_reduction,
    fori,
    while_,
    of_bellhop,
    under_an_operation,
    nested_jit,
    chained,
    inner_loop,
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_once_or_not_at_all(loop):
    counted = Counted()
    f = bellhop.qjit(loop(counted))
    once = 2 if loop is chained else 1
    for n, calls in ((4, once), (1, once), (0, 0), (-3, 0)):
        counted.calls = 0
        assert float(f(0.5, 3.0, n)) == 0.5 + 6.0 * max(n, 0)
        assert counted.calls == calls
    # No iteration, no exception.
    assert float(f(0.5, -1.0, 0)) == 0.5
    with pytest.raises(ArithmeticError):
        f(0.5, -1.0, 2)


def test_in_a_conditional_of_a_loop():
    counted = Counted()

    @bellhop.qjit
    def f(x, y, n):
        return jax.lax.fori_loop(
            0, n, lambda i, v: v + jax.lax.cond(y != 0, lambda: counted(y), lambda: 1.0), x
        )

    assert float(f(0.0, -1.0, 0)) == 0.0
    assert float(f(0.0, 0.0, 3)) == 3.0
    assert counted.calls == 0
    assert float(f(0.0, 1.0, 3)) == 6.0


def test_beside_calls_with_effects():
    counted, seen = Counted(), []

    @bellhop.qjit
    def f(x, y):
        def body(i, v):
            bellhop.debug.callback(lambda i: seen.append(int(i)))(i)
            return v + counted(y)

        return jax.lax.fori_loop(0, 3, body, x)

    assert float(f(0.0, 1.0)) == 6.0
    assert seen == [0, 1, 2]
    assert counted.calls == 1


def test_scan_under_vmap_and_grad():
    counted = Counted()
    counted.callback.fwd(lambda x: (counted(x), None))
    counted.callback.bwd(lambda _, dy: 2 * dy)

    def f(x, y):
        return jax.lax.scan(lambda v, z: (v + counted(y) * z, v), x, jnp.arange(4.0))[0]

    assert float(bellhop.qjit(f)(1.0, 3.0)) == 1 + 6 * 6
    assert counted.calls == 1
    assert float(bellhop.qjit(jax.grad(f, argnums=1))(1.0, 3.0)) == 12.0
    result = bellhop.qjit(jax.vmap(f))(jnp.zeros(3), jnp.arange(3.0))
    np.testing.assert_array_equal(result, 12 * np.arange(3.0))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, np.complex64, jnp.bfloat16])
def test_every_type_of_result(dtype):
    kind = jax.ShapeDtypeStruct((2,), dtype)
    ones = bellhop.pure_callback(lambda y: np.ones(2, dtype), kind)

    @bellhop.qjit
    def f(y, n):
        return jax.lax.fori_loop(0, n, lambda i, v: ones(y), jnp.zeros(2, dtype))

    np.testing.assert_array_equal(f(1.0, 2), np.ones(2, dtype))
    np.testing.assert_array_equal(f(1.0, 0), np.zeros(2, dtype))
