"""Gates whose parameters are matrices, amplitudes or bits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import unitary_group

import bellhop

UNITARIES = {wires: unitary_group.rvs(2**wires, random_state=wires) for wires in (1, 2, 3)}
AMPLITUDES = np.array([0.5, 0.1j, -0.7, 0.5 + 0.1j]) / np.sqrt(1.01)


def prepare() -> None:
    for wire in range(4):
        qml.RY(0.3 + 0.4 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


@pytest.mark.parametrize("wires", UNITARIES)
@pytest.mark.parametrize("traced", [False, True])
def test_unitary(compare: Any, wires: int, traced: bool) -> None:
    def circuit(matrix: Any) -> Any:
        prepare()
        gate = lambda: qml.QubitUnitary(matrix if traced else UNITARIES[wires], wires=range(wires))
        gate()
        qml.RX(0.3, wires=0)
        qml.adjoint(gate)()
        prepare()
        qml.ctrl(gate, control=3, control_values=0)()
        qml.RX(0.3, wires=0)
        qml.adjoint(qml.ctrl(gate, control=3))()
        return qml.state()

    compare(circuit, UNITARIES[wires])


@pytest.mark.parametrize("wires", [[0, 1], [2, 0]])
def test_state_preparation_of_constants(compare: Any, wires: list[int]) -> None:
    def circuit() -> Any:
        qml.StatePrep(AMPLITUDES, wires=wires)
        qml.RX(0.3, wires=2)
        return qml.state()

    compare(circuit)


def test_state_preparation_of_tracers(compare: Any) -> None:
    def circuit(amplitudes: Any) -> Any:
        qml.StatePrep(amplitudes, wires=[2, 0])
        qml.CNOT(wires=[0, 1])
        return qml.state()

    compare(circuit, AMPLITUDES)


def test_state_preparation_normalizes_and_pads(compare: Any) -> None:
    def circuit(amplitudes: Any) -> Any:
        qml.AmplitudeEmbedding(amplitudes, wires=[0, 1], normalize=True, pad_with=0.5)
        return qml.state()

    compare(circuit, np.array([1.0, 2.0, 3.0]))


def test_state_preparation_after_gates_is_decomposed(compare: Any) -> None:
    def circuit() -> Any:
        qml.Hadamard(3)
        qml.StatePrep(AMPLITUDES, wires=[0, 1])
        return qml.state()

    compare(circuit)


def test_state_preparation_in_a_loop_is_decomposed(assert_close: Any, lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, 1)
        def prepare(_: Any) -> None:
            qml.StatePrep(AMPLITUDES, wires=[0, 1])

        prepare()
        qml.RX(x, wires=0)
        return qml.probs(wires=[0, 1])

    @qml.qnode(qml.device("default.qubit", wires=4))
    def expected(x: Any) -> Any:
        qml.StatePrep(AMPLITUDES, wires=[0, 1])
        qml.RX(x, wires=0)
        return qml.probs(wires=[0, 1])

    assert_close(bellhop.qjit(lightning(circuit))(0.3), expected(0.3))


@pytest.mark.parametrize("bits", [[1, 0, 1], [0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize("first", [True, False])
def test_basis_state(compare: Any, bits: list[int], first: bool) -> None:
    def circuit(x: Any) -> Any:
        if not first:
            qml.RX(x, wires=3)
        qml.BasisState(np.array(bits), wires=[2, 0, 1])
        qml.RY(x, wires=2)
        return qml.state()

    compare(circuit, 0.3)


@pytest.mark.parametrize("first", [True, False])
def test_basis_state_of_tracers(
    assert_close: Any, lightning: Any, reference: Any, first: bool
) -> None:
    def circuit(bits: Any) -> Any:
        if not first:
            qml.RX(0.3, wires=3)
        qml.BasisState(bits, wires=[2, 0, 1])
        return qml.state()

    bits = np.array([1, 0, 1])
    actual = bellhop.qjit(lightning(circuit))(jnp.array(bits))
    assert_close(actual, reference(circuit)(bits))


def test_derivative_beside_a_traced_matrix(assert_close: Any, lightning: Any) -> None:
    def circuit(matrix: Any, x: Any) -> Any:
        qml.RX(x, wires=0)
        qml.QubitUnitary(matrix, wires=[0, 1, 2])
        qml.RY(2 * x, wires=1)
        return qml.expval(qml.Z(0) @ qml.X(1))

    ours = bellhop.qjit(bellhop.grad(lightning(circuit), argnums=1))
    theirs = jax.jit(jax.grad(qml.QNode(circuit, qml.device("default.qubit")), argnums=1))
    assert_close(ours(UNITARIES[3], 0.4), theirs(UNITARIES[3], 0.4))


def test_derivative_beside_traced_amplitudes(assert_close: Any, lightning: Any) -> None:
    def circuit(amplitudes: Any, x: Any) -> Any:
        qml.StatePrep(amplitudes, wires=[0, 1])
        qml.RY(2 * x, wires=1)
        return qml.expval(qml.Z(0) @ qml.X(1))

    ours = bellhop.qjit(bellhop.grad(lightning(circuit), argnums=1))
    theirs = jax.jit(jax.grad(qml.QNode(circuit, qml.device("default.qubit")), argnums=1))
    assert_close(ours(AMPLITUDES, 0.4), theirs(AMPLITUDES, 0.4))


@pytest.mark.large
def test_derivative_by_a_matrix_of_one_wire(assert_close: Any, lightning: Any) -> None:
    generator = UNITARIES[1] + UNITARIES[1].conj().T

    def circuit(x: Any) -> Any:
        prepare()
        qml.QubitUnitary(jax.scipy.linalg.expm(1j * x * generator), wires=0)
        qml.RY(0.4, wires=1)
        return qml.expval(qml.Z(0) @ qml.X(1))

    ours = bellhop.qjit(bellhop.grad(lightning(circuit)))
    theirs = jax.jit(jax.jacfwd(qml.QNode(circuit, qml.device("default.qubit"))))
    assert_close(ours(0.4), theirs(0.4))
