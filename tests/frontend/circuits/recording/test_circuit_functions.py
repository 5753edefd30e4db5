"""Adjoint and control of functions, and nests of both."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest

X = np.array([0.37, -1.21, 0.83])


def evolved(generator: Any, x: Any) -> None:
    qml.evolve(generator, x)


def prepare() -> None:
    for wire in range(4):
        qml.RY(0.3 + 0.4 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


def part(x: Any) -> None:
    """Gates that do not commute, on wires 0 and 1."""
    qml.RX(x[0], wires=0)
    qml.S(wires=1)
    qml.CRY(x[1], wires=[0, 1])
    qml.Rot(x[0], x[1], x[2], wires=1)
    qml.GlobalPhase(x[2])


CASES = {
    "adjoint": lambda x: qml.adjoint(part)(x),
    "ctrl": lambda x: qml.ctrl(part, control=2)(x),
    "ctrl by zero": lambda x: qml.ctrl(part, control=[2, 3], control_values=[0, 1])(x),
    "ctrl of adjoint": lambda x: qml.ctrl(qml.adjoint(part), control=2)(x),
    "adjoint of ctrl": lambda x: qml.adjoint(qml.ctrl(part, control=2))(x),
    "adjoint of ctrl of adjoint": lambda x: qml.adjoint(
        qml.ctrl(qml.adjoint(part), control=2, control_values=0)
    )(x),
    "ctrl of ctrl": lambda x: qml.ctrl(qml.ctrl(part, control=2), control=3)(x),
    "adjoint of adjoint": lambda x: qml.adjoint(qml.adjoint(part))(x),
    "adjoint of a function of an operator": lambda x: qml.adjoint(evolved)(
        0.3 * qml.Z(0) @ qml.X(1), x[0]
    ),
    "ctrl of a function of an operator": lambda x: qml.ctrl(evolved, control=2)(
        generator=0.3 * qml.X(0) @ qml.Z(1), x=x[0]
    ),
    "cond of a function of an operator": lambda x: qml.cond(x[0] > 0, evolved, evolved)(
        qml.X(0), x[0]
    ),
    "adjoint, then more": lambda x: (qml.adjoint(part)(x), part(2 * x)),
    "conjugation": lambda x: qml.change_op_basis(qml.RX(x[0], 0), qml.RZ(x[1], 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_function(compare: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        prepare()
        CASES[name](x)
        return qml.state()

    compare(circuit, X)


@pytest.mark.parametrize("name", CASES)
def test_derivative_of_function(compare_derivative: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        prepare()
        CASES[name](x)
        qml.RX(0.2, wires=1)
        return qml.expval(qml.X(0) @ qml.Y(1)), qml.expval(qml.Z(2))

    compare_derivative(circuit, X)
