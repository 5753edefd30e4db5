"""Matrices that are not unitary: values and derivatives are PennyLane's, uncompiled."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.gates.real_imag_inference import NonzeroParts, find_nonzero_parts

CONSTANT = np.array([[1, 0.3], [0.2, -0.4 + 0.5j]])
TWO_WIRES = np.arange(16).reshape(4, 4) / 10 + np.eye(4)

GATES: dict[str, Callable[[Any], Any]] = {
    "of one wire": lambda x: qml.QubitUnitary(jnp.diag(jnp.array([0.5, 0])) * x, 0),
    "of two wires": lambda x: qml.QubitUnitary(x * TWO_WIRES, [1, 0]),
    "constant": lambda _: qml.QubitUnitary(CONSTANT, 0),
    "adjoint": lambda x: qml.adjoint(qml.QubitUnitary(x * CONSTANT, 0)),
    "controlled": lambda x: qml.ctrl(qml.QubitUnitary(x * CONSTANT, 0), [1, 2], [0, 1]),
    "power": lambda x: qml.pow(qml.QubitUnitary(x * CONSTANT, 0), 2),
    "inverse": lambda x: qml.pow(qml.QubitUnitary(x * CONSTANT, 0), -1),
    "product": lambda x: qml.prod(qml.RX(x, 1), qml.QubitUnitary(x * CONSTANT, 0)),
    "selected": lambda x: qml.Select([qml.QubitUnitary(x * CONSTANT, 1), qml.X(1)], control=0),
    "damping": lambda x: qml.exp(qml.X(0) @ qml.Z(1), (0.1 + 0.5j) * x),
}

# PennyLane applies their matrices on default.qubit alone.
OF_COMPLEX_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "rotation": lambda x: qml.RX(1j * x, 0),
    "constant": lambda _: qml.RX(0.2 + 0.3j, 0),
    "adjoint": lambda x: qml.adjoint(qml.Rot(1j * x, x, 0.3, 0)),
    "controlled": lambda x: qml.ctrl(qml.RY(1j * x, 0), 2),
    "phase of no wire": lambda x: qml.GlobalPhase(1j * x),
}


def circuit_with(gate: Callable[[Any], Any], device: str, **options: Any) -> Any:
    @qml.qnode(qml.device(device, wires=3), **options)
    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        qml.RX(x, 1)
        qml.CNOT([1, 2])
        gate(x)
        qml.RY(x, 0)
        return qml.expval(qml.Z(0) @ qml.Z(1)), qml.probs(wires=[0]), qml.state()

    return circuit


def flat(results: Any) -> Any:
    *means, state = results
    return jnp.concatenate(list(map(jnp.ravel, (*means, jnp.real(state), jnp.imag(state)))))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_values(gate: Callable[[Any], Any], device: str) -> None:
    expected = flat(circuit_with(gate, "default.qubit")(0.7))
    compiled = bellhop.qjit(circuit_with(gate, device))
    np.testing.assert_allclose(flat(compiled(0.7)), expected, atol=1e-9)


@pytest.mark.parametrize("gate", OF_COMPLEX_NUMBERS.values(), ids=OF_COMPLEX_NUMBERS)
def test_gates_of_complex_numbers(gate: Callable[[Any], Any]) -> None:
    test_values(gate, "default.qubit")


@pytest.mark.large
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_derivatives(gate: Callable[[Any], Any], device: str) -> None:
    circuit = circuit_with(gate, device)
    alone = lambda x: np.asarray(flat(circuit_with(gate, "default.qubit")(x)))
    slope = bellhop.qjit(jax.jacobian(lambda x: flat(circuit(x))))(0.7)
    np.testing.assert_allclose(slope, (alone(0.70001) - alone(0.69999)) / 2e-5, atol=1e-7)


@pytest.mark.large
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_derivatives_of_higher_order_and_of_batches(device: str) -> None:
    loss = lambda x: circuit_with(GATES["of one wire"], device)(x)[0]
    points = jnp.array([0.3, 0.7])
    seconds = bellhop.qjit(jax.vmap(jax.grad(jax.grad(loss))))(points)
    slope = bellhop.qjit(jax.grad(loss))
    expected = [(slope(x + 1e-5) - slope(x - 1e-5)) / 2e-5 for x in points]
    np.testing.assert_allclose(seconds, expected, atol=1e-8)


def test_what_the_program_around_computes_is_differentiated_too() -> None:
    def loss(x: Any) -> Any:
        y = jnp.sin(x)

        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit() -> Any:
            qml.RX(y, 0)
            qml.QubitUnitary(y * CONSTANT, 0)
            return qml.expval(qml.Z(0))

        return jax.lax.fori_loop(0, 2, lambda _, total: total + circuit() * y, 0.0)

    compiled = bellhop.qjit(lambda x: (loss(x), jax.grad(loss)(x)))
    (above, _), (below, _), (_, slope) = map(compiled, (0.40001, 0.39999, 0.4))
    np.testing.assert_allclose(slope, (above - below) / 2e-5, atol=1e-8)


def test_derivative_by_other_gates_where_the_matrix_has_effects_beside_it() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        bellhop.io_callback(lambda: None, None)()
        qml.QubitUnitary(CONSTANT, 0)
        return qml.expval(qml.Z(0))

    quiet = qml.QNode(
        lambda x: (qml.RX(x, 0), qml.QubitUnitary(CONSTANT, 0), qml.expval(qml.Z(0)))[2],
        qml.device("default.qubit"),
    )
    expected = (quiet(0.40001) - quiet(0.39999)) / 2e-5
    np.testing.assert_allclose(bellhop.qjit(jax.grad(circuit))(0.4), expected, atol=1e-8)
    by_adjoint = qml.QNode(circuit.func, circuit.device, diff_method="adjoint")
    with pytest.raises(bellhop.CompileError, match="has a QubitUnitary whose matrix is traced or"):
        bellhop.qjit(jax.grad(by_adjoint))(0.4)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_samples_are_drawn_of_unitary_matrices_alone(scale: float) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2), shots=10)
    def circuit(x: Any) -> Any:
        qml.QubitUnitary(x * np.eye(2)[::-1], 0)
        qml.QubitUnitary(x * np.eye(4)[::-1], [0, 1])
        return qml.counts(wires=0)

    compiled = bellhop.qjit(circuit, seed=1)
    if scale == 1:
        assert compiled(scale)[1].tolist() == [10, 0]
    else:
        with pytest.raises(bellhop.CircuitError, match="NaN"):
            compiled(scale)


def test_a_computed_diagonal_that_is_not_unitary_gives_no_number() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        qml.DiagonalQubitUnitary(jnp.array([1, 1j]) * x, 0)
        return qml.expval(qml.Y(0))

    compiled = bellhop.qjit(circuit)
    np.testing.assert_allclose(compiled(1.0), 1)
    assert np.isnan(compiled(0.5))


def test_what_is_known_of_complex_numbers() -> None:
    found: dict[str, NonzeroParts] = {}

    def program(x: Any, z: Any) -> Any:
        numbers = {"1j x": 1j * x, "x": x + 0j, "-1j x y / 2": -1j * x * x.sum() / 2, "z": z}
        numbers |= {"complex": jax.lax.complex(x, x), "sum": 1j * x + x, "1j 1j": 1j * (1j * x)}
        found.update({name: find_nonzero_parts(number) for name, number in numbers.items()})
        return x

    jax.make_jaxpr(program)(jnp.ones(2), 1j * jnp.ones(2))
    real, imaginary, both = (
        NonzeroParts(True, False),
        NonzeroParts(False, True),
        NonzeroParts(True, True),
    )
    assert found == {
        "1j x": imaginary,
        "x": real,
        "-1j x y / 2": imaginary,
        "z": both,
        "complex": both,
        "sum": both,
        "1j 1j": real,
    }


@pytest.mark.parametrize(("argnum", "in_runtime"), [(0, True), (1, False)])
def test_derivatives_are_the_runtimes_where_no_matrix_moves(argnum: int, in_runtime: bool) -> None:
    """Which form is differentiated depends on what moves: a matrix, or angles beside one."""

    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, 0)
        qml.QubitUnitary(qml.RY.compute_matrix(y), 1)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    compiled = bellhop.qjit(bellhop.grad(circuit, argnums=argnum))
    exact = (-np.sin(0.3) * np.cos(0.4), -np.cos(0.3) * np.sin(0.4))
    np.testing.assert_allclose(compiled(0.3, 0.4), exact[argnum], atol=1e-9)
    assert ("quantum.derivative" in compiled.mlir) is in_runtime
