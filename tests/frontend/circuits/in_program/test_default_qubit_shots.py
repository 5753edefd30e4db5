"""Shots on default.qubit: shapes and types as PennyLane's, values near the exact ones.

Seeds are fixed, and tolerances are above five standard errors.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

SHOTS = 10_000
ERROR = 6 / np.sqrt(SHOTS)
POINT = (jnp.array(0.4), jnp.array(0.7))
MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])


def prepare(x: Any, y: Any) -> None:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    qml.CNOT(wires=[0, 1])
    qml.CRX(x * y, wires=[1, 2])
    qml.RY(y, wires=2)


def circuit(x: Any, y: Any) -> Any:
    prepare(x, y)
    return {
        "word": qml.expval(qml.Z(1) @ qml.X(2)),
        "sum": qml.expval(0.4 * qml.X(2) + qml.Z(0)),
        "matrix": qml.expval(qml.Hermitian(MATRIX, 1) @ qml.Y(0)),
        "variance": qml.var(qml.Hermitian(MATRIX, 1) @ qml.Y(2)),
        "wires": qml.probs(wires=[0, 2]),
        "observable": qml.probs(op=qml.X(1)),
    }


def node(function: Callable[..., Any], shots: Any = SHOTS, **options: Any) -> Any:
    made = qml.QNode(function, qml.device("default.qubit", wires=3), **options)
    return qml.set_shots(made, shots)


def assert_near(actual: Any, expected: Any, tolerance: float = 1.3 * ERROR) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.mark.large
def test_values_and_derivatives() -> None:
    jacobian = lambda qnode: bellhop.jacobian(qnode, argnums=[0, 1])
    program = bellhop.qjit(
        lambda *args: (node(circuit)(*args), jacobian(node(circuit))(*args)), seed=1
    )
    exact = node(circuit, None)
    expected = exact(*POINT), jax.jit(jax.jacfwd(exact, argnums=[0, 1]))(*POINT)
    assert_near(program(*POINT), expected, 1.5 * ERROR)


@pytest.mark.quick
def test_the_mean_of_many_estimates_is_the_derivative() -> None:
    """Also where an outcome hardly happens."""

    def rotated(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0)), qml.probs(wires=[0, 1])

    sampled = bellhop.jacobian(node(rotated, 500))
    program = bellhop.qjit(lambda x: jax.lax.map(lambda _: sampled(x), jnp.arange(100)), seed=3)
    for x in (0.1, 1.3):
        mean, frequencies = program(x)
        half = np.sin(x) / 2
        for estimates, exact in ((mean, -2 * half), (frequencies, [-half, 0, half, 0])):
            error = np.std(estimates, axis=0) / 10
            assert np.all(np.abs(np.mean(estimates, axis=0) - np.array(exact)) <= 5 * error + 1e-12)


@pytest.mark.large
def test_samples_are_those_of_one_round() -> None:
    def statistics(x: Any, y: Any) -> Any:
        prepare(x, y)
        wires = [2, 0]
        bits = qml.sample(wires=wires), qml.counts(wires=wires), qml.probs(wires=wires)
        return *bits, qml.sample(qml.Z(2)), qml.counts(qml.Z(0) @ qml.Z(2)), qml.expval(qml.Z(2))

    results = bellhop.qjit(node(statistics), seed=2)(*POINT)
    bits, (outcomes, counts), frequencies, values, (eigenvalues, numbers), mean = results
    assert bits.shape == (SHOTS, 2)
    assert bits.dtype == np.int64
    np.testing.assert_array_equal(outcomes, range(4))
    np.testing.assert_array_equal(counts, np.bincount(2 * bits[:, 0] + bits[:, 1], minlength=4))
    np.testing.assert_allclose(frequencies, counts / SHOTS, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(values, 1 - 2 * bits[:, 0])
    np.testing.assert_array_equal(eigenvalues, [-1, 1])
    parities = (1 - 2 * bits[:, 0]) * (1 - 2 * bits[:, 1])
    np.testing.assert_array_equal(numbers, [np.sum(parities < 0), np.sum(parities > 0)])
    np.testing.assert_allclose(mean, np.mean(values), rtol=0, atol=1e-12)


STRUCTURES: dict[str, Callable[[], Any]] = {
    "one": lambda: qml.expval(qml.Z(0)),
    "tuple": lambda: (qml.sample(wires=[0, 1]), qml.expval(qml.Z(0)), qml.sample(qml.X(0))),
    "dict": lambda: {"a": qml.probs(wires=1), "b": qml.var(qml.X(0))},
    "dtype": lambda: (qml.sample(wires=0, dtype="int8"), qml.sample(qml.Z(0), dtype="float32")),
}


@pytest.mark.parametrize("shots", [1, 3, [4], [1, (3, 2)]])
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_is_that_of_pennylane(name: str, shots: Any) -> None:
    qnode = node(lambda: (prepare(0.3, 0.4), STRUCTURES[name]())[1], shots)
    ours, theirs = bellhop.qjit(qnode)(), qnode()
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)


def with_outcomes(of: Any, x: Any, y: Any) -> Any:
    measure, cond = of
    prepare(x, y)
    first = measure(0)
    cond(first, lambda: qml.RY(x * y + 0.5, wires=1))
    second = measure(1, reset=True)
    third = measure(2, postselect=1)
    qml.CRY(x + 1.0, wires=[2, 1])
    return (
        qml.expval(qml.X(1)),
        qml.probs(wires=[0, 1]),
        qml.var(qml.Z(1)),
        qml.expval(first),
        qml.var(second),
        qml.probs(op=[first, second, third]),
    )


OURS = bellhop.measure, lambda holds, gates: bellhop.cond(holds)(gates)()
THEIRS = qml.measure, lambda holds, gates: qml.cond(holds, gates)()


@pytest.mark.large
def test_mid_circuit_measurements() -> None:
    ours = lambda shots: node(lambda x, y: with_outcomes(OURS, x, y), shots)
    device = qml.device("default.qubit")
    theirs = qml.QNode(lambda x, y: with_outcomes(THEIRS, x, y), device, mcm_method="deferred")
    derivative = bellhop.jacobian(ours(SHOTS), argnums=[0, 1])
    program = bellhop.qjit(lambda *args: (ours([100, SHOTS])(*args)[1], derivative(*args)), seed=4)
    values, derivatives = program(*POINT)
    assert_near(values, theirs(*POINT))
    expected = jax.jit(jax.jacfwd(theirs, argnums=[0, 1]))(*POINT)
    assert_near(derivatives, expected, 2 * ERROR)


def test_samples_of_outcomes() -> None:
    def outcomes(x: Any) -> Any:
        qml.RX(x, wires=0)
        first = bellhop.measure(0)
        qml.CNOT(wires=[0, 1])
        bellhop.cond(first)(lambda: qml.RX(1.0, wires=2))()
        return (
            qml.sample(first),
            qml.sample(wires=1),
            qml.counts([first, bellhop.measure(2)]),
            qml.sample(3 * first + 1),
        )

    first, copied, (numbers, counts), expression = bellhop.qjit(node(outcomes), seed=5)(0.8)
    np.testing.assert_array_equal(first, copied[:, 0])
    np.testing.assert_array_equal(expression, 3 * first + 1)
    np.testing.assert_array_equal(numbers, range(4))
    p, q = np.sin(0.4) ** 2, np.sin(0.5) ** 2
    expected = [1 - p, 0, p * (1 - q), p * q]
    np.testing.assert_allclose(counts / SHOTS, expected, rtol=0, atol=ERROR)
    assert counts[1] == 0


def coin(x: Any) -> Any:
    qml.RY(x, wires=0)
    return qml.sample(wires=0)


HALF = np.pi / 2


@pytest.mark.quick
def test_seeds() -> None:
    one, other, none = (bellhop.qjit(node(coin, 64), seed=seed) for seed in (5, 5, None))
    first, again = one(HALF), one(HALF)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, other(HALF))
    assert not np.array_equal(none(HALF), none(HALF))
    twice = bellhop.qjit(lambda x: (node(coin, 64)(x), node(coin, 64)(x)))(HALF)
    assert not np.array_equal(*twice)


@pytest.mark.parametrize("transform", ["vmap", "broadcasting", "scan", "jit"])
def test_each_circuit_draws_its_own(transform: str) -> None:
    xs = jnp.array([0.0, HALF, HALF, np.pi])
    qnode = node(coin, 64)
    programs: dict[str, Callable[[Any], Any]] = {
        "vmap": bellhop.qjit(jax.vmap(qnode)),
        "broadcasting": bellhop.qjit(qnode),
        "scan": bellhop.qjit(lambda xs: jax.lax.map(qnode, xs)),
        "jit": jax.jit(jax.vmap(bellhop.qjit(qnode))),
    }
    samples = programs[transform](xs)
    assert samples.shape == (4, 64, 1)
    assert samples[0].sum() == 0
    assert samples[3].sum() == 64
    assert not np.array_equal(samples[1], samples[2])


def test_in_a_region() -> None:
    program = bellhop.qjit(bellhop.accelerate(node(coin, 64), dev=jax.devices("cpu")[0]))
    assert program(HALF).shape == (64, 1)


@pytest.mark.large
def test_precision_of_32_bits() -> None:
    with jax.enable_x64(False):
        values = bellhop.qjit(node(circuit), seed=1)(jnp.float32(0.4), jnp.float32(0.7))
    assert values["wires"].dtype == np.float32
    assert_near(values, node(circuit, None)(*POINT))


def word(x: Any) -> Any:
    prepare(x, 0.3)
    return qml.expval(qml.Z(1) @ qml.X(2))


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "second derivative": (
        lambda: bellhop.grad(bellhop.grad(node(word))),
        "the circuit has shots and is differentiated twice",
    ),
    "backpropagation": (
        lambda: bellhop.grad(node(word, diff_method="backprop")),
        "with shots, expected 'best', 'parameter-shift', 'hadamard', 'finite-diff', 'spsa'",
    ),
    "state": (lambda: node(lambda x: qml.state()), "bellhop does not support state with shots"),
    "samples": (
        lambda: bellhop.grad(lambda x: jnp.mean(1.0 * node(coin)(x))),
        "the circuit is differentiated and returns sample, counts",
    ),
    "outcomes of each shot": (
        lambda: bellhop.grad(lambda x: jnp.mean(1.0 * node(drawn_outcome)(x))),
        "returns samples or values computed from mid-circuit outcomes",
    ),
    "an outcome": (
        lambda: bellhop.grad(lambda x: x * node(drawn_outcome, None)(x)),
        "the circuit draws random mid-circuit outcomes",
    ),
}


def drawn_outcome(x: Any) -> Any:
    qml.RX(x, 0)
    return bellhop.measure(0)


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused(name: str) -> None:
    make, message = ERRORS[name]
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(make())(0.3)
