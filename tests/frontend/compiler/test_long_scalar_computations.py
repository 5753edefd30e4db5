"""Straight-line programs of many operations on scalars, which run in parts."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax import lax

import bellhop

IS_OUTLINED = b"xla_cpu_small_call"


def steps(xp, x, n):
    """Yield values each of which is made of the one before, by every operation on scalars."""
    for i in range(4):
        x = xp.sin(x) * 1.1 + xp.cos(x) - xp.tan(x / 8)
        yield x
        x = xp.exp(-x) + xp.log(abs(x) + 1)
        yield x
        x = xp.sqrt(abs(x)) / (2 + xp.tanh(x))
        yield x
        x = xp.arctan2(x, 0.3) + xp.cbrt(x)
        yield x
        x = (abs(x) + 0.1) ** 1.3 + xp.expm1(x) - xp.log1p(abs(x))
        yield x
        x = xp.where((x > 0.3) & (n != 4) | xp.isnan(x), x, -x)
        yield x
        x = xp.clip(x, -2.0, 2.0) + xp.floor(x) - xp.ceil(x)
        yield x
        x = xp.sign(x) * xp.remainder(x, 0.7) + xp.rint(x)
        yield x
        x = xp.minimum(xp.maximum(x, -1.0), 1.0) + xp.isfinite(x) * 0.1
        yield x
        n = (n * 3 + i) % 17 & 7 ^ 5
        x = x + 0.01 * n
        yield x


@functools.cache
def program():
    return bellhop.qjit(lambda x, n: list(steps(jnp, x, n)))


def is_outlined(function) -> bool:
    return IS_OUTLINED in function._program().code.module


@pytest.mark.parametrize("x", [0.3, -1.7, 0.0])
def test_values(x):
    expected = list(steps(np, np.float64(x), np.int64(5)))
    np.testing.assert_allclose(program()(x, 5), expected, rtol=0, atol=1e-12)
    assert is_outlined(program())


def test_derivatives():
    def smooth(xp, x):
        for _ in range(20):
            x = xp.sin(x) * 1.1 + xp.exp(-x * x)
            yield x

    derivative = bellhop.qjit(bellhop.grad(lambda x: sum(smooth(jnp, x))))
    # A derivative by a complex step is exact but for rounding.
    exact = sum(smooth(np, 0.3 + 1e-30j)).imag / 1e-30
    np.testing.assert_allclose(derivative(0.3), exact, rtol=1e-12)
    assert is_outlined(derivative)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.complex128])
def test_dtypes(dtype):
    def chain(x):
        for _ in range(40):
            x = x * x - x
            yield x

    start = dtype(3) / dtype(7) if np.dtype(dtype).kind in "fc" else dtype(3)
    with np.errstate(over="ignore"):
        expected = list(chain(start))
    actual = bellhop.qjit(lambda x: list(chain(x)))(start)
    assert {value.dtype for value in actual} == {np.dtype(dtype)}
    np.testing.assert_allclose(np.stack(actual), np.stack(expected), rtol=1e-5)


def test_special_functions_and_elements_of_arrays():
    functions = (lax.erf, lax.lgamma, lax.digamma, lax.erf_inv, lax.square, lax.asin, lax.cosh)
    expected = (
        *(scipy.special.erf, scipy.special.gammaln, scipy.special.digamma, scipy.special.erfinv),
        *(np.square, np.arcsin, np.cosh),
    )

    def program(x):
        return [f(x[i]) * x[i - 1] for i in range(8) for f in functions]

    x = np.linspace(0.1, 0.8, 8)
    actual = bellhop.qjit(program)(x)
    np.testing.assert_allclose(
        actual, [f(x[i]) * x[i - 1] for i in range(8) for f in expected], rtol=1e-12
    )


def test_in_loops_and_branches():
    def chain(x: float) -> float:
        for i in range(50):
            x = x * 0.9 + i / (1 + x * x)
        return x

    def run(x, n, loop: Callable, branch: Callable):
        return branch(x > 0, lambda: loop(n, lambda _, y: chain(y), x), lambda: chain(-x))

    compiled = bellhop.qjit(
        lambda x, n: run(
            x,
            n,
            lambda n, body, y: lax.fori_loop(0, n, body, y),
            lambda holds, yes, no: lax.cond(holds, yes, no),
        )
    )
    for x in (1.0, -2.0):
        expected = run(
            x,
            3,
            lambda n, body, y: functools.reduce(lambda y, i: body(i, y), range(n), y),
            lambda holds, yes, no: yes() if holds else no(),
        )
        np.testing.assert_allclose(compiled(x, 3), expected, rtol=1e-12)
    assert is_outlined(compiled)


def test_an_operand_that_xla_finds_to_be_constant():
    """XLA ends the process where a function of scalars does not need an operand of its."""
    unused = jax.jit(lambda holds, known, x: jnp.where(holds, x, 0.0))

    @bellhop.qjit
    def f(x, n, values):
        known = jnp.sum(values)
        y = x
        for i in range(40):
            y = unused(y > 0.001 * i, known, y * x)
        return y, lax.fori_loop(0, n, lambda _, c: jnp.cos(c) + y, known)

    y = functools.reduce(lambda y, i: y * 0.99 * (y > 0.001 * i), range(40), 0.99)
    known = functools.reduce(lambda c, _: np.cos(c) + y, range(4), 0.0)
    np.testing.assert_allclose(f(0.99, 4, np.array([])), (y, known), rtol=1e-12)
    assert is_outlined(f)


def test_with_callbacks_between():
    seen = []

    @bellhop.pure_callback
    def half(x) -> float:
        seen.append(float(x))
        return x / 2

    def program(x, half):
        for _ in range(3):
            for i in range(40):
                x = x * 0.9 + i
            x = half(x)
        return x

    expected: list[float] = []
    result = program(1.0, lambda x: expected.append(x) or x / 2)
    np.testing.assert_allclose(bellhop.qjit(lambda x: program(x, half))(1.0), result, rtol=1e-12)
    np.testing.assert_allclose(seen, expected, rtol=1e-12)


def test_batches():
    batch = np.linspace(-1, 1, 3)
    compiled = bellhop.qjit(jax.vmap(lambda x: list(steps(jnp, x, 5))))
    expected = [list(steps(np, x, np.int64(5))) for x in batch]
    np.testing.assert_allclose(np.stack(compiled(batch), 1), expected, atol=1e-12)
