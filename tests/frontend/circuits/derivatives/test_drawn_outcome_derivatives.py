"""Derivatives with shots through measurements in the middle, against those without shots."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.errors import DifferentiableCompileError

SHOTS = 4000
POINT = jnp.array([0.7, 1.1])


def steered(x: Any) -> Any:
    """Gates depend on what was drawn, by whether and by which angle."""
    qml.RX(x[0], 0)
    qml.CRY(x[1], [0, 1])
    first = bellhop.measure(0, reset=True)
    bellhop.cond(first, lambda: qml.RY(x[1], 1), lambda: qml.RX(x[0] * x[1], 1))()
    qml.RZ(x[0], 1)
    qml.RX(first * x[1] + 0.3, 0)
    second = bellhop.measure(1)
    bellhop.cond(second, lambda: qml.CRX(x[0], [1, 0]))()
    qml.RY(0.4, 0)
    return (
        qml.expval(qml.Z(0)),
        qml.expval(qml.X(0) @ qml.Z(1)),
        qml.expval(first),
        qml.var(qml.Y(0)),
        qml.probs(wires=[1]),
    )


def in_a_loop(x: Any) -> Any:
    @bellhop.for_loop(0, 3)
    def round_(i: Any) -> None:
        qml.RX(x[0] * (i + 1), 0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome, lambda: qml.RY(x[1], 1))()

    round_()
    return qml.expval(qml.Z(1))


def prepared(x: Any) -> Any:
    qml.AmplitudeEmbedding(jnp.stack([x[0], x[1], 0.0, 0.4]), wires=[1, 0], normalize=True)
    outcome = bellhop.measure(0)
    bellhop.cond(outcome, lambda: qml.RY(x[1], 1))()
    return qml.expval(qml.Z(1))


def jacobian(function: Any, shots: int | None, device: str = "lightning.qubit", **options: Any):
    node = qml.QNode(function, qml.device(device, wires=2), **options)
    joined = lambda x: jnp.hstack(jax.tree.leaves(qml.set_shots(node, shots)(x)))
    return bellhop.qjit(bellhop.jacobian(joined), seed=5)


@pytest.mark.parametrize("function", [steered, in_a_loop, prepared])
def test_mean_is_the_exact_derivative(function: Any) -> None:
    exact = jacobian(function, None)(POINT)
    drawn = jacobian(function, SHOTS)(POINT)
    assert np.max(np.abs(exact)) > 0.3
    # A score has a variance of the Fisher information, at most 4 here for each parameter.
    np.testing.assert_allclose(drawn, exact, atol=5 * 3 / np.sqrt(SHOTS))
    assert not np.allclose(drawn, exact, atol=1e-6)


def test_values_are_those_without_a_derivative() -> None:
    node = qml.set_shots(qml.QNode(steered, qml.device("lightning.qubit", wires=2)), 50)
    first = lambda x: node(x)[0]
    value, _ = bellhop.qjit(bellhop.value_and_grad(first), seed=3)(POINT)
    assert value == bellhop.qjit(first, seed=3)(POINT)


def test_batch() -> None:
    node = qml.set_shots(qml.QNode(in_a_loop, qml.device("lightning.qubit", wires=2)), SHOTS)
    points = jnp.stack([POINT, 2 * POINT])
    drawn = bellhop.qjit(jax.vmap(jax.grad(node)), seed=1)(points)
    exact = jax.vmap(jacobian(in_a_loop, None))(points)
    np.testing.assert_allclose(drawn, np.reshape(exact, (2, 2)), atol=5 * 3 / np.sqrt(SHOTS))


def postselected(x: Any) -> Any:
    qml.RX(x[0], 0)
    bellhop.measure(0, postselect=1)
    return qml.expval(qml.Z(0))


def sampled(x: Any) -> Any:
    qml.RX(x[0], 0)
    bellhop.measure(0)
    return qml.sample(qml.Z(0))


OUTCOMES = "the outcomes of its mid-circuit measurements are drawn, and gates"


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (postselected, {}, OUTCOMES),
        (in_a_loop, {"diff_method": "finite-diff"}, OUTCOMES),
        (sampled, {}, "it returns samples, or values that are computed of outcomes"),
    ],
)
def test_what_has_none(function: Any, options: Any, message: str) -> None:
    with pytest.raises(DifferentiableCompileError, match=message):
        jacobian(function, 10, **options)(POINT)


def test_second_derivative_is_refused() -> None:
    node = qml.set_shots(qml.QNode(in_a_loop, qml.device("lightning.qubit", wires=2)), 10)
    with pytest.raises(DifferentiableCompileError, match="it draws outcomes of measurements in"):
        bellhop.qjit(jax.hessian(node))(POINT)
