"""bellhop.measure: exact results against PennyLane, random ones against their distribution."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def teleported(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.Hadamard(wires=1)
    qml.CNOT(wires=[1, 2])
    qml.CNOT(wires=[0, 1])
    qml.Hadamard(wires=0)
    m0, m1 = measure(0), measure(1)
    cond(m1, qml.X)(2)
    cond(m0, qml.Z)(2)
    return qml.expval(qml.Z(2)), qml.expval(qml.X(2)), qml.probs(op=[m0, m1])


def statistics_of_outcomes(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.RX(2 * x, wires=1)
    m0 = measure(0)
    cond(m0, qml.CRY)(x, wires=[0, 1])
    m1 = measure(1)
    return (
        qml.expval(m0),
        qml.expval(m0 + 2 * m1),
        qml.var(m0 + m1),
        qml.var(m1),
        qml.probs(op=m1),
        qml.expval(~m0),
        qml.expval(m0 * m1 - 1),
    )


def reset_and_reused(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    m0 = measure(0, reset=True)
    qml.RX(x, wires=0)
    m1 = measure(0)
    cond(m0 == 1, qml.RY)(0.3, wires=1)
    cond((m0 + m1) == 2, qml.X)(2)
    return qml.probs(wires=[0, 1, 2]), qml.var(qml.Z(0) @ qml.Z(1)), qml.var(qml.X(1))


def postselected(measure: Any, cond: Any, x: Any) -> Any:
    qml.RY(x, wires=0)
    qml.CRX(x, wires=[0, 1])
    m0 = measure(1)
    qml.RX(0.4, wires=0)
    measure(0, postselect=1)
    cond(m0, qml.X)(2)
    return qml.probs(wires=[0, 1, 2]), qml.expval(m0), qml.expval(qml.Y(1))


def never_one(measure: Any, cond: Any, x: Any) -> Any:
    m0 = measure(0)
    qml.RY(x, wires=1)
    cond(m0, qml.X)(1)
    m1 = measure(1)
    return qml.expval(m0), qml.probs(op=[m0, m1])


CIRCUITS = [teleported, statistics_of_outcomes, reset_and_reused, postselected, never_one]


def with_bellhop(body: Any) -> Callable[..., Any]:
    return lambda x: body(bellhop.measure, bellhop.cond, x)


@pytest.mark.parametrize("body", CIRCUITS)
def test_exact_results(assert_close: Any, lightning: Any, body: Any) -> None:
    theirs = qml.QNode(lambda x: body(qml.measure, qml.cond, x), qml.device("default.qubit"))
    ours = bellhop.qjit(lightning(with_bellhop(body), wires=3))
    for x in (0.7, 2.1):
        assert_close(ours(x), theirs(x))


def test_feedback_that_no_deferral_can_do(lightning: Any) -> None:
    """An outcome on its way through Python, a region, loops and indexing to angles and wires."""
    seen = []

    @bellhop.pure_callback
    def angle(m: Any) -> float:
        seen.append(bool(m))
        return 0.3 + m

    @bellhop.accelerate(dev=jax.devices("cpu")[1])
    def other(m: Any, x: Any) -> Any:
        return jnp.where(m, jnp.sin(x), x)

    @bellhop.qjit
    @lightning
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m = bellhop.measure(0)
        qml.RY(angle(m), wires=1)
        qml.RY(other(m, x), wires=2)
        bellhop.for_loop(0, m + 1)(lambda i: qml.RY(x, wires=1) and None)()
        qml.RX(jnp.array([0.1, 0.2])[m.astype(int)], wires=3)
        return [qml.expval(qml.Z(i)) for i in range(4)]

    x, p = 0.9, np.sin(0.45) ** 2
    expected = [
        np.cos(x),
        (1 - p) * np.cos(0.3 + x) + p * np.cos(1.3 + 2 * x),
        (1 - p) * np.cos(x) + p * np.cos(np.sin(x)),
        (1 - p) * np.cos(0.1) + p * np.cos(0.2),
    ]
    np.testing.assert_allclose(circuit(x), expected, atol=1e-9)
    assert sorted(seen) == [False, True]


def test_measurements_in_loops_and_branches(lightning: Any) -> None:
    @bellhop.qjit
    @lightning
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, 3)
        def loop(i: Any, count: Any) -> Any:
            qml.RY(x, wires=i)
            return count + bellhop.measure(i)

        count = loop(0)
        measured = bellhop.cond(count > 1, lambda: bellhop.measure(3), lambda: False)()
        return qml.expval(count), qml.var(count), qml.expval(measured)

    p = np.sin(0.35) ** 2
    np.testing.assert_allclose(circuit(0.7), [3 * p, 3 * p * (1 - p), 0], atol=1e-9)


def until_zero(x: Any) -> Any:
    qml.Hadamard(wires=1)

    @bellhop.while_loop(lambda m, count: m)
    def again(_: Any, count: Any) -> Any:
        qml.RY(x, wires=0)
        return bellhop.measure(0, reset=True), count + 1

    return again(True, 0)[1]


def test_exact_mean_of_a_loop_until_success(lightning: Any) -> None:
    circuit = bellhop.qjit(lightning(lambda x: qml.expval(until_zero(x)), wires=2))
    np.testing.assert_allclose(circuit(1.1), 1 / np.cos(0.55) ** 2, atol=1e-9)


@pytest.mark.parametrize("shots", [1, 400])
def test_shots_of_a_loop_until_success(lightning: Any, shots: int) -> None:
    node = qml.set_shots(lightning(lambda x: qml.sample(until_zero(x)), wires=2), shots)
    counts = bellhop.qjit(node, seed=1)(1.1)
    assert counts.shape == (shots,)
    assert counts.min() == 1
    if shots > 1:
        np.testing.assert_allclose(counts.mean(), 1 / np.cos(0.55) ** 2, atol=0.2)


@pytest.mark.parametrize("body", CIRCUITS)
def test_one_shot_results(lightning: Any, body: Any) -> None:
    """Each is near the exact one: six standard errors of the 2000 shots, and a fixed seed."""
    exact = bellhop.qjit(lightning(with_bellhop(body), wires=3))(0.7)
    shots = qml.set_shots(lightning(with_bellhop(body), wires=3), 2000)
    sampled = bellhop.qjit(shots, seed=7)(0.7)
    for one, other in zip(jax.tree.leaves(exact), jax.tree.leaves(sampled), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=0.15)


def test_single_branch(lightning: Any) -> None:
    """Results are those of the outcomes that came: a definite state."""

    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        bellhop.measure(0)
        return qml.expval(qml.Z(0)), qml.state()

    node = lightning(circuit, wires=1, mcm_method="single-branch-statistics")
    program = bellhop.qjit(lambda x: [node(x) for _ in range(12)], seed=5)
    values = program(1.5)
    assert {round(float(value)) for value, _ in values} == {-1, 1}
    for value, state in values:
        np.testing.assert_allclose(np.abs(state) ** 2, [(1 + value) / 2, (1 - value) / 2])


def test_device_without_wires_counts_measured_ones(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires="a")
        bellhop.cond(bellhop.measure("a"), qml.X)("b")
        bellhop.measure("c")
        return qml.probs()

    p = np.sin(0.35) ** 2
    probabilities = bellhop.qjit(lightning(circuit, wires=None))(0.7)
    np.testing.assert_allclose(probabilities, [1 - p, 0, 0, 0, 0, 0, p, 0], atol=1e-9)
