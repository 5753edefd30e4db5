"""Gates of many numbers: states, matrices and diagonals that are arrays of the program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

# Larger than a tile of the engine, so that operations go through the whole state.
QUBITS = 12


def _draw(size: int) -> np.ndarray:
    draw = np.random.default_rng(size)
    amplitudes = draw.normal(size=size) + 1j * draw.normal(size=size)
    return amplitudes / np.linalg.norm(amplitudes)


def _prepare(n: int, wires: Any, **options: Any) -> Any:
    @qml.qnode(qml.device("lightning.qubit", wires=n, **options))
    def circuit(amplitudes: Any) -> Any:
        qml.StatePrep(amplitudes, wires=wires, validate_norm=False)
        qml.CNOT([0, 1])
        return qml.expval(qml.X(n - 1))

    return circuit


def _x_on_last(amplitudes: np.ndarray) -> np.ndarray:
    return amplitudes.reshape(-1, 2)[:, ::-1].reshape(-1)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.float64, np.float32])
def test_amplitudes_of_any_type_reach_the_state(dtype: Any) -> None:
    is_single = dtype in (np.complex64, np.float32)
    is_real = dtype in (np.float64, np.float32)
    drawn = _draw(2**QUBITS)
    amplitudes = (drawn.real if is_real else drawn).astype(dtype)
    run = bellhop.qjit(_prepare(QUBITS, range(QUBITS)))
    expected = np.vdot(amplitudes, _x_on_last(amplitudes)).real
    assert np.allclose(run(jnp.asarray(amplitudes)), expected, atol=1e-6 if is_single else 1e-12)


@pytest.mark.parametrize("n", [3, QUBITS])
def test_derivatives_by_amplitudes(n: int) -> None:
    amplitudes = _draw(2**n)
    circuit = _prepare(n, range(n))
    by_complex = bellhop.qjit(jax.grad(circuit))(jnp.asarray(amplitudes))
    # JAX's gradient is the conjugate.
    assert np.allclose(by_complex, np.conj(2 * _x_on_last(amplitudes)), atol=1e-12)
    real = jnp.asarray(amplitudes.real)
    by_real = bellhop.qjit(jax.grad(circuit))(real)
    assert np.allclose(by_real, 2 * _x_on_last(np.asarray(real)), atol=1e-12)
    hessian_row = bellhop.qjit(jax.jvp, static_argnums=0)(
        jax.grad(circuit), (real,), (jnp.ones_like(real),)
    )[1]
    assert np.allclose(hessian_row, 2.0, atol=1e-12)


def test_amplitudes_of_some_wires_in_any_order() -> None:
    amplitudes, wires = _draw(8), (7, 0, QUBITS - 1)
    value = bellhop.qjit(_prepare(QUBITS, wires))(jnp.asarray(amplitudes))
    assert np.allclose(value, np.vdot(amplitudes, _x_on_last(amplitudes)).real)


def test_batches_of_amplitudes() -> None:
    rows = np.stack([_draw(2**QUBITS), np.roll(_draw(2**QUBITS), 1)])
    values = bellhop.qjit(jax.vmap(_prepare(QUBITS, range(QUBITS))))(jnp.asarray(rows))
    assert np.allclose(values, [np.vdot(row, _x_on_last(row)).real for row in rows])


def test_constant_amplitudes_are_an_operand() -> None:
    amplitudes = _draw(2**QUBITS)
    circuit = _prepare(QUBITS, range(QUBITS))
    run = bellhop.qjit(lambda: circuit(amplitudes))
    assert np.allclose(run(), np.vdot(amplitudes, _x_on_last(amplitudes)).real)


@pytest.mark.parametrize("shots", [None, 200])
def test_amplitudes_before_a_measurement_in_the_middle(shots: int | None) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=QUBITS), shots=shots)
    def circuit(amplitudes: Any) -> Any:
        qml.StatePrep(amplitudes, wires=range(QUBITS))
        bellhop.measure(0)
        return qml.expval(qml.Z(0))

    amplitudes = np.zeros(2**QUBITS, np.complex64)
    amplitudes[-1] = 1j
    assert np.allclose(bellhop.qjit(circuit)(jnp.asarray(amplitudes)), -1.0)


_NEXT: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "a tile in one piece": lambda: qml.RY(0.3, QUBITS - 1),
    "a tile in many pieces": lambda: qml.RY(0.3, 0),
    "an operation on the whole state": lambda: qml.QubitUnitary(
        np.linalg.qr(np.arange(64.0**2).reshape(64, 64) ** 2 % 7)[0], wires=range(3, 9)
    ),
    "an outcome": lambda: bellhop.measure(0, postselect=1),
}


@pytest.mark.parametrize("read_by", _NEXT)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_the_next_operation_writes_the_amplitudes(read_by: str, precision: str) -> None:
    def circuit(amplitudes: Any) -> Any:
        qml.StatePrep(amplitudes, wires=range(QUBITS))
        _NEXT[read_by]()
        qml.CNOT([QUBITS - 1, 0])
        return qml.probs()

    device = qml.device("lightning.qubit", wires=QUBITS)
    run = bellhop.qjit(qml.QNode(circuit, device), precision=precision)
    amplitudes = _draw(2**QUBITS)
    expected = np.abs(amplitudes) ** 2
    if read_by == "an outcome":
        expected = np.where(np.arange(2**QUBITS) < 2 ** (QUBITS - 1), 0, expected)
        expected = expected / expected.sum()
        expected[1::2] = np.roll(expected[1::2], 2 ** (QUBITS - 2))
    else:
        expected = qml.QNode(circuit, qml.device("default.qubit", wires=QUBITS))(amplitudes)
    for given in (amplitudes, amplitudes.astype(np.complex64)):
        # Again, with memory that holds the state of the call before.
        for _ in range(2):
            assert np.allclose(run(jnp.asarray(given)), expected, rtol=1e-5, atol=1e-10)


def test_the_table_of_gates_does_not_grow_with_the_amplitudes() -> None:
    def code(n: int) -> str:
        run = bellhop.qjit(_prepare(n, range(n)))
        run(jnp.asarray(_draw(2**n)))
        (line,) = [line for line in run.mlir_opt.splitlines() if 'names = "StatePrep' in line]
        return line

    assert len(code(10)) < len(code(3)) + 100


def _phases(n_wires: int) -> np.ndarray:
    return np.random.default_rng(n_wires).uniform(-1, 1, 2**n_wires)


def _diagonal(n: int, wires: Any, **options: Any) -> Any:
    @qml.qnode(qml.device("lightning.qubit", wires=n), **options)
    def circuit(phases: Any) -> Any:
        for wire in range(n):
            qml.RY(0.3 + wire, wire)
        qml.DiagonalQubitUnitary(jnp.exp(1j * phases), wires=wires)
        qml.RX(0.4, wires[0])
        qml.adjoint(qml.DiagonalQubitUnitary(jnp.exp(2j * phases), wires=wires))
        return qml.expval(qml.X(wires[0]) @ qml.Y(wires[1]))

    return circuit


def _dense_diagonal(n: int, wires: Any, phases: Any) -> Any:
    """Compute the same by matrices in JAX."""
    at = lambda op: jnp.asarray(qml.matrix(op, wire_order=range(n)))
    index = np.arange(2**n)
    places = sum(
        ((index >> (n - 1 - wire)) & 1) << (len(wires) - 1 - place)
        for place, wire in enumerate(wires)
    )
    state = at(qml.prod(*(qml.RY(0.3 + wire, wire) for wire in range(n))))[:, 0]
    state = at(qml.RX(0.4, wires[0])) @ (jnp.exp(1j * phases)[places] * state)
    state = jnp.exp(-2j * phases)[places] * state
    return jnp.vdot(state, at(qml.X(wires[0]) @ qml.Y(wires[1])) @ state).real


def test_derivatives_of_any_order_by_a_diagonal() -> None:
    wires, phases = (4, 1, 0, 2), jnp.asarray(_phases(4))
    circuit = _diagonal(5, wires)
    dense = lambda phases: _dense_diagonal(5, wires, phases)
    assert np.allclose(bellhop.qjit(circuit)(phases), dense(phases))
    gradient = bellhop.qjit(jax.grad(circuit))(phases)
    assert np.allclose(gradient, jax.grad(dense)(phases), atol=1e-12)
    hessian = bellhop.qjit(jax.hessian(circuit))(phases)
    assert np.allclose(hessian, jax.hessian(dense)(phases), atol=1e-10)


def test_a_diagonal_by_shifts_and_in_batches() -> None:
    wires, phases = (0, 1, 2, 3), jnp.asarray(_phases(4))
    by_shifts = bellhop.qjit(jax.grad(_diagonal(4, wires, diff_method="parameter-shift")))(phases)
    gradient = jax.grad(lambda phases: _dense_diagonal(4, wires, phases))
    assert np.allclose(by_shifts, gradient(phases), atol=1e-10)
    rows = jnp.stack([phases, 2 * phases, -phases])
    of_rows = bellhop.qjit(jax.vmap(jax.grad(_diagonal(4, wires))))(rows)
    assert np.allclose(of_rows, jax.vmap(gradient)(rows), atol=1e-12)


def test_a_diagonal_with_controls_in_a_loop() -> None:
    phases = _phases(4)

    def circuit(of: Any) -> Any:
        @qml.qnode(qml.device("lightning.qubit", wires=6))
        def run() -> Any:
            for wire in range(6):
                qml.Hadamard(wire)

            @bellhop.for_loop(0, 3)
            def _(i: Any) -> None:
                diagonal = qml.DiagonalQubitUnitary(of(1j * phases), wires=[5, 1, 2, 3])
                qml.ctrl(diagonal, control=[0, 4], control_values=[1, 0])

            _()
            return qml.expval(qml.X(0) @ qml.Y(4))

        return run

    constant = bellhop.qjit(circuit(np.exp))()
    matrix = np.diag(np.exp(3j * phases))
    place = qml.ctrl(
        qml.QubitUnitary(matrix, wires=[5, 1, 2, 3]), control=[0, 4], control_values=[1, 0]
    )
    state = qml.matrix(place, wire_order=range(6)) @ np.full(64, 0.125)
    observable = qml.matrix(qml.X(0) @ qml.Y(4), wire_order=range(6))
    expected = np.vdot(state, observable @ state).real
    assert np.allclose(constant, expected)
    assert np.allclose(bellhop.qjit(lambda: circuit(jnp.exp)())(), expected)


@pytest.mark.parametrize("n", [7, QUBITS])
def test_matrices_on_many_wires(n: int) -> None:
    wires = (n - 1, 0, 3, 2, 5, 1)
    draw = np.random.default_rng(5)
    matrix, _ = np.linalg.qr(draw.normal(size=(64, 64)) + 1j * draw.normal(size=(64, 64)))

    @qml.qnode(qml.device("lightning.qubit", wires=n))
    def circuit(matrix: Any, angle: Any) -> Any:
        qml.RY(angle, 0)
        qml.QubitUnitary(matrix, wires=wires)
        qml.RX(angle, 3)
        qml.adjoint(qml.QubitUnitary(matrix, wires=wires))
        qml.ctrl(qml.QubitUnitary(matrix, wires=wires), control=4, control_values=0)
        return qml.expval(qml.Z(0) @ qml.Y(3))

    # All other wires stay zero.
    dense = lambda op: qml.matrix(op, wire_order=wires)

    def expected(angle: float) -> Any:
        state = matrix.conj().T @ dense(qml.RX(angle, 3)) @ matrix @ dense(qml.RY(angle, 0))[:, 0]
        state = matrix @ state
        return np.vdot(state, dense(qml.Z(0) @ qml.Y(3)) @ state).real

    assert np.allclose(bellhop.qjit(circuit)(jnp.asarray(matrix), 0.3), expected(0.3))
    constant = lambda angle: circuit(matrix, angle)
    by_angle = bellhop.qjit(jax.grad(constant))(0.3)
    assert np.allclose(by_angle, (expected(0.3 + 1e-5) - expected(0.3 - 1e-5)) / 2e-5, atol=1e-8)
