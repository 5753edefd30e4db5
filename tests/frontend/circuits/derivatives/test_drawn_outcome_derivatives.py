"""Derivatives with shots through measurements in the middle, against those without shots."""

import functools
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


def postselected(x: Any) -> Any:
    """What is kept depends on what was drawn before and after."""
    qml.RX(x[0], 0)
    first = bellhop.measure(0)
    qml.RY(x[1] * (1 + first), 1)
    bellhop.measure(1, postselect=1, reset=True)
    qml.RY(x[0] + x[1], 0)
    qml.CRX(x[1], [0, 1])
    return qml.expval(qml.Z(0)), qml.expval(first)


def until_found(x: Any, tries: Any = 2) -> Any:
    """How many gates there are, and by which angles, depends on what was drawn."""

    @bellhop.while_loop(lambda found, n, _: ~found & (n < tries))
    def attempt(found: Any, n: Any, angle: Any) -> Any:
        qml.RX(angle, 0)
        found = bellhop.measure(0, reset=True)
        qml.RY(x[1] * angle, 1)
        return found, n + 1, angle * x[0] + 0.3

    _, n, angle = attempt(False, 0, x[0] + x[1])
    qml.CRX(n * x[1], [1, 0])
    return qml.expval(qml.Z(0)), qml.probs(wires=[1])


def until_found_in_known_length(x: Any) -> Any:
    """The same, without a loop."""
    found, n, angle = jnp.zeros((), bool), jnp.zeros((), int), x[0] + x[1]
    for _ in range(2):
        goes_on = ~found
        now, later = jnp.where(goes_on, angle, 0.0), angle * x[0] + 0.3
        qml.RX(now, 0)
        found = bellhop.measure(0, reset=True) | found
        qml.RY(x[1] * now, 1)
        n, angle = n + goes_on, jnp.where(goes_on, later, angle)
    qml.CRX(n * x[1], [1, 0])
    return qml.expval(qml.Z(0)), qml.probs(wires=[1])


def shadows(x: Any, measure: Any = qml.shadow_expval) -> Any:
    qml.RX(x[0], 0)
    first = bellhop.measure(0)
    bellhop.cond(first, lambda: qml.RY(x[1], 1))()
    bellhop.measure(1, postselect=0)
    qml.CRX(x[1], [1, 0])
    qml.RX(x[0], 0)
    return measure(qml.Y(0)), qml.expval(qml.Z(0)), measure(0.5 * qml.Z(0) @ qml.Z(1))


def without_shadows(x: Any) -> Any:
    return shadows(x, qml.expval)


def jacobian(function: Any, shots: int | None, **options: Any):
    node = qml.QNode(function, qml.device("lightning.qubit", wires=2), **options)
    joined = lambda x: jnp.hstack(jax.tree.leaves(qml.set_shots(node, shots)(x)))
    return bellhop.qjit(bellhop.jacobian(joined), seed=5)


@functools.cache
def without_shots(function: Any) -> Any:
    return jacobian(function, None)(POINT)


@pytest.mark.parametrize("function", [steered, in_a_loop, prepared])
def test_mean_is_the_exact_derivative(function: Any) -> None:
    exact = without_shots(function)
    drawn = jacobian(function, SHOTS)(POINT)
    assert np.max(np.abs(exact)) > 0.3
    # A score has a variance of the Fisher information, at most 4 here for each parameter.
    np.testing.assert_allclose(drawn, exact, atol=5 * 3 / np.sqrt(SHOTS))
    assert not np.allclose(drawn, exact, atol=1e-6)


def kept(x: Any) -> Any:
    """A postselection, and a loop whose length depends on an outcome."""
    qml.RX(x[0], 0)
    bellhop.measure(1, postselect=0)
    outcome = bellhop.measure(0)
    bellhop.for_loop(0, 1 + jnp.int32(outcome), 1)(lambda i: qml.RY(x[1] * (i + 1), 1))()
    return qml.expval(qml.Z(1))


@pytest.mark.parametrize("function", [until_found, kept])
def test_a_circuit_that_closes_over_its_angles(function: Any) -> None:
    node = qml.set_shots(qml.QNode(function, qml.device("lightning.qubit", wires=2)), 50)
    first = lambda x: jax.tree.leaves(node(x))[0]
    closing = lambda x: jax.tree.leaves(
        qml.set_shots(qml.QNode(lambda: function(x), node.device), 50)()
    )[0]
    given, closed = (
        bellhop.qjit(bellhop.value_and_grad(each), seed=3)(POINT) for each in (first, closing)
    )
    np.testing.assert_allclose(closed[0], given[0])
    np.testing.assert_allclose(closed[1], given[1])


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


# So few shots that an estimate whose bias is a share of one over their number is found out.
@pytest.mark.parametrize(
    ("function", "reference", "shots", "times"),
    [
        (postselected, postselected, 4, 800),
        (until_found, until_found_in_known_length, 50, 100),
    ],
)
def test_derivative_is_without_bias(function: Any, reference: Any, shots: int, times: int) -> None:
    exact = without_shots(reference)
    points = jnp.broadcast_to(POINT, (times, *POINT.shape))
    drawn = bellhop.qjit(jax.vmap(jacobian(function, shots)), seed=7)(points)
    error = np.std(drawn, axis=0) / np.sqrt(times)
    assert np.max(error) < 0.12 < np.max(np.abs(exact)) / 4
    np.testing.assert_array_less(np.abs(np.mean(drawn, axis=0) - exact), 4 * error + 1e-9)


def test_loop_whose_length_is_an_input_in_a_batch() -> None:
    node = qml.QNode(until_found, qml.device("lightning.qubit", wires=2))
    first = lambda x, tries: qml.set_shots(node, SHOTS)(x, tries)[0]
    drawn = bellhop.qjit(jax.vmap(jax.grad(first), in_axes=(None, 0)), seed=3)
    exact = bellhop.qjit(jax.vmap(jax.grad(lambda *args: node(*args)[0]), in_axes=(None, 0)))
    tries = jnp.array([1, 3])
    np.testing.assert_allclose(drawn(POINT, tries), exact(POINT, tries), atol=0.3)
    assert abs(exact(POINT, tries)[0, 0] - exact(POINT, tries)[1, 0]) > 0.4


def test_dropped_shots() -> None:
    options = {"postselect_mode": "hw-like"}
    drawn = jacobian(postselected, SHOTS, **options)(POINT)
    np.testing.assert_allclose(drawn, without_shots(postselected), atol=0.4)


@pytest.mark.parametrize("mode", ["fill-shots", "hw-like"])
def test_classical_shadows(mode: str) -> None:
    drawn = jacobian(shadows, SHOTS, postselect_mode=mode)(POINT)
    exact = without_shots(without_shadows)
    assert np.min(np.max(np.abs(exact), axis=1)) > 0.3
    # The values of words of one and of two factors are 3 and half of 9.
    np.testing.assert_allclose(drawn, exact, atol=0.2)


def rare(x: Any) -> Any:
    qml.RX(x[0], 0)
    bellhop.measure(0, postselect=1)
    qml.RY(x[1], 1)
    return qml.expval(qml.Z(1))


def test_fewer_than_two_shots_have_no_covariance() -> None:
    with pytest.raises(DifferentiableCompileError, match="with a group of 1 shot, expected"):
        jacobian(rare, 1)(POINT)
    # Of two shots none, one or both are kept.
    derivative = jacobian(rare, 2, postselect_mode="hw-like")
    drawn = bellhop.qjit(jax.vmap(derivative), seed=1)(jnp.broadcast_to(2 * POINT, (40, 2)))
    n_known = np.sum(np.all(np.isfinite(drawn), axis=(1, 2)))
    n_unknown = np.sum(np.all(np.isnan(drawn), axis=(1, 2)))
    assert n_known + n_unknown == 40
    assert 0 < n_known < 20


def sampled(x: Any) -> Any:
    qml.RX(x[0], 0)
    bellhop.measure(0)
    return qml.sample(qml.Z(0))


def drawn_outcome(x: Any) -> Any:
    qml.RX(x[0], 0)
    return bellhop.measure(0)


OUTCOMES = "the circuit draws random mid-circuit outcomes and is differentiated"


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (in_a_loop, {"mcm_method": "single-branch-statistics"}, OUTCOMES),
        (in_a_loop, {"diff_method": "finite-diff"}, OUTCOMES),
        (
            sampled,
            {"mcm_method": "one-shot"},
            "returns sample, counts, or a SampleMeasurement",
        ),
        (
            drawn_outcome,
            {},
            "the circuit returns samples or values computed from mid-circuit outcomes",
        ),
    ],
)
def test_what_has_none(function: Any, options: Any, message: str) -> None:
    with pytest.raises(DifferentiableCompileError, match=message):
        jacobian(function, 10, **options)(POINT)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (in_a_loop, "the circuit has shots and is differentiated twice"),
        (rare, "the circuit has shots and mid-circuit measurements and is"),
    ],
)
def test_second_derivative_is_refused(function: Any, message: str) -> None:
    node = qml.set_shots(qml.QNode(function, qml.device("lightning.qubit", wires=2)), 10)
    with pytest.raises(DifferentiableCompileError, match=message):
        bellhop.qjit(jax.hessian(node))(POINT)
