"""Powers of gates by what the program computes, in other operations."""

import numpy as np
import pennylane as qml
import pytest

import bellhop


@pytest.mark.parametrize("device", ["default.mixed", "lightning.qubit"])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x: qml.ctrl(lambda: qml.pow(qml.RX(x, 1), 1.04), control=0)(),
        lambda x: qml.ctrl(qml.adjoint(qml.pow(qml.RX(x, 1), 0.5)), control=0, control_values=[0]),
        lambda x: qml.ctrl(qml.prod(qml.pow(qml.RX(x, 1), 0.3), qml.S(1)), control=0),
        lambda x: qml.adjoint(qml.prod(qml.pow(qml.RX(x, 1), 0.3), qml.S(1))),
    ],
)
def test_powers_of_rotations_in_other_operations(operation, device):
    def circuit(x):
        qml.H(0)
        qml.RY(0.4, 1)
        operation(x)
        return qml.probs(), qml.expval(qml.Y(1))

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=2)))(0.3)
    expected = qml.QNode(circuit, qml.device("default.mixed", wires=2))(0.3)
    for one, other in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
