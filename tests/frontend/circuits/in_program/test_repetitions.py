"""Layers of a circuit in the program are a loop, which compiles as one layer does."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh
from tests.frontend.circuits.in_program.mixed_circuits import assert_as_uncompiled

import bellhop
from bellhop.circuits.backends.arrays.matrices.find_repeats import RepeatedSteps, find_repeats
from bellhop.tracing.state import override_trace_state

N_WIRES = 6
ANGLES = np.random.default_rng(2).normal(size=(6, N_WIRES))
DEVICES = ["default.qubit", "default.mixed"]


@given(st.lists(st.integers(0, 2), max_size=60))
def test_stretches_are_the_sequence(steps):
    found = find_repeats(steps)
    assert [step for part in found for step in part.steps * part.n_repeats] == steps


def test_what_repeats_is_a_stretch():
    beginning, layer, end = "ab", "cdecf", "cd"
    found = find_repeats(beginning + 3 * layer + end)
    assert found == [
        RepeatedSteps(("a", "b"), 1),
        RepeatedSteps(tuple(layer), 3),
        RepeatedSteps(tuple(end), 1),
    ]


def layered(device="default.qubit", *, parts=lambda angle: None, n_wires=N_WIRES):
    @qml.qnode(qml.device(device, wires=n_wires))
    def node(x):
        for layer in range(len(x)):
            for wire in range(n_wires):
                qml.RX(x[layer, wire], wire)
                qml.RZ(x[layer, wire] ** 2, wire)
            for wire in range(n_wires):
                qml.CNOT([wire, (wire + 1) % n_wires])
            parts(x[layer, 0])
        return qml.expval(qml.Z(0) @ qml.Y(2) + 0.3 * qml.X(1))

    return node


def in_region(node, dev="cpu:1"):
    return bellhop.accelerate(lambda x: node(x), dev=dev)


def text_of(function, layers):
    program = bellhop.qjit(function)
    with override_trace_state(in_region=True):
        return jax.jit(lambda x: program(x)).lower(jnp.ones((layers, N_WIRES))).as_text()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transform", [lambda f: f, jax.grad], ids=["value", "gradient"])
def test_a_program_does_not_grow_with_its_layers(device, transform):
    function = transform(layered(device, n_wires=N_WIRES if device == "default.qubit" else 3))
    # Of few layers a program takes matrices by slices, of more by their numbers.
    few, many = (text_of(function, layers).count("\n") for layers in (16, 32))
    assert few == many


@pytest.mark.parametrize("device", DEVICES)
def test_values_are_those_of_pennylane(device):
    n_wires = N_WIRES if device == "default.qubit" else 3
    node = layered(device, n_wires=n_wires)
    assert_as_uncompiled(bellhop.qjit(in_region(node)), node, ANGLES)


def shrinking(angle):
    """Apply a matrix that is not unitary."""
    matrix = jnp.array([[1.0, 0.5], [0.0, 1.0]])
    qml.QubitUnitary(jnp.cos(angle) * matrix, wires=0)


def difference(node, direction, step=1e-5):
    """Return the derivative of a circuit that PennyLane runs, by differences."""
    return (node(ANGLES + step * direction) - node(ANGLES - step * direction)) / (2 * step)


@pytest.mark.parametrize("parts", [lambda angle: None, shrinking], ids=["unitary", "not unitary"])
def test_derivatives_are_those_of_pennylane(parts):
    node = layered(parts=parts)
    direction = np.random.default_rng(3).normal(size=ANGLES.shape)
    slope = bellhop.qjit(jax.grad(in_region(node)))(ANGLES)
    expected = difference(node, direction)
    np.testing.assert_allclose(np.sum(slope * direction), expected, rtol=1e-7, atol=1e-8)
    forwards = bellhop.qjit(lambda x: jax.jvp(in_region(node), (x,), (direction,))[1])(ANGLES)
    np.testing.assert_allclose(forwards, np.sum(slope * direction), atol=1e-11)


def test_batches_and_second_derivatives():
    node = layered()
    direction = np.random.default_rng(4).normal(size=ANGLES.shape)
    batch = jnp.stack([ANGLES, 0.3 * ANGLES])
    slopes = bellhop.qjit(jax.vmap(jax.grad(in_region(node))))(batch)
    of_slope = lambda x: jax.jvp(jax.grad(in_region(node)), (x,), (direction,))[1]
    second = bellhop.qjit(of_slope)(ANGLES)
    slope = bellhop.qjit(jax.grad(in_region(node)))
    np.testing.assert_allclose(slopes, [slope(x) for x in batch], atol=1e-12)
    step = 1e-5
    change = slope(ANGLES + step * direction) - slope(ANGLES - step * direction)
    np.testing.assert_allclose(second, change / (2 * step), atol=1e-7)


def test_on_a_mesh():
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("state",))
    node = layered()
    value, slope = bellhop.qjit(jax.value_and_grad(in_region(node, mesh)))(jnp.asarray(ANGLES))
    np.testing.assert_allclose(value, node(ANGLES), atol=1e-12)
    direction = np.random.default_rng(5).normal(size=ANGLES.shape)
    expected = difference(node, direction)
    np.testing.assert_allclose(np.sum(slope * direction), expected, rtol=1e-7, atol=1e-8)
