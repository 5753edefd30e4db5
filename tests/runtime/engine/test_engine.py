"""The engine runs the rows of batches: all gates, measurements and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop_runtime import _runtime

WIRES = 4
_RANDOM = np.random.default_rng(0)
_UNITARY = np.linalg.qr(_RANDOM.normal(size=(4, 4)) + 1j * _RANDOM.normal(size=(4, 4)))[0]
_MATRIX = _RANDOM.normal(size=(4, 4)) + 1j * _RANDOM.normal(size=(4, 4))
_HERMITIAN = _MATRIX + _MATRIX.conj().T


def _layers(x):
    for wire in range(WIRES):
        qml.RY(x[wire], wires=wire)
        qml.RZ(x[wire + 1], wires=wire)
        qml.RX(x[0] * x[2], wires=wire)


def _controlled(x):
    qml.CNOT([0, 1])
    qml.CRX(x[3], wires=[1, 2])
    qml.CRZ(x[1], wires=[3, 0])
    qml.CRot(x[3], x[1], x[2], wires=[3, 2])
    qml.Toffoli([0, 1, 3])
    qml.CSWAP([1, 2, 3])
    qml.CY([2, 0])
    qml.CZ([3, 1])
    qml.ControlledPhaseShift(x[3], wires=[0, 1])
    qml.ctrl(qml.RY, control=[0, 2], control_values=[0, 1])(x[5], wires=1)
    qml.ctrl(qml.PauliRot, control=[2], control_values=[0])(x[4], "YX", wires=[1, 3])
    qml.ctrl(qml.GlobalPhase, control=[2])(x[4])


def _words(x):
    qml.IsingXX(x[0], wires=[0, 2])
    qml.IsingYY(x[4], wires=[1, 3])
    qml.IsingZZ(x[5], wires=[2, 3])
    qml.IsingXY(x[2], wires=[3, 1])
    qml.MultiRZ(x[1], wires=[0, 1, 3])
    qml.PauliRot(x[2], "XYZ", wires=[3, 0, 1])
    qml.adjoint(qml.IsingXX(x[1], wires=[0, 3]))
    qml.PauliRot(0.3, "YZ", wires=[2, 0])


def _excitations(x):
    qml.SingleExcitation(x[3], wires=[0, 2])
    qml.SingleExcitationPlus(x[1], wires=[1, 2])
    qml.SingleExcitationMinus(x[0], wires=[3, 2])
    qml.DoubleExcitation(x[4], wires=[0, 1, 2, 3])
    qml.DoubleExcitationPlus(x[5], wires=[3, 1, 2, 0])
    qml.DoubleExcitationMinus(x[5], wires=[3, 1, 0, 2])


def _fixed(x):
    qml.Hadamard(2)
    qml.S(0)
    qml.T(1)
    qml.adjoint(qml.SX(3))
    qml.adjoint(qml.S(2))
    qml.SWAP([0, 3])
    qml.PSWAP(0.3, wires=[0, 1])
    qml.Rot(x[0], x[1], x[2], wires=3)
    qml.adjoint(qml.PhaseShift(x[0], wires=1))
    qml.GlobalPhase(x[2])
    qml.QubitUnitary(_UNITARY, wires=[3, 1])
    qml.adjoint(qml.QubitUnitary(_UNITARY, wires=[0, 2]))
    qml.ctrl(qml.QubitUnitary(_UNITARY, wires=[0, 2]), control=1)


def _circuit(gates, measure):
    def circuit(x):
        qml.BasisState(np.array([1, 0, 1]), wires=[0, 2, 3])
        _layers(x)
        gates(x)
        return measure()

    return circuit


def _expvals():
    return (
        qml.expval(qml.Z(0)),
        qml.expval(0.3 * qml.X(1) @ qml.Y(2) + 1.5 * qml.Z(3) @ qml.Z(0)),
        qml.expval(qml.Hermitian(_HERMITIAN, wires=[2, 0]) @ qml.Hadamard(1)),
    )


def _others():
    return qml.probs(wires=[2, 0]), qml.var(qml.X(0) @ qml.Z(2)), qml.probs(), qml.state()


def _rows(count):
    return np.random.default_rng(1).uniform(-7, 7, (count, 6))


def _native(circuit):
    return qml.QNode(circuit, qml.device("lightning.qubit", wires=WIRES))


def _uncompiled(circuit):
    return qml.QNode(circuit, qml.device("default.qubit", wires=WIRES))


@pytest.mark.parametrize("gates", [_controlled, _words, _excitations, _fixed])
def test_jacobian_of_rows(gates):
    circuit = _circuit(gates, _expvals)
    rows = _rows(5)  # a register of four, and one more

    def jacobian(x):
        return jax.jacrev(lambda x: jnp.stack(_native(circuit)(x)))(x)

    before = _runtime.rows_in_engine()
    found = bellhop.qjit(jax.vmap(jacobian))(rows)
    assert _runtime.rows_in_engine() == before + len(rows)
    reference = _uncompiled(circuit)
    along = np.random.default_rng(2).normal(size=6)
    for row in (0, 4):
        ends = [np.stack(reference(rows[row] + step * along)) for step in (1e-5, -1e-5)]
        np.testing.assert_allclose(found[row] @ along, (ends[0] - ends[1]) / 2e-5, atol=1e-7)


@pytest.mark.parametrize("gates", [_controlled, _words, _excitations, _fixed])
def test_values_of_rows(gates):
    circuit = _circuit(gates, lambda: (*_expvals(), *_others()))
    rows = _rows(3)
    before = _runtime.rows_in_engine()
    found = bellhop.qjit(jax.vmap(_native(circuit)))(rows)
    assert _runtime.rows_in_engine() == before + len(rows)
    for row in range(3):
        for value, expected in zip(found, _uncompiled(circuit)(rows[row]), strict=True):
            np.testing.assert_allclose(value[row], expected, atol=1e-12)


def test_state_preparation_of_rows():
    def circuit(state):
        qml.StatePrep(state, wires=[2, 0])
        qml.RX(0.3, wires=2)
        qml.CNOT([2, 1])
        return qml.state()

    states = _RANDOM.normal(size=(3, 4)) + 1j * _RANDOM.normal(size=(3, 4))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    before = _runtime.rows_in_engine()
    found = bellhop.qjit(jax.vmap(_native(circuit)))(states)
    assert _runtime.rows_in_engine() == before + 3
    for row, state in enumerate(states):
        np.testing.assert_allclose(found[row], _uncompiled(circuit)(state), atol=1e-12)


def test_angles_of_any_size():
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    angles = np.array([0.0, 1e-300, 1e5, -1e7, 3e15, -1e300, np.pi / 2, 2**20 + 0.5])
    found = bellhop.qjit(jax.vmap(_native(circuit)))(angles)
    np.testing.assert_allclose(found, np.cos(angles), atol=2e-15)
    assert np.isnan(bellhop.qjit(jax.vmap(_native(circuit)))(np.array([np.nan, 1.0]))[0])
