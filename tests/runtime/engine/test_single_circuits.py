"""The engine runs circuits that are no batch, and what it cannot do is the plugin's."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.runtime.circuit_calls import (
    begin,
    end,
    gates,
    measure,
    run_circuit,
    to_gate,
    to_measurements,
)
from tests.runtime.engine.random_circuits import random_circuit

import bellhop
from bellhop_runtime import _runtime

QUBITS = 5
_RANDOM = np.random.default_rng(5)


def _ran():
    return _runtime.rows_in_engine()


# Autograd drops imaginary parts of expectation values, which are zero.
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("seed", range(4))
def test_random_circuits(seed):
    angles = np.random.default_rng(seed).uniform(-7, 7, 25)
    circuit = random_circuit(seed, QUBITS, "lightning.qubit")
    reference = random_circuit(seed, QUBITS, "default.qubit")
    before = _ran()
    values = bellhop.qjit(circuit)(angles)
    found = bellhop.qjit(jax.jacrev(lambda x: jnp.stack(circuit(x))))(angles)
    assert _ran() == before + 2
    np.testing.assert_allclose(values, reference(angles), atol=1e-12)
    # By Autograd: outside of a program JAX would compile each operation of its own.
    variables = qml.numpy.array(angles, requires_grad=True)
    expected = qml.jacobian(lambda x: qml.math.stack(reference(x)))(variables)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_every_measurement():
    matrix = _RANDOM.normal(size=(4, 4)) + 1j * _RANDOM.normal(size=(4, 4))

    def circuit(x):
        qml.BasisState(np.array([1, 0, 1]), wires=[0, 2, 3])
        for wire in range(QUBITS):
            qml.RY(x * (wire + 1), wires=wire)
        qml.CNOT([0, 4])
        return (
            qml.probs(wires=[2, 0]),
            qml.var(qml.X(0) @ qml.Z(4)),
            qml.var(qml.Hermitian(matrix + matrix.conj().T, wires=[4, 1])),
            qml.probs(),
            qml.state(),
        )

    before = _ran()
    native = qml.QNode(circuit, qml.device("lightning.qubit", wires=QUBITS))
    found = bellhop.qjit(native)(0.3)
    assert _ran() == before + 1
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=QUBITS))(0.3)
    for value, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, reference, atol=1e-12)


def test_gates_that_wait_are_applied_before_one_that_the_engine_does_not_know():
    ops = [qml.RX(0.3, 0), qml.CRY(0.8, [0, 1]), qml.PCPhase(0.7, 3, [0, 1]), qml.RY(0.2, 0)]
    tape = qml.tape.QuantumScript(ops, [qml.state()])
    (expected,) = qml.execute([tape], qml.device("default.qubit", wires=2))
    before = _ran()
    (found,) = run_circuit(2, [to_gate(op) for op in ops], [qml.state()])
    assert _ran() == before
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_loop_that_calls_for_its_gates_keeps_no_more_than_some():
    run = [to_gate(op) for op in (qml.RX(0.1, 0), qml.CNOT([0, 1]), qml.RY(0.2, 1))]
    wanted = to_measurements([qml.state()], 2)

    @jax.jit
    def program(count):
        state = jax.lax.fori_loop(0, count, lambda _, s: gates(s, run), begin(2, count))
        state, value = measure(state, wanted)
        end(state)
        return value

    step = np.linalg.multi_dot([qml.matrix(op, [0, 1]) for op in map(_operation, reversed(run))])
    for count in (3, 5000):
        expected = np.linalg.matrix_power(step, count)[:, 0]
        np.testing.assert_allclose(program(count), expected, atol=1e-11)


def _operation(gate):
    return getattr(qml, gate.name)(*gate.params, wires=gate.wires)


def test_a_circuit_does_not_depend_on_the_one_before_it():
    """What a thread keeps for its next circuit says nothing of the last one."""
    qubits = 2
    dev = qml.device("lightning.qubit", wires=qubits)

    def circuit(angles):
        for i in range(len(angles)):
            qml.RX(angles[i], i % qubits)
            qml.CNOT([i % qubits, 1 - i % qubits])
        return qml.expval(qml.Z(0)), qml.expval(qml.X(0) @ qml.Y(1))

    few, many = jnp.linspace(0.3, 2.0, 5), jnp.full(7, 1e9).at[0].set(jnp.nan)
    compiled = bellhop.qjit(
        lambda angles: (
            qml.QNode(circuit, dev)(angles),
            bellhop.jacobian(qml.QNode(circuit, dev))(angles),
        )
    )
    before = jax.tree.map(np.asarray, compiled(few))
    compiled(many)
    after = jax.tree.map(np.asarray, compiled(few))
    assert jax.tree.all(jax.tree.map(np.array_equal, before, after))
    angles = [0.1, 0.9, 1.7, 0.2, 0.4]
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=qubits))(angles)
    np.testing.assert_allclose(compiled(jnp.array(angles))[0], expected, atol=1e-12)
