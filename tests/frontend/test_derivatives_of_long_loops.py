"""grad and its relatives where a loop's length is computed in the program, and of containers."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def power_by_for(x, n):
    return bellhop.for_loop(0, n, 1)(lambda i, y: y * x)(jnp.ones_like(x))


def power_by_while(x, n):
    return bellhop.while_loop(lambda i, _: i < n)(lambda i, y: (i + 1, y * x))(0, jnp.ones_like(x))[
        1
    ]


@pytest.mark.parametrize("setting", [bellhop.qjit, lambda f: f])
@pytest.mark.parametrize("power", [power_by_for, power_by_while])
def test_loops_of_unknown_length(power, setting):
    assert setting(bellhop.grad(power))(2.0, 3) == 12
    value, slope = setting(bellhop.value_and_grad(power))(2.0, 4)
    assert (value, slope) == (16, 32)
    rows = setting(bellhop.jacobian(lambda x, n: power(x, n), argnums=[0]))
    x = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(rows(x, 3)[0], np.diag([3.0, 12.0]))


def test_circuits_in_loops_of_unknown_length():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def cosine(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.qjit
    @bellhop.grad
    def f(x, n):
        return bellhop.for_loop(0, n, 1)(lambda i, y: cosine(y))(x)

    np.testing.assert_allclose(f(0.3, 2), np.sin(np.cos(0.3)) * np.sin(0.3), atol=1e-9)


def test_what_such_loops_do_not_allow():
    def printing(x, n):
        bellhop.debug.print("{}", x)
        return power_by_for(x, n)

    with pytest.raises(bellhop.DifferentiableCompileError, match="'printing' .*side effects"):
        bellhop.qjit(bellhop.grad(printing))(2.0, 3)

    @bellhop.pure_callback
    def sine(x) -> float:
        return np.sin(x)

    sine.fwd(lambda x: (sine(x), x))
    sine.bwd(lambda x, dy: dy * jnp.cos(x))
    with pytest.raises(bellhop.DifferentiableCompileError, match="rules are backward only"):
        bellhop.qjit(bellhop.grad(lambda x, n: sine(power_by_for(x, n))))(2.0, 3)
    fd = bellhop.qjit(bellhop.grad(lambda x, n: sine(power_by_for(x, n)), method="fd"))
    np.testing.assert_allclose(fd(0.5, 3), np.cos(0.125) * 0.75, atol=1e-5)


@pytest.mark.parametrize("method", [None, "fd"])
def test_one_scalar_in_a_container(method):
    def f(x, y):
        return {"a": [x * y]}

    def close(result, expected):
        np.testing.assert_allclose(result, expected, atol=1e-5)

    close(bellhop.qjit(bellhop.grad(f, method=method))(2.0, 3.0)["a"][0], 3)
    both = bellhop.qjit(bellhop.grad(f, method=method, argnums=(0, 1)))(2.0, 3.0)
    close(both["a"][0], (3, 2))
    value, slope = bellhop.qjit(bellhop.value_and_grad(f, method=method))(2.0, 3.0)
    close(value["a"][0], 6)
    close(slope["a"][0], 3)
