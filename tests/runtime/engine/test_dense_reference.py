"""Random circuits of rotations and CNOTs, against a dense simulator in NumPy."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.runtime.engine.dense_reference import (
    DenseGate,
    count_angles,
    final_state,
    random_gates,
    value_and_gradient,
)

import bellhop
from bellhop_runtime import _runtime

_M_PERTURB = -6  # mallopt: fill new memory with the complement of this byte

# Numbers of qubits: states of part of a register, of one tile (11), and of many tiles.
_QUBITS = [1, 2, 3, 5, 8, 11, 12, 13, 16]


@pytest.fixture
def dirty_memory():
    """Let new memory hold large numbers, so that a test sees amplitudes that were never written.

    A C library without mallopt, unlike glibc, has memory as it comes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda parameter, value: None)
    mallopt(_M_PERTURB, 0xA5)
    yield
    mallopt(_M_PERTURB, 0)


def _apply(gates, angles):
    for gate in gates:
        if gate.slot is not None:
            rotation = getattr(qml, f"{'' if gate.control is None else 'C'}R{gate.pauli}")
            wires = [gate.wire] if gate.control is None else [gate.control, gate.wire]
            rotation(angles[gate.slot], wires=wires)
        else:
            {"X": qml.CNOT, "Z": qml.CZ}[gate.pauli]([gate.control, gate.wire])


def _node(gates, qubits, measure):
    def circuit(angles):
        _apply(gates, angles)
        return measure()

    return qml.QNode(circuit, qml.device("lightning.qubit", wires=qubits))


def _assert_right(gates, qubits, wires, precision="double"):
    """Compare the state, a value, its gradient and a product with its Hessian."""
    node = _node(gates, qubits, lambda: qml.expval(qml.prod(*map(qml.X, wires))))
    state = bellhop.qjit(_node(gates, qubits, qml.state), precision=precision)

    @bellhop.qjit(precision=precision)
    def derivatives(x, v):
        gradient = jax.grad(node)
        return node(x), gradient(x), *jax.jvp(gradient, (x,), (v,))

    rng = np.random.default_rng(3)
    tolerance = 1e-10 if precision == "double" else 2e-5
    for _ in range(2):
        angles, along = rng.uniform(-3, 3, (2, count_angles(gates)))
        value, gradient = value_and_gradient(gates, angles, wires, qubits)
        step = 1e-5
        ends = [
            value_and_gradient(gates, angles + s * step * along, wires, qubits)[1] for s in (1, -1)
        ]
        expected = (value, gradient, gradient, (ends[0] - ends[1]) / (2 * step))
        found = derivatives(angles, along)
        for got, right in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_allclose(got, right, atol=tolerance)
        np.testing.assert_allclose(found[3], expected[3], atol=max(tolerance * 10, 1e-7))
        np.testing.assert_allclose(
            state(angles), final_state(gates, angles, qubits), atol=tolerance
        )


@pytest.mark.usefixtures("dirty_memory")
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("qubits", _QUBITS)
def test_random_circuits(qubits, precision):
    rng = np.random.default_rng(qubits)
    count = 8 if qubits > 13 else 16
    before = _runtime.rows_in_engine()
    _assert_right(random_gates(rng, qubits, count), qubits, [0, qubits // 2, qubits - 1], precision)
    assert _runtime.rows_in_engine() > before


@pytest.mark.large
@pytest.mark.usefixtures("dirty_memory")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("count", [3, 12, 50])
@pytest.mark.parametrize("qubits", range(1, 17))
def test_many_random_circuits(qubits, count, precision, seed):
    rng = np.random.default_rng([qubits, count, seed])
    gates = random_gates(rng, qubits, count)
    _assert_right(gates, qubits, [0, qubits // 2, qubits - 1], precision)


@pytest.mark.usefixtures("dirty_memory")
@pytest.mark.parametrize("target", [0, 4, 9, 13])
@pytest.mark.parametrize("control", [1, 5, 10, 12])
def test_a_gate_and_the_cnot_after_it(control, target):
    """The bits of control and target are lanes, registers of a tile, or outside of it."""
    qubits = 14
    gates = [
        *(DenseGate("Y", wire, wire) for wire in range(qubits)),
        DenseGate("X", target, qubits),
        DenseGate("Z", target, qubits + 1),
        DenseGate("X", target, control=control),
        DenseGate("X", target, qubits + 2),
        DenseGate("X", target, control=control),
    ]
    angles = np.random.default_rng(0).uniform(-3, 3, qubits + 3)
    state = bellhop.qjit(_node(gates, qubits, qml.state))(angles)
    expected = final_state(gates, angles, qubits)
    np.testing.assert_allclose(state, expected, atol=1e-12)


@pytest.mark.usefixtures("dirty_memory")
@pytest.mark.parametrize("qubits", [2, 13])
def test_a_diagonal_after_the_first_gates(qubits):
    """It acts on the whole state, of which the gates before it wrote a part."""
    phases = np.exp(1j * np.arange(4))

    def circuit(x):
        qml.RY(x, wires=0)
        qml.DiagonalQubitUnitary(phases, wires=[0, qubits - 1])
        qml.RX(x, wires=qubits - 1)
        return qml.expval(qml.X(0) @ qml.Y(qubits - 1))

    for precision in ("double", "single"):
        node = qml.QNode(circuit, qml.device("lightning.qubit", wires=qubits))
        found = bellhop.qjit(bellhop.value_and_grad(node), precision=precision)(0.3)
        reference = qml.QNode(circuit, qml.device("default.qubit", wires=qubits))
        expected = jax.jit(jax.value_and_grad(reference))(jnp.float64(0.3))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_layers_read_less_than_their_groups_would():
    """The first groups after |0...0> read only the amplitudes that are not zero."""
    qubits = 16
    gates = [DenseGate("Y", wire, wire) for wire in range(qubits)]
    program = bellhop.qjit(_node(gates, qubits, lambda: qml.expval(qml.X(0))))
    program(np.ones(qubits))
    before = _runtime.amplitudes_passed()
    program(np.ones(qubits))
    # 11 of the bits in the first group, and all others in the second one.
    assert _runtime.amplitudes_passed() - before == 2**11 + 2**16


@pytest.mark.usefixtures("dirty_memory")
def test_a_measurement_between_groups():
    """It reads the whole state, of which the gates before it wrote a part."""
    qubits = 13

    def circuit(measure, cond):
        def run(x):
            qml.RY(x[0], wires=0)
            qml.CNOT([0, 12])
            outcome = measure(12)
            cond(outcome, lambda: qml.RX(x[1], wires=1))
            qml.CNOT([1, 6])
            qml.RY(x[2], wires=6)
            return qml.expval(qml.Z(0) @ qml.Z(6))

        return run

    native = circuit(bellhop.measure, lambda outcome, then: bellhop.cond(outcome)(then)())
    node = qml.QNode(native, qml.device("lightning.qubit", wires=qubits))
    x = np.array([0.4, 0.7, -0.3])
    value, gradient = bellhop.qjit(bellhop.value_and_grad(node))(x)
    # The outcome is 1 with probability sin(x0 / 2)^2, and Z(0) is its sign.
    zero, one = np.cos(x[0] / 2) ** 2, np.sin(x[0] / 2) ** 2
    np.testing.assert_allclose(value, np.cos(x[2]) * (zero - one * np.cos(x[1])), atol=1e-12)
    expected = [
        -np.cos(x[2]) * np.sin(x[0]) * (1 + np.cos(x[1])) / 2,
        np.cos(x[2]) * one * np.sin(x[1]),
        -np.sin(x[2]) * (zero - one * np.cos(x[1])),
    ]
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
