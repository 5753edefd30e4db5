"""Loops and conditionals that stand on a tape, in decompositions mostly; what functions applied."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ["lightning.qubit", "default.qubit"]


class Turned(qml.operation.Operation):
    """XX by an angle, or twice that, and turns of the first wire."""

    num_params = 1
    num_wires = 2

    @staticmethod
    def compute_decomposition(theta: Any, wires: Any) -> Any:
        with qml.tape.QuantumTape() as tape:
            choice = bellhop.cond(
                theta > 0.4,
                lambda: qml.PauliRot(theta, "XX", wires=wires) and None,
                lambda: qml.PauliRot(2 * theta, "XX", wires=wires) and None,
            )
            choice()
            qml.T(wires[0])
            bellhop.for_loop(0, 3)(lambda i: qml.RY(theta * i, wires=wires[0]) and None)()
        return tape.operations


def by_hand(theta: float) -> Any:
    gates = [qml.PauliRot(theta if theta > 0.4 else 2 * theta, "XX", wires=[0, 1]), qml.T(0)]
    return qml.prod(*reversed([*gates, *(qml.RY(theta * i, 0) for i in range(3))]))


def circuit(turned: Any, theta: Any) -> Any:
    qml.RX(0.3, wires=1)
    qml.Hadamard(2)
    turned(theta)
    qml.adjoint(turned(2 * theta))
    qml.ctrl(turned(theta), control=2)
    qml.ctrl(qml.adjoint(turned(theta / 2)), control=2, control_values=[0])
    return qml.expval(qml.Z(0)), qml.expval(qml.Y(1)), qml.expval(qml.X(2))


def in_a_decomposition(device: str) -> qml.QNode:
    return qml.QNode(
        lambda x: circuit(lambda y: Turned(y, wires=[0, 1]), x), qml.device(device, wires=3)
    )


def reference(theta: float) -> Any:
    node = qml.QNode(lambda x: circuit(by_hand, x), qml.device("default.qubit", wires=3))
    return np.array(node(theta))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("theta", [0.3, 0.5])
def test_in_a_decomposition(device: str, theta: float) -> None:
    values = bellhop.qjit(in_a_decomposition(device))(theta)
    np.testing.assert_allclose(values, reference(theta), atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_derivative_in_a_decomposition(device: str) -> None:
    step = 1e-6
    slope = (reference(0.5 + step) - reference(0.5 - step)) / (2 * step)
    derivative = bellhop.qjit(jax.jacobian(in_a_decomposition(device)))(0.5)
    np.testing.assert_allclose(derivative, slope, atol=1e-8)


def doubled(angle: Any) -> Any:
    qml.RX(angle, wires=0)
    return 2 * angle


def test_what_it_returns_is_known_on_the_tape() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def program(x: Any) -> Any:
        with qml.QueuingManager.stop_recording(), qml.tape.QuantumTape() as tape:
            angle = bellhop.while_loop(lambda y: y < 1)(doubled)(x)
            qml.RY(angle, wires=0)
        for op in tape.operations:
            qml.apply(op)
        return qml.expval(qml.Z(0))

    # RX(0.3), RX(0.6), then RY(1.2).
    np.testing.assert_allclose(program(0.3), np.cos(0.9) * np.cos(1.2), atol=1e-12)


def test_what_functions_applied() -> None:
    def gates(x: Any) -> None:
        qml.RX(x, wires=0)
        bellhop.for_loop(1, 3)(lambda i: qml.RY(x, wires="a") and None)()

    seen: dict[str, Any] = {}

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=[0, 1, "a"]))
    def program(x: Any) -> Any:
        seen["inverse"] = qml.adjoint(gates)(x)
        seen["controlled"] = qml.ctrl(gates, control=1)(x)
        seen["one"] = qml.adjoint(lambda: qml.S(0))()
        return qml.expval(qml.Z(0))

    program(jnp.array(0.3))
    assert set(seen["inverse"].wires) == {0, "a"}
    assert set(seen["controlled"].wires) == {0, 1, "a"}
    assert seen["one"].operation == qml.adjoint(qml.S(0))
    assert seen["one"].wires == qml.wires.Wires([0])
