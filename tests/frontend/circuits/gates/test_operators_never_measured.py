"""Operators that a quantum function makes and does not measure, and wires that are no labels."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop

OPERATORS = {
    "Sum": lambda x: qml.Z(0) + 2 * qml.X(1),
    "SProd": lambda x: 2 * qml.Z(0),
    "SProd, traced": lambda x: x * qml.Z(0),
    "Hermitian": lambda x: qml.Hermitian(np.diag([1.0, 3.0]), 0),
    "LinearCombination": lambda x: qml.Hamiltonian([1.0, 0.5], [qml.Z(0), qml.X(0)]),
    "Projector": lambda x: qml.Projector([1], 0),
}


def circuit(make: Any, x: Any) -> Any:
    qml.RX(x, 0)
    make(x)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize(
    "device", ["lightning.qubit", "default.qubit", "default.mixed", "null.qubit"]
)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_is_not_unitary_is_an_error(name: str, device: str) -> None:
    make = OPERATORS[name]
    node = qml.QNode(lambda x: circuit(make, x), qml.device(device, wires=2))
    kind = name.partition(",")[0]
    with pytest.raises(bellhop.CompileError, match=f"the observable {kind} is applied") as caught:
        bellhop.qjit(node)(0.3)
    assert any("raised at" in note and ".py:" in note for note in caught.value.__notes__)


def test_a_unitary_one_is_a_gate_where_pennylane_applies_matrices() -> None:
    make = lambda _: qml.Hamiltonian([0.6, 0.8], [qml.Z(0), qml.X(0)])
    node = qml.QNode(lambda x: circuit(make, x), qml.device("default.qubit", wires=1))
    np.testing.assert_allclose(bellhop.qjit(node)(0.3), node(0.3), atol=1e-12)


def test_a_wire_of_another_type_is_an_error() -> None:
    node = qml.QNode(lambda x: circuit(lambda _: qml.X(1.0), x), qml.device("default.qubit", 2))
    with pytest.raises(bellhop.CompileError, match=r"a wire is 1\.0 of type float, expected an"):
        bellhop.qjit(node)(0.3)


def test_true_is_no_number_of_shots() -> None:
    node = qml.QNode(lambda x: circuit(qml.RX, x), qml.device("lightning.qubit", wires=1))
    with pytest.raises(
        bellhop.CompileError, match="the number of shots is a bool, expected an int"
    ):
        bellhop.qjit(qml.set_shots(node, True))(0.3)


@pytest.mark.parametrize("name", ["debug_state", "debug_expval", "debug_probs"])
def test_the_debugger_of_pennylane_is_an_error(name: str) -> None:
    arguments = (qml.Z(0),) if name == "debug_expval" else ()

    def debugged(x: Any) -> Any:
        qml.RX(x, 0)
        getattr(qml, name)(*arguments)
        return qml.expval(qml.Z(0))

    node = qml.QNode(debugged, qml.device("lightning.qubit", wires=1))
    with pytest.raises(bellhop.CompileError, match="run the gates so far on PennyLane's device"):
        bellhop.qjit(node)(0.3)
