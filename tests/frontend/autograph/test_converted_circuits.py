"""Converted circuits against the same circuits, run by PennyLane."""

import numpy as np
import pennylane as qml
import pytest

import bellhop


def circuit_function(x, n):
    for i in range(3):
        qml.RX(x * i, wires=0)
        if i > 1:
            qml.CNOT([0, 1])
    if n > 2:
        qml.RY(x, wires=1)
    elif n > 1:
        qml.Hadamard(1)
        qml.RZ(x, wires=1)
    else:
        for j in range(n):
            qml.RX(x + j, wires=1)
    for w in [0, 1]:
        qml.RY(x, wires=w)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_circuits(n):
    compiled = bellhop.qjit(
        qml.QNode(circuit_function, qml.device("lightning.qubit", wires=2)), autograph=True
    )
    expected = qml.QNode(circuit_function, qml.device("default.qubit", wires=2))(0.4, n)
    np.testing.assert_allclose(compiled(0.4, n), expected, atol=1e-9)


def test_conditions_on_measurements():
    def body(x):
        qml.RX(x, wires=0)
        m = bellhop.measure(0)
        if m:
            qml.RY(x, wires=1)
        elif not m and x > 0:
            qml.RX(2 * x, wires=1)
        return qml.expval(qml.Z(1))

    f = bellhop.qjit(qml.QNode(body, qml.device("lightning.qubit", wires=2)), autograph=True)
    one = np.sin(0.2) ** 2
    np.testing.assert_allclose(f(0.4), one * np.cos(0.4) + (1 - one) * np.cos(0.8), atol=1e-9)


def test_a_circuit_that_is_called():
    circuit = qml.QNode(circuit_function, qml.device("lightning.qubit", wires=2))

    @bellhop.qjit(autograph=True)
    def f(x, n):
        total = 0.0
        for i in range(n):
            total += circuit(x, i)[0]
        return total

    reference = qml.QNode(circuit_function, qml.device("default.qubit", wires=2))
    expected = sum(reference(0.4, i)[0] for i in range(4))
    np.testing.assert_allclose(f(0.4, 4), expected, atol=1e-9)


def test_the_gradient_of_a_circuit_with_a_loop():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        for i in range(4):
            if i > 1:
                qml.RX(x * i, wires=0)
            else:
                qml.RX(2 * x, wires=0)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(bellhop.grad(circuit), autograph=True)
    np.testing.assert_allclose(f(0.2), -9 * np.sin(9 * 0.2), atol=1e-9)
    assert "stablehlo.while" in f.mlir


def test_controls_and_inverses_of_operators_and_functions():
    # Catalyst's issue 1339.
    def body(x, n):
        qml.Hadamard(0)
        qml.ctrl(qml.RX(x, wires=1), control=0)
        qml.ctrl(qml.RY, control=0)(x, wires=1)
        qml.adjoint(qml.S(1))
        qml.adjoint(lambda: qml.RZ(x, wires=1))()
        qml.Hadamard(1)
        return qml.probs()

    f = bellhop.qjit(qml.QNode(body, qml.device("lightning.qubit", wires=2)), autograph=True)
    expected = qml.QNode(body, qml.device("default.qubit", wires=2))(0.3, 1)
    np.testing.assert_allclose(f(0.3, 1), expected, atol=1e-9)
