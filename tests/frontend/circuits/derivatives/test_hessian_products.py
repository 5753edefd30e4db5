"""Products of the Hessian of one expectation value with a vector are one sweep of the engine."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

RANDOM = np.random.default_rng(31)
X = jnp.asarray(RANDOM.normal(size=6))
V = jnp.asarray(RANDOM.normal(size=6))
# Beyond what is worked on as a whole.
LARGE = 12


def circuit_on(device, wires=3, **options):
    @qml.qnode(qml.device(device, wires=wires, **options))
    def circuit(x):
        last = wires - 1
        qml.StatePrep(x[:4] / jnp.linalg.norm(x[:4]), [0, last])
        for i in range(3):
            qml.RX(x[i] * x[3], 0)
            qml.RY(x[1], 1)
            qml.Hadamard(1)
            qml.PhaseShift(x[4], 1)
            qml.CRY(x[2], [1, last])
            qml.ctrl(qml.MultiRZ(x[3], [0, 1]), last, control_values=[0])
        qml.PauliRot(x[5] ** 2, "XYZ", [0, 1, last])
        qml.SingleExcitation(x[0], [last, 0])
        qml.QFT([0, 1, last])
        qml.GlobalPhase(x[4])
        return qml.expval(qml.Z(0) @ qml.X(1) + 0.5 * qml.Y(last))

    return lambda x: jnp.sin(circuit(x)) * x[0]


def forward(f):
    return lambda x, v: jax.jvp(jax.value_and_grad(f), (x,), (v,))


def reverse(f):
    return lambda x, v: jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), v))(x)


def in_rows(f):
    return lambda x, v: jax.vmap(forward(f))(
        jnp.outer(jnp.arange(1, 12), x), jnp.outer(jnp.arange(11), v)
    )


def third(f):
    return lambda x, v: jax.jvp(lambda x: forward(f)(x, v)[1], (x,), (v,))[1]


PRODUCTS = {"forward": forward, "reverse": reverse, "in rows": in_rows, "third": third}


@pytest.mark.hessian
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    ours, reference = (circuit_on(f"{which}.qubit") for which in ("lightning", "default"))
    expected = jax.jit(PRODUCTS[name](reference))(X, V)
    found = bellhop.qjit(PRODUCTS[name](ours))(X, V)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), found, expected)


def test_of_small_and_large_states_and_in_single_precision():
    gradient = bellhop.qjit(jax.grad(circuit_on("lightning.qubit")))
    step = 1e-5
    expected = (gradient(X + step * V) - gradient(X - step * V)) / (2 * step)
    for within, options in (
        (1e-7, {}),
        (1e-7, {"wires": LARGE}),
        (1e-4, {"wires": LARGE, "c_dtype": np.complex64}),
    ):
        product = bellhop.qjit(forward(circuit_on("lightning.qubit", **options)))
        np.testing.assert_allclose(product(X, V)[1][1], expected, atol=within)


def calls_of(function, *args):
    compiled = bellhop.qjit(function)
    compiled(*args)
    text = compiled.compiled_function.as_text()
    return re.findall(r'custom_call_target="bellhop_circuit_(\w+)"', text)


def test_tangents_that_are_numbers_of_python():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    slope = lambda x: jax.jvp(circuit, (x,), (1.0,))[1]
    curvature = bellhop.qjit(lambda x: jax.jvp(slope, (x,), (1.0,))[1])
    np.testing.assert_allclose(curvature(0.3), -np.cos(0.3), atol=1e-12)


def test_a_hessian_is_computed_once_for_many_products():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        for angle in x:
            qml.RX(angle, 0)
            qml.RY(angle, 0)
        return qml.expval(qml.Z(0))

    # Of twelve angles; four products cost as much as their Hessian.
    some = lambda x, v: jax.vmap(lambda v: jax.jvp(jax.grad(circuit), (x,), (v,))[1])(v)
    assert "derivative" not in calls_of(some, X, jnp.outer(jnp.arange(3), V))
    assert "derivative" in calls_of(jax.hessian(circuit), X)


def of_several_values(device, n):
    """Of many values the first derivative is a product with their Jacobian itself."""

    @qml.qnode(qml.device(device, wires=3))
    def circuit(x):
        for i in range(6):
            qml.RX(x[i] * x[0], i % 3)
            qml.RY(x[5 - i], (i + 1) % 3)
            qml.CNOT([i % 3, (i + 1) % 3])
        words = [qml.Z(0), qml.X(1) @ qml.Y(2), 0.5 * qml.Z(1) + qml.X(0), qml.Y(1)]
        words += [qml.Z(0) @ qml.Z(2), qml.X(2), qml.Y(0) @ qml.Y(1)]
        return [qml.expval(word) for word in words[:n]]

    return lambda x: jnp.arange(1.0, 1 + n) @ jnp.sin(jnp.stack(circuit(x))) * x[2]


@pytest.mark.hessian
@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_several_values(name, n):
    ours, reference = (of_several_values(f"{which}.qubit", n) for which in ("lightning", "default"))
    expected = jax.jit(PRODUCTS[name](reference))(X, V)
    found = bellhop.qjit(PRODUCTS[name](ours))(X, V)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), found, expected)
    if name in ("forward", "in rows"):
        assert "derivative" not in calls_of(PRODUCTS[name](ours), X, V)
