"""Shots with the same outcomes in the middle share a run: against PennyLane uncompiled.

Seeds are fixed, and tolerances are five standard errors.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop_runtime import _runtime

SHOTS = 10_000
X, Y = 0.8, 0.5
OURS = bellhop.measure, lambda holds, gates: bellhop.cond(holds)(gates)()
THEIRS = qml.measure, lambda holds, gates: qml.cond(holds, gates)()
DEVICES = pytest.mark.parametrize("device", ["default.qubit", "lightning.qubit"])


def prepare(of: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Measure, use and reset a wire, and use it again."""
    measure, cond = of
    qml.RX(x, 0)
    first = measure(0, reset=True)
    cond(first, lambda: qml.RY(y, 1))
    qml.RY(x + y, 0)
    qml.CNOT([0, 1])
    second = measure(1)
    cond(second, lambda: qml.RX(x * y, 0))
    return first, second


def means(of: Any, x: Any, y: Any) -> Any:
    first, second = prepare(of, x, y)
    return (
        qml.expval(qml.Z(0) @ qml.Z(1)),
        qml.expval(0.5 * qml.X(0) + 2 * qml.Z(1)),
        qml.var(qml.Y(0)),
        qml.probs(wires=[1, 0]),
        qml.expval(first),
        qml.var(second),
        qml.probs(op=[first, second]),
    )


def ours(function: Callable[..., Any], device: str, shots: Any = SHOTS, **options: Any) -> Any:
    node = qml.QNode(lambda *args: function(OURS, *args), qml.device(device, wires=2), **options)
    return qml.set_shots(node, shots)


def exact(function: Callable[..., Any]) -> Any:
    device = qml.device("default.qubit")
    return qml.QNode(lambda *args: function(THEIRS, *args), device, mcm_method="deferred")


def runs(program: Any, *args: Any) -> tuple[int, Any]:
    before = _runtime.rows_in_engine()
    found = jax.block_until_ready(program(*args))
    return _runtime.rows_in_engine() - before, found


def assert_near(actual: Any, expected: Any, spread: float, shots: int = SHOTS) -> None:
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=5 * spread / np.sqrt(shots))


@DEVICES
def test_means(device: str) -> None:
    n_runs, found = runs(bellhop.qjit(ours(means, device), seed=2), X, Y)
    # Four combinations of outcomes; the bases of Z, X and Y, and the outcomes alone.
    assert 4 <= n_runs <= 4 * 4
    assert_near(found, exact(means)(X, Y), 2.5)


@DEVICES
def test_derivatives(device: str) -> None:
    program = bellhop.qjit(bellhop.jacobian(ours(means, device), argnums=[0, 1]), seed=3)
    expected = jax.jit(jax.jacfwd(exact(means), argnums=[0, 1]))(X, Y)
    # A score has a variance of the Fisher information, which is four for each angle at most.
    assert_near(program(X, Y), expected, 2.5 * 4)


def test_the_mean_of_many_derivatives_is_the_derivative() -> None:
    def few(of: Any, x: Any, y: Any) -> Any:
        first, second = prepare(of, x, y)
        return qml.expval(qml.Z(0)), qml.probs(op=[first, second])

    estimate = bellhop.jacobian(ours(few, "lightning.qubit", 20), argnums=[0, 1])
    program = bellhop.qjit(lambda: jax.lax.map(lambda _: estimate(X, Y), jnp.arange(400)), seed=4)
    expected = jax.jit(jax.jacfwd(exact(few), argnums=[0, 1]))(X, Y)
    for drawn, slope in zip(jax.tree.leaves(program()), jax.tree.leaves(expected), strict=True):
        error = np.std(drawn, axis=0) / np.sqrt(400)
        assert np.all(np.abs(np.mean(drawn, axis=0) - slope) <= 5 * error + 1e-9)


def samples(of: Any, x: Any, y: Any) -> Any:
    first, second = prepare(of, x, y)
    return (
        qml.sample(wires=[0, 1]),
        qml.sample(first),
        qml.sample(second),
        qml.counts([first, second]),
        qml.counts(qml.Z(1), all_outcomes=True),
        qml.probs(wires=1),
    )


@DEVICES
def test_samples_are_those_of_each_shot(device: str) -> None:
    bits, first, second, (_, counts), (_, signs), ones = bellhop.qjit(
        ours(samples, device), seed=5
    )(X, Y)
    np.testing.assert_array_equal(bits[:, 1], second)
    np.testing.assert_array_equal(counts, np.bincount(2 * first + second, minlength=4))
    np.testing.assert_array_equal(signs, np.bincount(1 - bits[:, 1], minlength=2))
    np.testing.assert_allclose(ones, [np.mean(1 - bits[:, 1]), np.mean(bits[:, 1])])
    expected = exact(lambda of, x, y: qml.probs(op=list(prepare(of, x, y))))(X, Y)
    assert_near(counts / SHOTS, expected, 0.5)
    # Shots of a run are spread among the others.
    halves = np.mean(first[: SHOTS // 2]), np.mean(first[SHOTS // 2 :])
    assert_near(halves[0], halves[1], 1.0)


def test_groups_of_shots() -> None:
    both = lambda of, x, y: (*means(of, x, y), qml.sample(wires=[0, 1]))
    few, many = bellhop.qjit(ours(both, "lightning.qubit", [100, SHOTS]), seed=6)(X, Y)
    assert few[-1].shape == (100, 2)
    assert many[-1].shape == (SHOTS, 2)
    assert_near(few[:-1], exact(means)(X, Y), 2.5, 100)
    assert_near(many[:-1], exact(means)(X, Y), 2.5)


def test_many_outcomes_have_as_many_runs_as_shots() -> None:
    """Their probability is no double-precision number any more."""

    def circuit() -> Any:
        @bellhop.for_loop(0, 1200)
        def step(i: Any, ones: Any) -> Any:
            qml.Hadamard(0)
            return ones + bellhop.measure(0)

        ones = step(0)
        return qml.expval(qml.Z(1)), qml.sample(ones)

    node = qml.set_shots(qml.QNode(circuit, qml.device("lightning.qubit", wires=2)), 30)
    n_runs, (mean, ones) = runs(bellhop.qjit(node, seed=7))
    assert n_runs >= 30
    np.testing.assert_allclose(mean, 1, rtol=1e-12)
    assert np.all(np.abs(ones - 600) < 5 * np.sqrt(300))
    assert len(set(map(int, ones))) > 10


def test_python_sees_each_shot() -> None:
    seen: list[bool] = []

    def circuit() -> Any:
        qml.Hadamard(0)
        outcome = bellhop.measure(0, reset=True)
        bellhop.debug.callback(lambda value: seen.append(bool(value)))(outcome)
        return qml.expval(outcome)

    node = qml.set_shots(qml.QNode(circuit, qml.device("lightning.qubit", wires=1)), 20)
    mean = bellhop.qjit(node, seed=8)()
    assert len(seen) == 20
    np.testing.assert_allclose(mean, np.mean(seen))


def until_one(x: Any) -> Any:
    """How many outcomes there are, only the run knows."""

    @bellhop.while_loop(lambda one, tries: ~one & (tries < 3))
    def attempt(one: Any, tries: Any) -> Any:
        qml.RX(x, 0)
        return bellhop.measure(0, reset=True), tries + 1

    one, tries = attempt(False, 0)
    bellhop.cond(one)(lambda: qml.RY(x, 1))()
    return qml.expval(qml.Z(1)), qml.expval(tries)


def test_outcomes_in_a_loop_of_computed_length_on_default_qubit() -> None:
    node = qml.set_shots(qml.QNode(until_one, qml.device("default.qubit", wires=2)), SHOTS)
    n_runs, (mean, tries) = runs(bellhop.qjit(node, seed=9), X)
    assert n_runs > 0
    fails = np.cos(X / 2) ** 2
    assert_near(tries, 1 + fails + fails**2, 1.0)
    slope = bellhop.qjit(jax.grad(lambda x: node(x)[0]), seed=10)(X)
    value = lambda x: jnp.cos(x / 2) ** 6 + (1 - jnp.cos(x / 2) ** 6) * jnp.cos(x)
    assert_near(mean, value(X), 1.0)
    assert_near(slope, jax.grad(value)(X), 4.0)


def test_a_run_has_the_outcomes_of_one_branch():
    """The outcomes of both branches together would be too many for shared runs."""

    def branch(rotate: Any) -> Any:
        def gates() -> None:
            for _ in range(3):
                rotate(X, 0)
                bellhop.measure(0, reset=True)

        return gates

    @bellhop.qjit
    @qml.set_shots(20)
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(x: Any) -> Any:
        bellhop.cond(x > 0, branch(qml.RX), branch(qml.RY))()
        return qml.probs(wires=[0, 1, 2])

    circuit(X)
    assert "outcomes shared_runs" in circuit.mlir
