"""Derivatives by the amplitudes that a state is prepared from, against matrices."""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.errors import DifferentiableCompileError
from bellhop_runtime import _runtime

X, Y, Z = (np.asarray(op.compute_matrix()) for op in (qml.X, qml.Y, qml.Z))
ONE, CNOT = np.eye(2), np.asarray(qml.CNOT.compute_matrix())
# An amplitude of zero, by which the angles of a preparation have no derivative.
FEATURES = jnp.array([0.6, 0.0, -0.3, 0.2])
ANGLE = 0.4
OBSERVED = np.kron(Z, Y) + 0.5 * np.kron(X, ONE)


def on(device: str, measure: Any = None, wires: int = 2, **options: Any) -> qml.QNode:
    def circuit(features: Any, angle: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=[1, 0], normalize=True)
        qml.RY(angle, 0)
        qml.CNOT([0, 1])
        qml.RX(2 * angle, 1)
        return qml.expval(qml.Z(0) @ qml.Y(1) + 0.5 * qml.X(0)) if measure is None else measure()

    return qml.QNode(circuit, qml.device(device, wires=wires), **options)


def turn(pauli: Any, angle: Any) -> Any:
    return jnp.cos(angle / 2) * ONE - 1j * jnp.sin(angle / 2) * pauli


def state(features: Any, angle: Any) -> Any:
    psi = features / jnp.sqrt(jnp.sum(jnp.real(features) ** 2 + jnp.imag(features) ** 2))
    psi = psi.reshape(2, 2).T.ravel()
    return jnp.kron(ONE, turn(X, 2 * angle)) @ CNOT @ jnp.kron(turn(Y, angle), ONE) @ psi


def mean(features: Any, angle: Any) -> Any:
    psi = state(features, angle)
    return jnp.real(jnp.vdot(psi, OBSERVED @ psi))


def assert_same(ours: Any, theirs: Any, *args: Any, atol: float = 1e-9) -> None:
    expected = jax.jit(theirs)(*args)
    for one, other in zip(jax.tree.leaves(ours(*args)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def both(function: Any) -> Any:
    return jax.grad(function, argnums=(0, 1))


@pytest.mark.parametrize("method", ["best", "adjoint", "parameter-shift", "finite-diff"])
def test_gradient_by_features(method: str) -> None:
    circuit = on("lightning.qubit", diff_method=method)
    atol = 1e-6 if method == "finite-diff" else 1e-9
    assert_same(bellhop.qjit(both(circuit)), both(mean), FEATURES, ANGLE, atol=atol)


def test_gradient_by_complex_amplitudes_is_that_of_jax() -> None:
    features = FEATURES + 1j * jnp.array([0.1, 0.0, 0.2, -0.4])
    assert_same(bellhop.qjit(both(on("lightning.qubit"))), both(mean), features, ANGLE)


def test_gradients_of_a_batch_of_features() -> None:
    features = jax.random.normal(jax.random.key(3), (11, 4))
    mapped = lambda function: jax.vmap(both(function), in_axes=(0, None))
    assert_same(bellhop.qjit(mapped(on("lightning.qubit"))), mapped(mean), features, ANGLE)


def test_gradient_of_padded_features() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(features: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=[1, 0], pad_with=0.5, normalize=True)
        qml.RY(ANGLE, 0)
        qml.CNOT([0, 1])
        qml.RX(2 * ANGLE, 1)
        return qml.expval(qml.Z(0) @ qml.Y(1) + 0.5 * qml.X(0))

    padded = lambda features: mean(jnp.append(features, 0.5), ANGLE)
    assert_same(bellhop.qjit(jax.grad(circuit)), jax.grad(padded), jnp.array([1.0, 0.0, -2.0]))


@pytest.mark.parametrize(
    "order",
    [
        lambda f: jax.hessian(f, argnums=(0, 1)),
        lambda f: jax.jacobian(jax.grad(f, argnums=1)),
        lambda f: jax.jacobian(jax.grad(f), argnums=1),
    ],
    ids=["Hessian", "angle first", "features first"],
)
def test_second_derivatives(order: Any) -> None:
    assert_same(bellhop.qjit(order(on("lightning.qubit"))), order(mean), FEATURES, ANGLE)


@pytest.mark.parametrize("engine", ["auto", "plugin"])
def test_variances_and_probabilities(engine: Any) -> None:
    measure = lambda: (qml.var(qml.X(0)), qml.probs(wires=1))

    def expected(features: Any, angle: Any) -> Any:
        psi = state(features, angle)
        of_x = jnp.real(jnp.vdot(psi, np.kron(X, ONE) @ psi))
        return 1 - of_x**2, jnp.sum(jnp.abs(psi.reshape(2, 2)) ** 2, axis=0)

    derivative = jax.jacobian(on("lightning.qubit", measure), argnums=(0, 1))
    expected_derivative = jax.jacobian(expected, argnums=(0, 1))
    features = FEATURES + 0.1
    assert_same(bellhop.qjit(derivative, engine=engine), expected_derivative, features, ANGLE)


def test_more_qubits_than_the_engine_takes_otherwise() -> None:
    circuit = on("lightning.qubit", wires=14)
    before = _runtime.rows_in_engine()
    assert_same(bellhop.qjit(both(circuit)), both(mean), FEATURES, ANGLE)
    assert _runtime.rows_in_engine() == before + 1


def test_computed_wires() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(features: Any, angle: Any, wire: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=[1, 0], normalize=True)
        qml.RY(angle, wire)
        qml.CNOT([0, 1])
        qml.RX(2 * angle, 1)
        return qml.expval(qml.Z(0) @ qml.Y(1) + 0.5 * qml.X(0))

    found = bellhop.qjit(both(circuit))
    assert_same(lambda *args: found(*args, 0), both(mean), FEATURES, ANGLE)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_two_embeddings_are_one_preparation(device: str) -> None:
    @qml.qnode(qml.device(device, wires=5))
    def overlap(one: Any, other: Any) -> Any:
        qml.AmplitudeEmbedding(one, wires=[1, 2], normalize=True)
        qml.AmplitudeEmbedding(other, wires=[3, 4], normalize=True)
        qml.Hadamard(0)
        qml.CSWAP([0, 1, 3])
        qml.CSWAP([0, 2, 4])
        qml.Hadamard(0)
        return qml.expval(qml.Z(0))

    def expected(one: Any, other: Any) -> Any:
        return jnp.dot(one, other) ** 2 / jnp.dot(one, one) / jnp.dot(other, other)

    other = jnp.array([0.0, 0.0, 1.0, 0.3])
    assert_same(bellhop.qjit(both(overlap)), both(expected), FEATURES, other)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_a_preparation_of_untouched_wires_comes_first(device: str) -> None:
    def program(device: str, is_first: bool) -> Any:
        @qml.qnode(qml.device(device, wires=4))
        def circuit(features: Any, angle: Any) -> Any:
            if not is_first:
                qml.RY(angle, 2)
                qml.CNOT([2, 3])
            qml.AmplitudeEmbedding(features, wires=[1, 0], normalize=True)
            if is_first:
                qml.RY(angle, 2)
                qml.CNOT([2, 3])
            qml.CRX(angle, [0, 3])
            qml.CNOT([1, 2])
            return qml.expval(qml.Z(2) @ qml.X(0) + qml.Y(3))

        return circuit

    found = bellhop.qjit(both(program(device, is_first=False)))
    # Decomposed into angles, it would have no derivative by the amplitude of zero.
    assert_same(found, both(program("default.qubit", is_first=True)), FEATURES, ANGLE)


def test_measurements_in_the_middle() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(features: Any, angle: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=[1, 0], normalize=True)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome, lambda: qml.RX(angle, 1))()
        return qml.expval(qml.Z(1))

    def expected(features: Any, angle: Any) -> Any:
        weights = (features / jnp.linalg.norm(features)).reshape(2, 2).T ** 2
        return jnp.dot(weights @ jnp.array([1, -1]), jnp.array([1, jnp.cos(angle)]))

    assert_same(bellhop.qjit(both(circuit)), both(expected), FEATURES, ANGLE)


def several() -> Any:
    return qml.expval(qml.Z(0) @ qml.Y(1) + 0.5 * qml.X(0)), qml.probs(wires=[1, 0])


def test_with_shots_by_the_likelihood_of_samples() -> None:
    circuit = on("lightning.qubit", several)
    exact = jax.jacobian(lambda *args: jnp.hstack(circuit(*args)), argnums=(0, 1))
    few = jax.jacobian(lambda *args: jnp.hstack(qml.set_shots(circuit, 10)(*args)), argnums=(0, 1))
    features = jnp.broadcast_to(FEATURES, (2000, 4))
    drawn = bellhop.qjit(jax.vmap(few, in_axes=(0, None)), seed=4)(features, ANGLE)
    for ours, theirs in zip(drawn, bellhop.qjit(exact)(FEATURES, ANGLE), strict=True):
        error = np.std(ours, axis=0) / np.sqrt(len(ours))
        assert np.max(error) < 0.1 < np.max(np.abs(theirs)) / 4
        np.testing.assert_array_less(np.abs(np.mean(ours, axis=0) - theirs), 4 * error + 1e-9)


def test_with_shots_the_circuit_alone_is_as_in_a_batch() -> None:
    circuit = lambda *args: jnp.hstack(qml.set_shots(on("lightning.qubit", several), 4000)(*args))
    drawn = bellhop.qjit(jax.jacobian(circuit), seed=4)(FEATURES, ANGLE)
    exact = jax.jacobian(lambda *args: jnp.hstack(on("lightning.qubit", several)(*args)))
    np.testing.assert_allclose(drawn, bellhop.qjit(exact)(FEATURES, ANGLE), atol=0.2)


@pytest.mark.parametrize(
    ("order", "options", "message"),
    [
        (jax.grad, {"engine": "plugin"}, "respect to the amplitudes of StatePrep, which needs"),
        (jax.hessian, {}, "the circuit has shots and is differentiated twice"),
        (
            lambda f: jax.jacobian(jax.grad(f), 1),
            {},
            "the circuit has shots and is differentiated twice",
        ),
        (
            lambda f: jax.jacobian(jax.grad(f, 1)),
            {},
            "the circuit has shots and is differentiated twice",
        ),
    ],
)
def test_what_has_none_with_shots(order: Any, options: Any, message: str) -> None:
    circuit = qml.set_shots(on("lightning.qubit"), 10)
    with pytest.raises(DifferentiableCompileError, match=message):
        bellhop.qjit(order(circuit), **options)(FEATURES, ANGLE)


def test_angles_then_amplitudes_outside_of_the_engine_is_refused() -> None:
    mixed = jax.jacobian(jax.grad(on("lightning.qubit"), argnums=1))
    with pytest.raises(
        DifferentiableCompileError,
        match="respect to gate parameters and then with respect to the amplitudes",
    ):
        bellhop.qjit(mixed, engine="plugin")(FEATURES, ANGLE)


def test_the_adjoint_method_of_the_plugin_has_none() -> None:
    circuit = on("lightning.qubit", diff_method="adjoint")
    message = "adjoint method of the device's plugin, which differentiates gates only"
    with pytest.raises(DifferentiableCompileError, match=message):
        bellhop.qjit(jax.grad(circuit), engine="plugin")(FEATURES, ANGLE)


def _sum_of_powers(measure: Any, device: str, n: int) -> Any:
    """Return a sum over many measured values, a function of amplitudes and an angle."""

    @qml.qnode(qml.device(device, wires=n))
    def circuit(amplitudes: Any, angle: Any) -> Any:
        qml.StatePrep(amplitudes, wires=range(n), validate_norm=False)
        for wire in range(n):
            qml.RY(angle * (wire + 1), wire)
            qml.CNOT([wire, (wire + 1) % n])
        return measure()

    return lambda amplitudes, angle: jnp.sum(jnp.abs(circuit(amplitudes, angle)) ** 4)


@pytest.mark.parametrize(
    ("measure", "is_complex"),
    [(qml.state, True), (qml.probs, False), (lambda: qml.density_matrix([0, 1, 2]), True)],
    ids=["state", "probs", "density_matrix"],
)
def test_many_values_by_many_amplitudes_take_one_sweep(measure: Any, is_complex: bool) -> None:
    n = 7
    drawn = np.random.default_rng(0).normal(size=(2, 2**n)) / 2**4
    amplitudes = jnp.asarray(drawn[0] + 1j * drawn[1] if is_complex else drawn[0])
    ours = bellhop.qjit(both(_sum_of_powers(measure, "lightning.qubit", n)))
    assert_same(ours, both(_sum_of_powers(measure, "default.qubit", n)), amplitudes, ANGLE)
    # A Jacobian would have a number for each value and amplitude.
    shapes = re.findall(r"tensor<((?:\d+x)+)", ours.mlir)
    sizes = [math.prod(map(int, shape.strip("x").split("x"))) for shape in shapes]
    assert max(sizes) <= 8 * 2**n
