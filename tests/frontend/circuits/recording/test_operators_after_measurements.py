"""Operators that are no ``Operation`` on wires that were measured; outcomes as wires."""

import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ["lightning.qubit", "default.qubit", "default.mixed"]

OPERATORS = {
    "product": lambda x: qml.X(0) @ qml.RY(x, 1),
    "adjoint": lambda x: qml.adjoint(qml.prod(qml.S(0), qml.RX(x, 1))),
    "power": lambda x: qml.pow(qml.prod(qml.S(0), qml.RX(x, 1)), 2),
    "control": lambda x: qml.ctrl(qml.prod(qml.RX(x, 0), qml.Z(0)), 1),
    "controlled": lambda x: qml.prod(qml.CRX(x, wires=[0, 1]), qml.T(1)),
    "controlled and not": lambda x: qml.prod(qml.CRX(x, wires=[0, 1]), qml.RY(x, 0)),
    "adjoint of a control": lambda x: qml.adjoint(qml.ctrl(qml.prod(qml.RX(x, 1), qml.S(1)), 0)),
    "exponential": lambda x: qml.exp(qml.X(0) @ qml.Z(1), 1j * x),
    "evolution": lambda x: qml.evolve(qml.X(0) + qml.Z(1), x),
    "power of an evolution": lambda x: qml.pow(qml.evolve(qml.X(0) @ qml.Z(1), x), 2),
    "basis change": lambda x: qml.change_op_basis(qml.H(0), qml.RZ(x, 0), qml.H(0)),
}


def circuit(operator, measure, conditional):
    def quantum_function(x):
        qml.RX(x, wires=0)
        qml.RY(0.3, wires=1)
        outcome = measure(0)
        operator(x)
        conditional(outcome, qml.RX)(x, wires=1)
        return qml.expval(qml.Z(0)), qml.expval(qml.Y(1)), qml.expval(qml.X(0) @ qml.Z(1))

    return quantum_function


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", list(OPERATORS))
def test_operators_act_on_measured_wires(name, device):
    ours = circuit(OPERATORS[name], bellhop.measure, bellhop.cond)
    theirs = circuit(OPERATORS[name], qml.measure, qml.cond)
    values = bellhop.qjit(qml.QNode(ours, qml.device(device, wires=2)))(0.4)
    expected = qml.QNode(theirs, qml.device("default.qubit", wires=3))(0.4)
    np.testing.assert_allclose(values, expected, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_outcomes_and_booleans_are_wires(device):
    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=2))
    def by_outcome(x, flag):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        qml.X(outcome)
        again = bellhop.measure(outcome)
        qml.RY(0.3, wires=flag)
        qml.RY(0.2, wires=True)
        return qml.probs(wires=[0, 1]), qml.expval(qml.Z(outcome)), again

    one, zero = np.cos(0.25) ** 2, np.sin(0.25) ** 2
    # An outcome of 1 flips wire 1, and one of 0 flips wire 0.
    probs, mean, again = by_outcome(np.pi, True)
    np.testing.assert_allclose(probs, [0, 0, zero, one], atol=1e-7)
    np.testing.assert_allclose(mean, zero - one, atol=1e-7)
    assert again
    probs, mean, again = by_outcome(0.0, True)
    np.testing.assert_allclose(probs, [0, 0, one, zero], atol=1e-7)
    np.testing.assert_allclose(mean, -1, atol=1e-7)
    assert again
