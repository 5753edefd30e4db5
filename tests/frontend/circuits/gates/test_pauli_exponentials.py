"""Exponentials of Pauli words, alone and as the steps of a time evolution."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import gate_count

import bellhop
from bellhop.circuits.backends.compiled.record import gates
from bellhop.circuits.gates.decompositions import decompose

X = [0.37, -1.21, 0.83]

# Words, and their gates: Lightning differentiates rotations by Z alone where there are several.
WORDS: dict[str, tuple[Any, int]] = {
    "I": (qml.Identity(1), 1),
    "Y": (qml.Y(2), 1),
    "ZZ": (qml.Z(2) @ qml.Z(0), 1),
    "XY": (qml.X(3) @ qml.Y(1), 5),
    "ZZZ": (qml.Z(0) @ qml.Z(3) @ qml.Z(1), 1),
    "XIYZ": (qml.prod(qml.X(0), qml.Identity(1), qml.Y(2), qml.Z(3)), 5),
    "product on one wire": (qml.prod(qml.X(0), qml.Z(1), qml.X(0), qml.Y(2)), 3),
    "scaled": (0.5 * (3 * qml.X(1) @ qml.X(2)), 1),
    "sum of one": (qml.Hamiltonian([0.7], [qml.Y(1) @ qml.Y(3)]), 1),
}


def _prepare() -> None:
    for wire in range(4):
        qml.RY(0.3 + 0.4 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


@pytest.mark.parametrize("name", WORDS)
def test_exponential_of_a_word_is_a_rotation(compare: Any, lightning: Any, name: str) -> None:
    word, count = WORDS[name]

    def circuit(x: Any) -> Any:
        _prepare()
        qml.exp(word, 0.3j)
        qml.exp(word, -1j * x[0])
        qml.evolve(word, 0.4)
        qml.ctrl(qml.evolve(word, x[1]), 4)
        qml.adjoint(qml.exp(word, 1j * x[2]))
        return qml.state()

    compare(circuit, X, wires=5)
    rotations = bellhop.qjit(lightning(lambda x: (qml.exp(word, 1j * x), qml.state())[1]))
    rotations(0.3)
    assert gate_count(rotations) == count


def test_exponential_of_a_computed_real_number_is_its_matrix(compare: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        qml.exp(qml.Z(0) @ qml.Z(1), x)
        return qml.state()

    compare(circuit, 0.3, wires=2)


def _hamiltonian(a: Any, b: Any) -> Any:
    # PennyLane leaves it on the queue where an operation does not take it.
    with qml.QueuingManager.stop_recording():
        words = [qml.Z(0) @ qml.Z(1), qml.X(0) @ qml.Y(2), qml.X(1), qml.Z(3)]
        return qml.dot([a, 0.7, b, 0.3], words)


STEPS: dict[str, Callable[..., Any]] = {
    "second order": lambda h, t: qml.TrotterProduct(h, t, n=2, order=2),
    "fourth order": lambda h, t: qml.TrotterProduct(h, t, n=1, order=4),
    "inverse": lambda h, t: qml.adjoint(qml.TrotterProduct(h, t, n=2)),
    "controlled": lambda h, t: qml.ctrl(qml.TrotterProduct(h, t, n=2), 4),
    "inverse controlled": lambda h, t: qml.ctrl(
        qml.adjoint(qml.TrotterProduct(h, t, n=2)), [4], [0]
    ),
    "of a function": lambda h, t: qml.trotterize(_one_step, n=3, order=2)(t, 0.4, [0, 1]),
    "approximate": lambda h, t: qml.ApproxTimeEvolution(h, t, 3),
    "drifting": lambda h, t: qml.QDrift(h, t, n=5, seed=7),
}


def _one_step(time: Any, angle: Any, wires: Any) -> None:
    qml.RX(time * angle, wires[0])
    qml.evolve(qml.Z(wires[0]) @ qml.Z(wires[1]), time)


@pytest.mark.parametrize("name", STEPS)
def test_time_evolution(compare_derivative: Any, name: str) -> None:
    """By the time, and by the coefficients where PennyLane differentiates by them."""
    has_coefficients = name != "drifting"

    def circuit(t: Any, a: Any, b: Any) -> Any:
        _prepare()
        qml.Hadamard(4)
        STEPS[name](_hamiltonian(a, b) if has_coefficients else _hamiltonian(0.4, 0.2), t)
        qml.RX(a * b, 2)
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.expval(qml.X(2) @ qml.Z(4))

    compare_derivative(circuit, 0.6, 0.5, -0.4, wires=5)


def test_steps_are_decomposed_once(lightning: Any, monkeypatch: Any) -> None:
    """A step is all that is decomposed, however many there are."""
    decomposed: list[str] = []

    def counted(op: Any, depth: int, into: Any = None) -> Any:
        decomposed.append(op.name)
        return decompose(op, depth, into)

    monkeypatch.setattr(gates, "decompose", counted)

    def circuit(t: Any) -> Any:
        qml.TrotterProduct(_hamiltonian(0.2, 0.1), t, n=10, order=2)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(lightning(circuit))
    f(0.3)
    assert gate_count(f) == 160
    assert decomposed.count("Evolution") == 8


def test_sum_that_is_no_word_is_not_split(compare: Any) -> None:
    words = qml.X(0) @ qml.X(1) + 0.4 * qml.Y(1) + 0.3 * qml.Z(2)

    def circuit(x: Any) -> Any:
        _prepare()
        qml.exp(words, -0.2j)
        qml.evolve(words, np.pi * x)
        return qml.state()

    compare(circuit, 0.3)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "default.mixed"])
def test_hamiltonians_of_computed_coefficients_times_a_number(device):
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x):
        with qml.QueuingManager.stop_recording():
            hamiltonian = qml.Hamiltonian([0.5, 0.3 * x], [qml.X(0), qml.Z(0) @ qml.X(1)])
            scaled, divided = 0.3 * hamiltonian, hamiltonian / 2
            opposite = -hamiltonian
        qml.TrotterProduct(scaled, 2.0, n=2)
        qml.TrotterProduct(opposite, 0.4, n=1)
        return qml.expval(divided), qml.probs([0, 1])

    for value, expected in zip(bellhop.qjit(circuit)(0.7), circuit(0.7), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-9)
