"""``qml.pauli_measure``, for which PennyLane has no device, against projectors of NumPy's."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest
from pennylane import pauli_measure

import bellhop

ORDER = [0, 1, 2]
WIRES = [0, 2, 1]


def prepare(x: Any) -> None:
    for wire in range(3):
        qml.RX(x + wire, wire)
        qml.RY(0.4 + x, wire)


def expected(x: float, word: str, postselect: int | None) -> tuple[float, Any]:
    """Return how often the outcome is one, and the density matrix after all."""

    def prepared() -> Any:
        prepare(x)
        return qml.state()

    state = qml.QNode(prepared, qml.device("default.qubit", wires=3))()
    factors = [getattr(qml, pauli)(wire) for pauli, wire in zip(word, WIRES, strict=False)]
    observable = qml.matrix(qml.prod(*factors), wire_order=ORDER)
    turn = qml.matrix(qml.RX(0.7, 0), wire_order=ORDER)
    branches = {}
    for outcome in (0, 1) if postselect is None else (postselect,):
        projected = (state + (-1) ** outcome * observable @ state) / 2
        branches[outcome] = turn @ projected if outcome else projected
    weights = {outcome: np.vdot(branch, branch).real for outcome, branch in branches.items()}
    total = sum(weights.values())
    matrix = sum(np.outer(branch, branch.conj()) for branch in branches.values())
    return weights.get(1, 0.0) / total, matrix / total


@pytest.mark.parametrize("word", ["XYZ", "YX", "Z"])
@pytest.mark.parametrize("postselect", [None, 1])
@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_the_state_falls_to_an_eigenspace(name: str, postselect: int | None, word: str) -> None:
    @bellhop.qjit
    @qml.qnode(qml.device(name, wires=3))
    def circuit(x: Any) -> Any:
        prepare(x)
        outcome = pauli_measure(word, wires=WIRES[: len(word)], postselect=postselect)
        qml.cond(outcome, qml.RX)(0.7, 0)
        return qml.expval(outcome), qml.density_matrix(ORDER)

    ones, matrix = circuit(0.3)
    frequency, reference = expected(0.3, word, postselect)
    np.testing.assert_allclose(ones, frequency, atol=1e-9)
    np.testing.assert_allclose(matrix, reference, atol=1e-9)


def parity(x: Any) -> Any:
    qml.RX(x, 0)
    qml.cond(qml.pauli_measure("ZZ", [0, 1]), qml.X)(1)
    return qml.expval(qml.Z(1))


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit", "reference.qubit"])
def test_value_and_derivative(name: str) -> None:
    qnode = qml.QNode(parity, qml.device(name, wires=2))
    found = bellhop.qjit(bellhop.value_and_grad(qnode))(0.4)
    np.testing.assert_allclose(found, [np.cos(0.4), -np.sin(0.4)], atol=1e-9)


def test_with_shots() -> None:
    qnode = qml.set_shots(qml.QNode(parity, qml.device("lightning.qubit", wires=2)), 2000)
    np.testing.assert_allclose(bellhop.qjit(qnode, seed=1)(0.4), np.cos(0.4), atol=0.06)


def test_another_postselection() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit() -> Any:
        qml.pauli_measure("ZZ", [0, 1], postselect=2)
        return qml.expval(qml.Z(1))

    with pytest.raises(bellhop.CompileError, match="expected postselect to be 0, 1 or None, got 2"):
        bellhop.qjit(circuit)()
