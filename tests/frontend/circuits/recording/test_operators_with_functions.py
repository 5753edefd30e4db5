"""Operators that hold functions, which use values of the program around them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.gates.traced_operators import TracedOperator

DEVICES = ["lightning.qubit", "default.qubit", "default.mixed", "reference.qubit"]
X = 0.3


class Rotated(qml.operation.Operation):
    """RX by an angle that a function says, and RY."""

    num_wires = 1

    def __init__(self, angle: Callable[[], Any], wires: Any) -> None:
        self._hyperparameters = {"angle": angle}
        super().__init__(wires=wires)

    @staticmethod
    def compute_decomposition(*_: Any, wires: Any, angle: Callable[[], Any]) -> list[Any]:
        return [qml.RX(angle(), wires), qml.RY(0.4, wires)]


class OfMatrix(qml.operation.Operation):
    """The matrix that a function says."""

    num_wires = 1

    def __init__(self, matrix: Callable[[], Any], wires: Any) -> None:
        self._hyperparameters = {"matrix": matrix}
        super().__init__(wires=wires)

    @staticmethod
    def compute_matrix(*_: Any, matrix: Callable[[], Any]) -> Any:
        return matrix()


class Angle:
    """Twice a number, in an attribute."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __call__(self) -> Any:
        return 2 * self.x

    def said(self) -> Any:
        return 2 * self.x


def block_of(x: Any) -> Callable[..., None]:
    def block(weights: Any, wires: Any) -> None:
        qml.RY(weights[0] * x, wires[0])
        qml.CNOT(wires)

    return block


def block_with_a_loop(x: Any) -> Callable[..., None]:
    def block(weights: Any, wires: Any) -> None:
        bellhop.for_loop(0, 3)(lambda i: qml.RY(weights[0] * x * i, wires[0]) and None)()
        bellhop.cond(x > 0, lambda: qml.RX(x, wires[1]) and None, lambda: None)()
        qml.CNOT(wires)

    return block


def countdown(x: Any) -> Callable[[], Any]:
    def angle(n: int = 2) -> Any:
        return x + angle(n - 1) if n else 0.0

    return angle


def _trotterized(x: Any) -> None:
    def step(time: Any, wires: Any) -> None:
        qml.RX(time * x, wires[0])
        qml.CRY(time, wires)

    qml.trotterize(step, n=2, order=2)(0.7, [0, 1])


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "TTN": lambda x: qml.TTN(range(4), 2, block_of(x), 1, [[1.0]] * 3),
    "MERA": lambda x: qml.MERA(range(4), 2, block_of(x), 1, [[1.0]] * 5),
    "MPS": lambda x: qml.MPS(range(3), 2, block_of(x), 1, [[1.0]] * 2),
    "loop in a block": lambda x: qml.TTN(range(4), 2, block_with_a_loop(x), 1, [[1.0]] * 3),
    "trotterized": _trotterized,
    "function": lambda x: Rotated(lambda: 2 * x, 0),
    "default argument": lambda x: Rotated(lambda y=x: 2 * y, 0),
    "partial": lambda x: Rotated(functools.partial(lambda y: 2 * y, x), 0),
    "object": lambda x: Rotated(Angle(x), 0),
    "method": lambda x: Rotated(Angle(x).said, 0),
    "recursive": lambda x: Rotated(countdown(x), 0),
    "matrix": lambda x: OfMatrix(lambda: qml.RX.compute_matrix(2 * x), 0),
    "function in a list": lambda x: Rotated([lambda: 2 * x][0], 0),
    "adjoint": lambda x: qml.adjoint(Rotated(lambda: 2 * x, 0)),
    "adjoint of a function": lambda x: qml.adjoint(lambda: Rotated(lambda: 2 * x, 0))(),
    "control": lambda x: (qml.H(1), qml.ctrl(Rotated(lambda: 2 * x, 0), 1)),
    "control of an adjoint": lambda x: (
        qml.H(1),
        qml.ctrl(qml.adjoint(Rotated(lambda: 2 * x, 0)), 1, control_values=[0]),
    ),
    "power": lambda x: qml.pow(Rotated(lambda: 2 * x, 0), 3),
    "product": lambda x: qml.prod(Rotated(lambda: 2 * x, 0), qml.X(1)),
    "control of a template": lambda x: qml.ctrl(qml.TTN([0, 1], 2, block_of(x), 1, [[1.0]]), 2),
    "part of an operator": lambda x: qml.Select(
        [Rotated(lambda: 2 * x, 0), Rotated(lambda: 3 * x, 0)], control=1
    ),
    "for_loop": lambda x: bellhop.for_loop(0, 3)(lambda i: Rotated(lambda: i * x, 0) and None)(),
    "cond": lambda x: bellhop.cond(
        x > 0.1, lambda: Rotated(lambda: 2 * x, 0) and None, lambda: None
    )(),
}


def circuit_of(operator: Callable[[Any], Any], device: str, **options: Any) -> Any:
    @qml.qnode(qml.device(device, wires=4), **options)
    def circuit(x: Any) -> Any:
        qml.RX(0.2, 0)
        operator(x)
        return qml.expval(qml.Z(0)), qml.probs(wires=range(4))

    return circuit


def of_pennylane(operator: Callable[[Any], Any], x: Any) -> Any:
    return np.hstack(circuit_of(operator, "default.qubit")(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_functions_of_operators_use_values_of_the_program(
    operator: Callable[[Any], Any], device: str
) -> None:
    got = bellhop.qjit(circuit_of(operator, device))(X)
    np.testing.assert_allclose(np.hstack(got), of_pennylane(operator, X), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_functions_of_operators_are_differentiated_and_batched(device: str) -> None:
    circuit = circuit_of(lambda x: qml.TTN([0, 1], 2, block_of(x), 1, [[1.5]]), device)
    xs = np.array([0.3, -0.8])
    mean = lambda x: circuit(x)[0]
    got = bellhop.qjit(jax.vmap(bellhop.value_and_grad(mean)))(xs)
    # The mean of Z after rotations by a and b about two axes is the product of cosines.
    expected = np.cos(0.2) * np.cos(1.5 * xs), -1.5 * np.cos(0.2) * np.sin(1.5 * xs)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_functions_of_operators_stand_in_branches_and_adjoints_of_loops() -> None:
    def quantum_function(x: Any) -> None:
        def body(i: Any) -> None:
            Rotated(lambda: i * x, 0)
            bellhop.cond(i > 0, lambda: Rotated(lambda: x / i, 1) and None, lambda: None)()

        bellhop.for_loop(0, 3)(body)()

    circuit = circuit_of(lambda x: bellhop.adjoint(quantum_function)(x), "lightning.qubit")

    def theirs(x: Any) -> None:
        for i in reversed(range(3)):
            if i > 0:
                qml.adjoint(Rotated(lambda i=i: x / i, 1))
            qml.adjoint(Rotated(lambda i=i: i * x, 0))

    got = np.hstack(bellhop.qjit(circuit)(X))
    np.testing.assert_allclose(got, of_pennylane(theirs, X), atol=1e-10)


def test_functions_of_operators_act_on_their_own_row_of_a_batch() -> None:
    circuit = circuit_of(OPERATORS["function"], "lightning.qubit")
    xs = np.array([0.3, -0.8, 1.1])
    means, _ = bellhop.qjit(circuit)(xs)
    expected = [of_pennylane(OPERATORS["function"], x)[0] for x in xs]
    np.testing.assert_allclose(means, expected, atol=1e-10)


def test_operators_whose_functions_use_no_values_stay_whole() -> None:
    whole = qml.TTN(range(2), 2, block_of(0.5), 1, [[1.0]])
    [kept] = TracedOperator.decompose_functions(whole, "here")
    assert kept is whole


def test_functions_that_ask_for_numbers_name_the_operator() -> None:
    operator = lambda x: Rotated(lambda: 0.1 if x > 0 else 0.2, 0)
    with pytest.raises(
        bellhop.CompileError, match=r"the decomposition of Rotated depends on a traced value"
    ):
        bellhop.qjit(circuit_of(operator, "lightning.qubit"))(X)


class Tilted(qml.X):
    """A Pauli to PennyLane's arithmetic, which holds a number that PennyLane does not know of."""

    has_matrix = False

    def __init__(self, angle, wires):
        super().__init__(wires)
        self.angle = angle

    def decomposition(self):
        return [qml.RX(self.angle, self.wires)]


def test_a_product_of_words_with_one_of_the_users():
    @qml.qnode(qml.device("default.mixed", wires=2))
    def circuit(x):
        qml.prod(Tilted(x, 0), qml.Y(1))
        return qml.expval(qml.Z(0))

    assert bellhop.qjit(circuit)(0.3) == pytest.approx(np.cos(0.3), abs=1e-12)
