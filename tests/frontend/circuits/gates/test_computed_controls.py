"""Controls whose values the program computes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

X = 0.7


def circuit(values: Any, x: Any) -> Any:
    for wire in range(3):
        qml.RY(0.3 + wire, wires=wire)
    qml.ctrl(qml.RX(x, wires=2), [0, 1], control_values=[values[0], 0])
    qml.adjoint(qml.ctrl(qml.RZ(x, wires=2), [0, 1], control_values=values))
    qml.ctrl(qml.RY, 1, control_values=[values[1]])(x, wires=2)
    qml.ctrl(several, 0, control_values=values[:1])(x)
    return qml.expval(qml.Z(2)), qml.expval(qml.X(1)), qml.expval(qml.Y(0))


def several(x: Any) -> None:
    qml.RX(x, wires=1)
    qml.RZ(x, wires=2)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_values(device: str) -> None:
    program = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=3)))
    reference = qml.QNode(by_hand, qml.device("default.qubit", wires=3))
    for values in ([0, 0], [0, 1], [1, 0], [1, 1]):
        found = program(jnp.array(values), X)
        np.testing.assert_allclose(found, np.array(reference(values, X)), atol=1e-12)


def by_hand(values: Any, x: Any) -> Any:
    for wire in range(3):
        qml.RY(0.3 + wire, wires=wire)
    qml.ctrl(qml.RX(x, wires=2), [0, 1], control_values=[values[0], 0])
    qml.adjoint(qml.ctrl(qml.RZ(x, wires=2), [0, 1], control_values=values))
    qml.ctrl(qml.RY(x, wires=2), 1, control_values=[values[1]])
    qml.ctrl(qml.RX(x, wires=1), 0, control_values=values[:1])
    qml.ctrl(qml.RZ(x, wires=2), 0, control_values=values[:1])
    return qml.expval(qml.Z(2)), qml.expval(qml.X(1)), qml.expval(qml.Y(0))


def test_an_outcome_as_a_value() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def program() -> Any:
        qml.RX(X, wires=0)
        outcome = bellhop.measure(0)
        qml.ctrl(qml.X(2), 1, control_values=[outcome])
        return qml.probs(wires=2)

    # Wire 1 is zero, so that the flip comes with the outcome zero.
    np.testing.assert_allclose(program(), [np.sin(X / 2) ** 2, np.cos(X / 2) ** 2], atol=1e-12)


def written_out(values: Any, x: Any) -> Any:
    for wire in range(3):
        qml.RY(0.3 + wire, wires=wire)
    qml.MultiControlledX([0, 1, 2], control_values=values)
    qml.adjoint(qml.ControlledQubitUnitary(qml.RX(0.4, 0).matrix(), [1, 0], [values[1]]))
    qml.ctrl(qml.MultiControlledX(wires=[0, 2], control_values=[values[0]]), 1)
    qml.ops.Controlled(qml.RX(x, wires=2), [0, 1], control_values=(values[0], False))
    return qml.expval(qml.Z(2)), qml.expval(qml.X(1)), qml.expval(qml.Y(0))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_operations_written_with_values(device: str) -> None:
    program = bellhop.qjit(qml.QNode(written_out, qml.device(device, wires=3)))
    reference = qml.QNode(written_out, qml.device("default.qubit", wires=3))
    for values in ([0, 1], [1, 0]):
        found = program(values, X)
        np.testing.assert_allclose(found, np.array(reference(values, X)), atol=1e-12)


TEMPLATES = {
    "TemporaryAND": lambda values: qml.TemporaryAND([0, 1, 2], control_values=values),
    "one value": lambda values: qml.Elbow([0, 1, 2], (0, values[1])),
    "inverted": lambda values: qml.adjoint(qml.TemporaryAND([0, 1, 2], control_values=values)),
    "controlled": lambda values: qml.ctrl(qml.TemporaryAND([0, 1, 2], control_values=values), 3),
    "FlipSign": lambda values: qml.FlipSign(values, wires=[0, 1]),
    "FlipSign of a number": lambda values: qml.FlipSign(2 * values[0] + values[1], wires=[0, 1]),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_operations_that_are_no_controlled_ones(name: str) -> None:
    def circuit(values: Any) -> Any:
        for wire in range(4):
            qml.RY(0.3 + wire, wires=wire)
        TEMPLATES[name](values)
        return qml.expval(qml.X(0) @ qml.Y(2)), qml.expval(qml.X(1)), qml.expval(qml.Z(2))

    program = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit", wires=4)))
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=4))
    for values in ([0, 0], [0, 1], [1, 0], [1, 1]):
        np.testing.assert_allclose(program(jnp.array(values)), reference(values), atol=1e-9)
