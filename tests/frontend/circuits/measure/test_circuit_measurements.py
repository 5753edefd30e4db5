"""What a quantum function may measure and return, and in which structure."""

from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest

import bellhop


def prepare(x: Any) -> None:
    for wire in range(4):
        qml.RY(x + 0.4 * wire, wires=wire)
        qml.RZ(0.7 - 0.2 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


@pytest.mark.parametrize("wires", [None, [0], [3], [0, 1], [2, 0], [3, 1, 0], [3, 2, 1, 0]])
def test_probabilities_of_wires_in_order(compare: Any, wires: Any) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return qml.probs(wires=wires)

    compare(circuit, 0.3)


def test_state(compare: Any) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return qml.state()

    compare(circuit, 0.3)


def test_several_kinds_at_once(compare: Any) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return (
            qml.expval(qml.X(0)),
            qml.var(qml.Z(1)),
            qml.probs(wires=[2, 1]),
            qml.state(),
            qml.expval(qml.X(0)),
            qml.var(qml.X(1) @ qml.Z(2)),
            qml.probs(),
        )

    compare(circuit, 0.3)


def test_without_gates(compare: Any) -> None:
    compare(lambda: (qml.expval(qml.Z(0)), qml.probs(wires=[0, 1])))


STRUCTURES = {
    "bare": lambda a, b, c: a,
    "tuple": lambda a, b, c: (a, b),
    "tuple of one": lambda a, b, c: (a,),
    "list": lambda a, b, c: [a, b, c],
    "dict": lambda a, b, c: {"z": a, "a": b},
    "nest": lambda a, b, c: {"one": (a, [b]), "two": c},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_of_the_result_is_that_of_the_function(
    assert_close: Any, lightning: Any, reference: Any, name: str
) -> None:
    makers = (
        lambda: qml.expval(qml.Z(0)),
        lambda: qml.probs(wires=[1]),
        lambda: qml.var(qml.X(2)),
    )

    def values(made: Any) -> Any:
        return jax.tree.map(lambda call: call(), STRUCTURES[name](*made))

    one_by_one = [reference(lambda x, m=make: (prepare(x), m())[1])(0.3) for make in makers]
    ours = lightning(lambda x: (prepare(x), values(makers))[1])
    assert_close(bellhop.qjit(ours)(0.3), STRUCTURES[name](*map(np.asarray, one_by_one)))


def test_a_bare_measurement_is_an_array(lightning: Any) -> None:
    @bellhop.qjit
    def program(x: Any) -> Any:
        value = lightning(lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1])(x)
        assert isinstance(value, jax.Array)
        assert value.shape == ()
        return value + 1

    np.testing.assert_allclose(program(0.3), np.cos(0.3) + 1, atol=1e-12)


@pytest.mark.parametrize("qubits", [1, 2, 11, 12])
def test_few_and_many_qubits(compare: Any, qubits: int) -> None:
    """The runtime measures small and large states by different means."""

    def circuit(x: Any) -> Any:
        for wire in range(qubits):
            qml.RY(x + 0.4 * wire, wires=wire)
        for wire in range(qubits - 1):
            qml.CRX(x, wires=[wire, wire + 1])
        last = qubits - 1
        return (
            qml.expval(qml.Y(last)),
            qml.expval(0.5 * qml.Z(0) + 0.3 * qml.X(last)),
            qml.var(qml.Z(last)),
            qml.probs(wires=[last]),
        )

    compare(circuit, 0.3, wires=qubits)


OPERATORS = {
    "word": lambda: qml.X(0) @ qml.Y(2),
    "hadamard": lambda: qml.Hadamard(1),
    "hermitian": lambda: qml.Hermitian(np.array([[1, 2j], [-2j, 3]]), 1) @ qml.Z(3),
}


@pytest.mark.filterwarnings("ignore:Using qp.probs with a Hermitian")
@pytest.mark.parametrize("name", OPERATORS)
def test_probabilities_of_observables(compare: Any, name: str) -> None:
    """The state is as before afterwards."""

    def circuit(x: Any) -> Any:
        prepare(x)
        made = OPERATORS[name]()
        return qml.probs(op=made), qml.probs(op=qml.Y(3)), qml.expval(qml.X(0)), qml.probs()

    compare(circuit, 0.3)


def test_numbers_beside_measurements(lightning: Any) -> None:
    @bellhop.qjit
    @bellhop.jacobian
    @lightning
    def program(x: Any) -> Any:
        qml.RX(x, wires=0)
        return {"z": qml.expval(qml.Z(0)), "squares": jax.numpy.stack([x, 2 * x]) ** 2}

    np.testing.assert_allclose(program(0.3)["z"], -np.sin(0.3), atol=1e-12)
    np.testing.assert_allclose(program(0.3)["squares"], [0.6, 2.4], atol=1e-12)


DEVICES = ("lightning.qubit", "default.qubit")
ROTATED = {
    "word on an identity": lambda x: qml.Y(1) @ qml.X(0) @ qml.Identity(2),
    "sum": lambda x: qml.X(0) + qml.Z(1),
    "projector": lambda x: qml.Projector([1, 0], wires=[1, 0]),
    "computed": lambda x: x * qml.X(0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROTATED)
def test_probabilities_of_an_observable_are_in_its_own_order(
    assert_close: Any, reference: Any, name: str, device: str
) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return qml.probs(op=ROTATED[name](x)), qml.expval(qml.X(0))

    compiled = qml.QNode(circuit, qml.device(device, wires=4))
    expected = reference(circuit)(0.3)
    assert_close(bellhop.qjit(compiled)(0.3), expected)
    with_shots = bellhop.qjit(qml.set_shots(compiled, 4000), seed=1)(0.3)
    np.testing.assert_allclose(with_shots[0], expected[0], atol=0.05)


@pytest.mark.parametrize("device", DEVICES)
def test_eigenvalues_without_an_observable(assert_close: Any, reference: Any, device: str) -> None:
    """Transforms of PennyLane's make such of what they diagonalise."""
    mp = qml.measurements

    def circuit(x: Any) -> Any:
        prepare(x)
        values = {"eigvals": np.array([1.0, 2.0, 3.0, -1.0]), "wires": qml.wires.Wires([2, 1])}
        return mp.ExpectationMP(**values), mp.VarianceMP(**values)

    compiled = qml.QNode(circuit, qml.device(device, wires=4))
    expected = reference(circuit)(0.3)
    assert_close(bellhop.qjit(compiled)(0.3), tuple(expected))
    with_shots = bellhop.qjit(qml.set_shots(compiled, 4000), seed=1)(0.3)
    np.testing.assert_allclose(with_shots, expected, atol=0.15)


class Overlap(qml.measurements.StateMeasurement):
    """A user's own: how likely the outcome of all zeros is."""

    numeric_type = float

    def shape(self, shots: int | None = None, num_device_wires: int = 0) -> tuple[int, ...]:
        return ()

    def process_state(self, state: Any, wire_order: Any) -> Any:
        return qml.math.abs(state[..., 0]) ** 2


@pytest.mark.parametrize("device", DEVICES)
def test_a_measurement_of_the_user_s_own(assert_close: Any, reference: Any, device: str) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return Overlap()

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=4)))
    assert_close(compiled(0.3), reference(circuit)(0.3))


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_outcome(device: str) -> None:
    circuit = qml.QNode(lambda x: qml.expval(x), qml.device(device, wires=1))
    message = "expval got a traced number in a circuit without"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(circuit)(0.3)
