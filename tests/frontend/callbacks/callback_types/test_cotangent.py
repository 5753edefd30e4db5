"""debug.cotangent: cotangents at a point of the forward code."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def test_prints_a_cotangent(capfd):
    f = bellhop.qjit(jax.grad(lambda x: 3 * bellhop.debug.cotangent(x**2, "dy = {}")))
    assert f(2.0) == 12.0
    assert capfd.readouterr().out == "dy = 3.0\n"


def test_gives_a_cotangent_to_a_traced_function():
    seen = []

    def keep(value):
        bellhop.callback(lambda v: seen.append(float(v)))(value)

    def f(x):
        return jnp.sum(bellhop.debug.cotangent(x, keep) ** 2)

    np.testing.assert_array_equal(
        bellhop.qjit(jax.vmap(jax.grad(f)))(jnp.arange(3.0)), [0.0, 2.0, 4.0]
    )
    assert seen == [0.0, 2.0, 4.0]


def test_forward_mode_passes_it_by():
    f = jax.jit(lambda x: bellhop.debug.cotangent(x * x, "never"))
    assert jax.jvp(f, (3.0,), (1.0,)) == (9.0, 6.0)


def test_leaves_without_a_cotangent_are_as_they_are():
    def f(x):
        tree = bellhop.debug.cotangent({"x": x, "n": jnp.int32(2)}, lambda tree: None)
        return tree["x"] * tree["n"]

    assert bellhop.qjit(jax.grad(f))(1.0) == 2.0


def test_nan_in_a_backward_pass_is_named_with_its_forward_line():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    def loss(x):
        y = bellhop.debug.cotangent(circuit(x))  # this line
        return jnp.sqrt(y - y)

    with pytest.raises(FloatingPointError, match=r"test_cotangent.py:\d+ .* holds NaN"):
        bellhop.qjit(jax.grad(loss))(0.3)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="expected a pytree of arrays"):
        bellhop.debug.cotangent("x")
    with pytest.raises(TypeError, match="expected a format string, a function"):
        bellhop.debug.cotangent(1.0, 3)
