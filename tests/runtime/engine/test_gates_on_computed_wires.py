"""Wires and bits that the program computes are part of what the engine plans."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop_runtime import _runtime

QUBITS = 4
RANDOM = np.random.default_rng(11)
PAIRS = np.array([RANDOM.permutation(QUBITS)[:3] for _ in range(12)])
ANGLES = RANDOM.uniform(-3, 3, (12, 2))


def layers(angles: Any, wires: Any) -> None:
    """Gates of every kind of operation, on computed wires."""

    @bellhop.for_loop(0, len(angles), 1)
    def layer(i: Any) -> None:
        a, b, c = wires[i]
        qml.RX(angles[i, 0], a)
        qml.RY(angles[i, 1], a)
        qml.CNOT([a, b])
        qml.IsingXX(angles[i, 1], [b, c])
        qml.ctrl(qml.RZ, control=a, control_values=0)(angles[i, 0], b)
        qml.QubitUnitary(qml.CH.compute_matrix(), [c, a])
        qml.PauliRot(angles[i, 0], "YIX", [a, b, c])

    layer()


def on(device: str, measure: Any, wires: int = QUBITS, **options: Any) -> Any:
    def circuit(angles: Any, wires: Any) -> Any:
        layers(angles, wires)
        return measure()

    return qml.QNode(circuit, qml.device(device, wires=wires), **options)


def z_and_y() -> Any:
    return qml.expval(qml.Z(0) @ qml.Y(1) + 0.3 * qml.X(2))


def assert_in_engine(compiled: Any, *args: Any, runs: int = 1) -> Any:
    before = _runtime.rows_in_engine()
    found = compiled(*args)
    assert _runtime.rows_in_engine() == before + runs
    return found


def differences(function: Any, angles: Any, step: float = 1e-5) -> Any:
    """The gradient of a real function, by differences of fourth order."""
    found = np.zeros(angles.shape)
    for place in np.ndindex(angles.shape):
        for shift, weight in ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12)):
            moved = np.array(angles)
            moved[place] += shift * step
            found[place] += weight / step * function(moved)
    return found


def test_value_and_gradient() -> None:
    circuit = jax.value_and_grad(on("lightning.qubit", z_and_y))
    value, gradient = assert_in_engine(bellhop.qjit(circuit), ANGLES[:2], PAIRS)
    reference = on("default.qubit", z_and_y)
    np.testing.assert_allclose(value, reference(ANGLES[:2], PAIRS), atol=1e-12)
    expected = differences(lambda x: reference(x, PAIRS), ANGLES[:2])
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


def by_plugin(circuit: Any, *args: Any) -> Any:
    return bellhop.qjit(circuit, engine="plugin")(*args)


def test_a_loop_of_several_plans_which_are_made_once() -> None:
    wires = np.array([RANDOM.permutation(QUBITS)[:3] for _ in range(300)])
    angles = RANDOM.uniform(-3, 3, (300, 2))
    circuit = jax.value_and_grad(on("lightning.qubit", z_and_y))
    compiled = bellhop.qjit(circuit)
    made = _runtime.plans_made()
    value, gradient = assert_in_engine(compiled, angles, wires)
    assert 2 <= _runtime.plans_made() - made <= 10
    expected, expected_gradient = by_plugin(circuit, angles, wires)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-10)
    made = _runtime.plans_made()
    assert_in_engine(compiled, angles + 1, wires)
    assert _runtime.plans_made() == made


def test_tiles_of_large_states() -> None:
    wires = np.array([RANDOM.permutation(13)[:3] for _ in range(9)])
    circuit = on("lightning.qubit", z_and_y, wires=13)
    compiled = bellhop.qjit(jax.value_and_grad(circuit))
    found = assert_in_engine(compiled, ANGLES[:9], wires)
    expected = by_plugin(jax.value_and_grad(circuit), ANGLES[:9], wires)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_derivatives_that_the_engine_alone_has() -> None:
    """A sweep back from probabilities, and second derivatives at shifted parameters."""
    loss = lambda circuit: lambda angles, wires: jnp.sum(circuit(angles, wires) ** 3)
    native, reference = (
        loss(on(device, lambda: qml.probs(wires=[0, 2, 3])))
        for device in ("lightning.qubit", "default.qubit")
    )
    gradient = assert_in_engine(bellhop.qjit(jax.grad(native)), ANGLES[:1], PAIRS, runs=2)
    np.testing.assert_allclose(
        gradient, differences(lambda x: reference(x, PAIRS), ANGLES[:1]), atol=1e-8
    )
    variance = on("lightning.qubit", lambda: qml.var(qml.Z(0) @ qml.X(1)))
    hessian = bellhop.qjit(jax.hessian(variance))(ANGLES[:1], PAIRS)
    expected = by_plugin(jax.hessian(variance), ANGLES[:1], PAIRS)
    np.testing.assert_allclose(hessian, expected, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "of each row"])
def test_batches(shared: bool) -> None:
    rows, pairs = 5, PAIRS[:4]
    angles = RANDOM.uniform(-3, 3, (rows, 4, 2))
    wires = np.stack([pairs if shared else RANDOM.permuted(pairs, axis=1) for _ in range(rows)])
    wires_axis = None if shared else 0
    circuit = jax.value_and_grad(on("lightning.qubit", z_and_y))
    compiled = bellhop.qjit(jax.vmap(circuit, in_axes=(0, wires_axis)))
    given = pairs if shared else wires
    values, gradients = assert_in_engine(compiled, angles, given, runs=rows)
    reference = on("default.qubit", z_and_y)
    expected = [reference(*row) for row in zip(angles, wires, strict=True)]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    alone = bellhop.qjit(circuit)
    of_rows = [alone(*row)[1] for row in zip(angles, wires, strict=True)]
    np.testing.assert_allclose(gradients, of_rows, atol=1e-12)


def test_loops_of_computed_length() -> None:
    def circuit(count: Any, angles: Any, wires: Any) -> Any:
        @bellhop.while_loop(lambda i, _: i < count)
        def loop(i: Any, angle: Any) -> Any:
            qml.RX(angle, wires[i % 12, 0])
            qml.CNOT(wires[i % 12, :2])
            return i + 1, 0.9 * angle + angles[i % 12, 1]

        loop(0, angles[0, 0])
        return qml.expval(qml.Z(0) @ qml.Z(1))

    native = qml.QNode(circuit, qml.device("lightning.qubit", wires=QUBITS))
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=QUBITS))
    compiled = bellhop.qjit(jax.value_and_grad(native, argnums=1))
    value, gradient = assert_in_engine(compiled, 70, ANGLES, PAIRS)
    np.testing.assert_allclose(value, reference(70, ANGLES, PAIRS), atol=1e-11)
    of_first = lambda x: reference(70, np.concatenate([x, ANGLES[1:]]), PAIRS)
    np.testing.assert_allclose(gradient[:1], differences(of_first, ANGLES[:1]), atol=1e-7)


def test_through_measurements_in_the_middle() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=QUBITS))
    def circuit(angles: Any, wires: Any) -> Any:
        layers(angles[:5], wires[:5])
        outcome = bellhop.measure(wires[5, 0], reset=True)
        bellhop.cond(outcome)(lambda: qml.RY(angles[5, 0], wires[5, 1]))()
        layers(angles[6:8], wires[6:8])
        return z_and_y()

    compiled = bellhop.qjit(circuit)
    gradient = assert_in_engine(bellhop.qjit(jax.grad(circuit)), ANGLES, PAIRS, runs=2)
    by_differences = differences(lambda x: compiled(jnp.asarray(x), PAIRS), ANGLES)
    np.testing.assert_allclose(gradient, by_differences, atol=1e-8)


def test_shots() -> None:
    @bellhop.qjit(seed=3)
    @qml.set_shots(2000)
    @qml.qnode(qml.device("lightning.qubit", wires=QUBITS))
    def circuit(angles: Any, wires: Any) -> Any:
        layers(angles, wires)
        return qml.expval(qml.Z(0)), qml.probs(wires=[1, 2])

    found = assert_in_engine(circuit, ANGLES, PAIRS)
    expected = on("default.qubit", lambda: (qml.expval(qml.Z(0)), qml.probs(wires=[1, 2])))
    for value, exact in zip(found, expected(ANGLES, PAIRS), strict=True):
        np.testing.assert_allclose(value, exact, atol=0.1)


def test_bits() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(bits: Any, angle: Any) -> Any:
        qml.BasisState(bits, wires=[2, 0, 1])
        qml.RX(angle, 1)
        qml.BasisState(bits[:1], wires=[1])
        return qml.probs()

    bits = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1]])
    compiled = bellhop.qjit(jax.vmap(circuit, in_axes=(0, None)))
    found = assert_in_engine(compiled, bits, 0.3, runs=3)
    for row, (on_2, on_0, on_1) in zip(found, bits, strict=True):
        turned = np.array([np.cos(0.15) ** 2, np.sin(0.15) ** 2])
        turned = turned[::-1] if on_1 ^ on_2 else turned
        np.testing.assert_allclose(row.reshape(2, 2, 2)[on_0, :, on_2], turned, atol=1e-12)
    with pytest.raises(bellhop.errors.CircuitError, match="Row 1 .* expected 0 or 1 for each"):
        compiled(np.array([[1, 0, 0], [0, 2, 1], [1, 1, 1]]), 0.3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [([0, 7, 1], "wire 7 is not in the circuit"), ([2, 2, 0], "different wires")],
)
def test_wires_that_are_wrong_when_it_runs(wrong: Any, message: str) -> None:
    wires = np.array([[0, 1, 2], wrong])
    loss = lambda angles, wires: on("lightning.qubit", qml.probs)(angles, wires)[0]
    compiled = bellhop.qjit(jax.grad(loss))
    with pytest.raises(bellhop.errors.CircuitError, match=rf"test_gates_on.*{message}"):
        compiled(ANGLES[:2], wires)
    batch = np.stack([wires[:1].repeat(2, 0), wires])
    with pytest.raises(bellhop.errors.CircuitError, match=f"Row 1 of a batch of 2.*{message}"):
        bellhop.qjit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(ANGLES[:2], batch)
