"""Assignments, assertions and operands in converted functions, against the same run by Python."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

log = {}


def to_matrices(x, n):
    m = jnp.zeros((3, 3)) + 1
    for i in range(2):
        for j in range(3):
            m[i, j] += x * j
            m[i][j] *= 2
            m[i, :] -= 1.0
            m[..., 0] = m[..., 0] ** 2
            m[1:, j] /= 3
    m[0][1:] = x
    if x > 1:
        m[n, n - 1] = x
    else:
        m[n] = x
    return m


def to_containers(x, n):
    rows, table = [jnp.zeros(2), [1.0, 2.0]], {}
    rows[0][1] = x
    rows[1][0] = x
    rows[1][1] += x
    rows[1][0] //= 2
    table["a", "b"] = x
    numbers = np.zeros(4)
    numbers[0] = 3
    return rows, table["a", "b"], numbers


def to_what_others_own(x, n):
    pair = [0.0, 0.0]

    def put():
        pair[0] = x

    put()
    log["n"] = 7
    holder = types.SimpleNamespace(values=jnp.zeros(3))
    for i in range(2):
        holder.values[i] = x
    return pair, holder.values


def to_several(x, n):
    a = b = x
    a += 1
    for i in range(3):
        c = d = a + i
        y = [0.0, 0.0]
        y[0] = z = c
    u, v = w = (x, a)
    return a, b, c, d, y, z, u, v, w


def operands(x, n):
    return x or 2.0, x and 3.0, n and x, (x > 1) or 0.0, x > 1 and n > 1


def half_if_large(x):
    if x > 1:
        return x / 2
    return x


def functions_given_to_functions(x, n):
    small = functools.reduce(lambda a, b: a if a < b else b, [x, 2.0, 3.0])
    return list(map(half_if_large, [x, 2 * x])), small


def checked(x, n):
    assert n >= 0
    assert x < 100, "too large"
    return 2 * x


PROGRAMS = [
    to_matrices,
    to_containers,
    to_what_others_own,
    to_several,
    operands,
    functions_given_to_functions,
    checked,
]


def by_python(program):
    """Return a program that NumPy runs, whose arrays Python may assign to."""
    numpy = types.SimpleNamespace(zeros=np.zeros)
    return types.FunctionType(program.__code__, {**program.__globals__, "jnp": numpy})


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_are_those_of_python(program):
    compiled = bellhop.qjit(program, autograph=True)
    for x in (0.0, 0.5, 2.5):
        for n in (1, 2):
            actual, expected = compiled(x, n), by_python(program)(x, n)
            assert jax.tree.structure(actual) == jax.tree.structure(expected)
            jax.tree.map(
                lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-12), actual, expected
            )
    if program is to_what_others_own:
        assert log == {"n": 7}


def test_an_array_that_an_enclosing_function_owns():
    def outer(x):
        values = jnp.zeros(2)

        def put():
            values[0] = x

        put()
        return values

    message = r"element of 'values' at .*test_assignments.py:\d+ creates a new array"
    with pytest.raises(bellhop.AutoGraphError, match=message):
        bellhop.qjit(outer, autograph=True)(1.0)


def test_assertions_are_checked_when_the_program_runs():
    compiled = bellhop.qjit(checked, autograph=True)
    assert compiled(3.0, 1) == 6
    with pytest.raises(AssertionError) as caught:
        compiled(200.0, 1)
    assert caught.value.args == ("too large",)
    assert f"raised in callback 'assert', called from {__file__}:" in caught.value.__notes__[0]
    with pytest.raises(AssertionError) as caught:
        compiled(2.0, -1)
    assert caught.value.args == ()
    assert compiled(3.0, 1) == 6
    assert bellhop.qjit(checked, autograph=True, disable_assertions=True)(200.0, 1) == 400
    with pytest.raises(AssertionError, match="too large"):
        bellhop.run_autograph(checked)(200, 1)
