"""Large states, which the engine goes through a tile at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.runtime.engine.random_circuits import random_circuit

import bellhop
from bellhop_runtime import _runtime

QUBITS = 13  # four tiles
_RANDOM = np.random.default_rng(7)


def _ran():
    return _runtime.rows_in_engine()


@pytest.mark.parametrize("seed", range(2))
def test_random_circuits(seed):
    angles = np.random.default_rng(seed).uniform(-7, 7, 24)
    circuit = random_circuit(seed, QUBITS, "lightning.qubit")

    def both(angles):
        return jnp.stack(circuit(angles)), jax.jacrev(lambda x: jnp.stack(circuit(x)))(angles)

    before = _ran()
    values, jacobian = bellhop.qjit(both)(angles)
    assert _ran() > before
    expected_values, expected = bellhop.qjit(both, engine="plugin")(angles)
    np.testing.assert_allclose(values, expected_values, atol=1e-12)
    np.testing.assert_allclose(jacobian, expected, atol=1e-10)


def _unitary(wires):
    size = 2**wires
    matrix = _RANDOM.normal(size=(size, size)) + 1j * _RANDOM.normal(size=(size, size))
    return np.linalg.qr(matrix)[0]


_MATRICES = [_unitary(wires) for wires in (1, 2, 3, 5, 6)]
_STATE = _unitary(2)[0]


def _matrices_and_words(x):
    """On wires near and far, with controls, and of more wires than a tile has bits."""
    qml.StatePrep(_STATE, wires=[3, 12])
    for wire in range(QUBITS):
        qml.RY(x * (wire + 1), wires=wire)
    for shift, matrix in enumerate(_MATRICES):
        wires = [(5 * i + shift) % QUBITS for i in range(matrix.shape[0].bit_length() - 1)]
        qml.QubitUnitary(matrix, wires=wires)
        controls = [wire for wire in (0, 11, 12) if wire not in wires]
        qml.ctrl(qml.QubitUnitary(matrix, wires=wires), control=controls)
        qml.MultiRZ(x, wires=range(QUBITS))
    qml.PauliRot(x, "XYZ" * 4 + "X", wires=range(QUBITS))
    qml.QubitUnitary(_MATRICES[4], wires=[12, 0, 11, 1, 10, 2])


def test_matrices_words_and_every_measurement():
    hermitian = _MATRICES[1] + _MATRICES[1].conj().T

    def circuit(x):
        _matrices_and_words(x)
        return (
            qml.expval(qml.Hermitian(hermitian, wires=[0, 12]) @ qml.X(6)),
            qml.expval(0.3 * qml.Y(0) @ qml.Z(1) @ qml.X(12) - 2 * qml.Y(5) @ qml.Y(0)),
            qml.var(qml.X(0) @ qml.Z(12)),
            qml.probs(wires=[12, 0]),
            qml.probs(wires=range(QUBITS)),
            qml.state(),
        )

    before = _ran()
    native = qml.QNode(circuit, qml.device("lightning.qubit", wires=QUBITS))
    found = bellhop.qjit(native)(0.3)
    assert _ran() == before + 1
    expected = bellhop.qjit(native, engine="plugin")(0.3)
    for value, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, reference, atol=1e-12)


def test_numbers_do_not_depend_on_how_many_threads_share_a_state():
    qubits = 15

    @qml.qnode(qml.device("lightning.qubit", wires=qubits))
    def circuit(x):
        for layer in range(2):
            for wire in range(qubits):
                qml.RY(x[layer, wire], wires=wire)
                qml.CNOT([wire, (wire + 1) % qubits])
        return qml.expval(sum(qml.X(w) @ qml.Z((w + 7) % qubits) for w in range(qubits)))

    def value_and_gradient(x):
        return bellhop.value_and_grad(circuit)(x)

    rows = _RANDOM.uniform(-3, 3, (3, 2, qubits))
    # Threads share a state that is alone; in a batch each has rows of its own.
    batch = bellhop.qjit(bellhop.vmap(value_and_gradient))(rows)
    alone = bellhop.qjit(value_and_gradient)
    for i, row in enumerate(rows):
        of_row = jax.tree.map(lambda part, i=i: part[i], batch)
        assert jax.tree.all(jax.tree.map(np.array_equal, alone(row), of_row))


def test_a_loop_whose_length_is_an_argument():
    @qml.qnode(qml.device("lightning.qubit", wires=QUBITS))
    def circuit(x, count):
        @bellhop.for_loop(0, count, 1)
        def loop(i):
            qml.RX(x * (i + 1), wires=0)
            qml.CRY(x, wires=[0, QUBITS - 1])

        loop()
        return qml.expval(qml.Z(QUBITS - 1))

    def value_and_gradient(x, count):
        return bellhop.value_and_grad(circuit)(x, count)

    found = bellhop.qjit(value_and_gradient)(0.4, 5)
    expected = bellhop.qjit(value_and_gradient, engine="plugin")(0.4, 5)
    np.testing.assert_allclose(found, expected, atol=1e-10)
