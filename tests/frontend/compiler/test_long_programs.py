"""Straight-line programs with hundreds of calls, which run in parts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

COUNT = 230


@functools.cache
def program():
    """Return a program of calls of each kind, what it calls, and what they were given."""
    seen = []

    def step(x):
        if x == 500:
            raise ArithmeticError("half way")
        return x + 1

    pure = bellhop.pure_callback(step, float)

    @bellhop.qjit
    def f(x):
        first = x * 2
        for i in range(COUNT):
            x = pure(x) + i % 2
            if i % 10 == 0:
                bellhop.debug.callback(seen.append)(x)
                bellhop.io_callback(lambda v: seen.append(-v), None, ordered=True)(x)
        # Of the first part, used in the last.
        return x + first

    return f, seen


def test_values_and_order():
    f, seen = program()
    for start in (0.5, 7.25):
        seen.clear()
        assert float(f(start)) == start + COUNT * 1.5 + 2 * start
        steps = start + 1.5 * np.arange(0, COUNT, 10) + 1
        np.testing.assert_array_equal(seen, np.stack([steps, -steps], 1).reshape(-1))


def test_exception_in_a_later_part():
    f, seen = program()
    seen.clear()
    for _ in range(2):
        # 230 callbacks go up by 345: the one that gets 500 stands in the second hundred.
        with pytest.raises(ArithmeticError, match="half way"):
            f(500.0 - 1.5 * 150)
    assert len(seen) == 2 * 2 * 15
    assert float(f(0.0)) == COUNT * 1.5


def test_body_of_a_loop_and_what_it_captures():
    pure = bellhop.pure_callback(lambda v: v + 1, float)

    @bellhop.qjit
    def f(x, y):
        def body(i, v):
            for _ in range(COUNT):
                v = pure(v)
            return v + y + i

        return jax.lax.fori_loop(0, 3, body, x)

    assert float(f(0.0, 0.5)) == 3 * COUNT + 1.5 + 3


def test_derivative():
    scale = bellhop.pure_callback(lambda v: 1.01 * v, float)
    scale.fwd(lambda x: (scale(x), None))
    scale.bwd(lambda _, dy: bellhop.pure_callback(lambda v: 1.01 * v, float)(dy))

    def f(x):
        for _ in range(COUNT // 2):
            x = scale(x)
        return jnp.sin(x)

    top = 1.01 ** (COUNT // 2)
    expected = np.cos(0.3 * top) * top
    np.testing.assert_allclose(bellhop.qjit(jax.grad(f))(0.3), expected, rtol=1e-12)


def test_circuit():
    angle = bellhop.pure_callback(lambda v: v + 0.01, float)

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        for _ in range(COUNT):
            x = angle(x)
            qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    total = np.sum(0.2 + 0.01 * np.arange(1, COUNT + 1))
    np.testing.assert_allclose(circuit(0.2), np.cos(total), atol=1e-10)


@pytest.mark.large
def test_thousands_of_callbacks_compile():
    pure = bellhop.pure_callback(lambda v: v + 1, float)

    def f(x):
        for _ in range(2000):
            x = pure(x) * 1.0
        return x

    # In one computation XLA needs half a minute for them.
    assert float(bellhop.qjit(f)(0.0)) == 2000
