"""Circuits in double precision for a TPU: one loop over their gates."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.tracing.state import override_trace_state

ANGLES = np.random.default_rng(5).normal(size=(3, 3))
MATRIX = np.array([[1.0, 0.5], [0.0, 1.0]])


@pytest.fixture(autouse=True)
def for_a_tpu():
    """What is traced is as in a region on a TPU, and runs here."""
    with override_trace_state(in_region=True, platform="tpu"):
        yield


def unitary(x):
    for layer in range(x.shape[0]):
        for wire in range(3):
            qml.RX(x[layer, wire], wire)
            qml.Rot(x[layer, wire] ** 2, 0.3, x[layer, 0], wire)
        qml.CNOT([2, 0])
        qml.IsingXY(x[layer, 1], [1, 2])
        qml.S(1)
    qml.Toffoli([2, 0, 1])


def not_unitary(x):
    unitary(x)
    qml.QubitUnitary(jnp.cos(x[0, 0]) * MATRIX, 1)
    unitary(x[1:])


def noisy(x):
    qml.RX(x[0, 0], 0)
    qml.AmplitudeDamping(x[1, 0] ** 2 / 10, 0)
    qml.CRY(x[1, 1], [0, 1])
    qml.DepolarizingChannel(0.1, 1)


def in_loops(x):
    @qml.for_loop(0, 3)
    def layers(layer):
        qml.RY(x[layer, 0], 0)
        qml.CNOT([0, 1])
        qml.RX(x[layer, 1], 1)

    layers()


CIRCUITS = {
    "unitary": ("default.qubit", unitary),
    "not unitary": ("default.qubit", not_unitary),
    "noisy": ("default.mixed", noisy),
    "in loops": ("default.qubit", in_loops),
}


def node_of(name):
    device, gates = CIRCUITS[name]

    @qml.qnode(qml.device(device, wires=3))
    def node(x):
        gates(x)
        return qml.expval(qml.Z(0) @ qml.Y(1) + 0.3 * qml.X(2)), qml.probs(wires=[1, 0])

    return lambda x: jnp.sum(jnp.append(*node(x)) * jnp.arange(1.0, 6.0))


def change(function, direction, step=1e-5):
    """Return the derivative along a direction, by differences."""
    after, before = (function(ANGLES + s * direction) for s in (step, -step))
    return (np.asarray(after) - np.asarray(before)) / (2 * step)


@pytest.mark.parametrize(
    "name",
    [
        "noisy",
        "in loops",
        *(pytest.param(name, marks=pytest.mark.matrix) for name in ("unitary", "not unitary")),
    ],
)
def test_values_and_derivatives_are_those_of_pennylane(name):
    node = node_of(name)
    direction = np.random.default_rng(6).normal(size=ANGLES.shape)
    value, slope = bellhop.qjit(jax.value_and_grad(node))(ANGLES)
    np.testing.assert_allclose(value, node(ANGLES), atol=1e-12)
    np.testing.assert_allclose(np.sum(slope * direction), change(node, direction), atol=1e-8)
    forwards = bellhop.qjit(lambda x: jax.jvp(node, (x,), (direction,))[1])(ANGLES)
    np.testing.assert_allclose(forwards, np.sum(slope * direction), atol=1e-11)


@pytest.mark.hessian
@pytest.mark.parametrize("name", ["unitary", "not unitary"])
def test_batches_and_second_derivatives(name):
    slope = bellhop.qjit(jax.grad(node_of(name)))
    slopes = bellhop.qjit(jax.vmap(jax.grad(node_of(name))))(jnp.stack([ANGLES, 0.3 * ANGLES]))
    np.testing.assert_allclose(slopes, [slope(ANGLES), slope(0.3 * ANGLES)], atol=1e-12)
    direction = np.random.default_rng(7).normal(size=ANGLES.shape)
    of_slope = lambda x: jax.jvp(jax.grad(node_of(name)), (x,), (direction,))[1]
    np.testing.assert_allclose(bellhop.qjit(of_slope)(ANGLES), change(slope, direction), atol=1e-7)


def products_of(node, x):
    text = jax.jit(lambda x: bellhop.qjit(node)(x)).lower(x).as_text()
    return text.count("stablehlo.dot_general")


def test_single_precision_and_large_states_are_products_of_matrices():
    node = node_of("unitary")
    assert products_of(node, ANGLES) == 0
    assert products_of(node, ANGLES.astype(np.float32)) > 0

    @qml.qnode(qml.device("default.qubit", wires=13))
    def large(x):
        unitary(x)
        return qml.expval(qml.Z(0))

    assert products_of(large, ANGLES) > 0


@pytest.mark.parametrize("is_gradient", [False, True], ids=["value", "gradient"])
def test_a_program_does_not_grow_with_its_gates(is_gradient):
    function = node_of("unitary")
    program = bellhop.qjit(jax.grad(function) if is_gradient else function)
    few, many = (
        jax.jit(lambda x: program(x)).lower(np.ones((layers, 3))).as_text().count("\n")
        for layers in (2, 8)
    )
    assert many <= few
