"""Circuits with shots: shapes and types as PennyLane's, values near the exact ones.

Seeds are fixed, and tolerances are above five standard errors.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])


def prepare(x: Any) -> None:
    for wire in range(3):
        qml.RY(x + 0.4 * wire, wires=wire)
        qml.RZ(0.7 - 0.2 * wire, wires=wire)
    for wire in range(2):
        qml.CNOT(wires=[wire, wire + 1])


OBSERVABLES: dict[str, Callable[[], Any]] = {
    "pauli x": lambda: qml.X(0),
    "pauli y": lambda: qml.Y(1),
    "hadamard": lambda: qml.Hadamard(2),
    "word": lambda: qml.X(0) @ qml.Y(1) @ qml.Z(2),
    "hermitian": lambda: qml.Hermitian(MATRIX, 1),
    "scaled": lambda: -0.5 * qml.Z(0) @ qml.X(1),
    "projector": lambda: qml.Projector([1, 0], wires=[0, 2]),
    "identity": lambda: qml.Identity(0),
    "product with a matrix": lambda: qml.Hermitian(MATRIX, 0) @ qml.Y(2),
}
SUMS: dict[str, Callable[[], Any]] = {
    "sum": lambda: qml.X(0) + 0.5 * qml.Z(0) + qml.Y(1) @ qml.Y(2),
    "hamiltonian": lambda: qml.Hamiltonian([0.3, -1.2, 0.4], [qml.Z(0), qml.X(1), qml.I(0)]),
}

SHOTS = 4000


def measured(measure: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda x: (prepare(x), measure())[1]


@pytest.mark.filterwarnings("ignore:Using qp.probs with a Hermitian")
@pytest.mark.parametrize("name", [*OBSERVABLES, *SUMS])
def test_estimates_of_observables(lightning: Any, reference: Any, name: str) -> None:
    observable = (OBSERVABLES | SUMS)[name]
    exact = reference(measured(lambda: [qml.expval(observable()), qml.var(observable())]), 3)

    def statistics() -> Any:
        made = observable()
        common = qml.expval(made), qml.var(made), qml.sample(made), qml.counts(made)
        return common if name in SUMS else (*common, qml.probs(op=made))

    node = qml.set_shots(lightning(measured(statistics), 3), SHOTS)
    mean, variance, samples, (values, counts), *probs = bellhop.qjit(node, seed=1)(0.4)
    expected_mean, expected_variance = exact(0.4)
    error = 6 * np.sqrt(abs(expected_variance) / SHOTS) + 1e-9
    np.testing.assert_allclose(mean, expected_mean, atol=3 * error if name in SUMS else error)
    np.testing.assert_allclose(variance, expected_variance, atol=0.2)
    assert samples.shape == (SHOTS,)
    assert samples.dtype == np.float64
    np.testing.assert_allclose(np.var(samples), variance)
    eigenvalues = np.unique(np.round(np.linalg.eigvalsh(qml.matrix(observable())), 12))
    np.testing.assert_allclose(values, eigenvalues, atol=1e-9)
    assert counts.sum() == SHOTS
    np.testing.assert_allclose(values @ counts / SHOTS, np.mean(samples), atol=1e-9)
    if probs:
        expected = reference(measured(lambda: qml.probs(op=observable())), 3)(0.4)
        assert probs[0].shape == np.shape(expected)
        np.testing.assert_allclose(probs[0], expected, atol=0.05)


@pytest.mark.parametrize("wires", [None, [0], [2, 0], [1, 2, 0]])
def test_samples_of_wires(lightning: Any, reference: Any, wires: Any) -> None:
    def statistics() -> Any:
        return qml.sample(wires=wires), qml.counts(wires=wires), qml.probs(wires=wires)

    node = qml.set_shots(lightning(measured(statistics), 3), SHOTS)
    bits, (outcomes, counts), frequencies = bellhop.qjit(node, seed=2)(0.4)
    count = 3 if wires is None else len(wires)
    assert bits.shape == (SHOTS, count)
    assert bits.dtype == np.int64
    indices = np.asarray(bits) @ 2 ** np.arange(count)[::-1]
    np.testing.assert_array_equal(outcomes, range(2**count))
    np.testing.assert_array_equal(counts, np.bincount(indices, minlength=2**count))
    np.testing.assert_allclose(frequencies, counts / SHOTS, rtol=1e-15)
    expected = reference(measured(lambda: qml.probs(wires=wires or range(3))), 3)(0.4)
    np.testing.assert_allclose(frequencies, expected, atol=0.04)


STRUCTURES: dict[str, Callable[[], Any]] = {
    "one": lambda: qml.expval(qml.Z(0)),
    "tuple": lambda: (qml.sample(wires=[0, 1]), qml.expval(qml.Z(0)), qml.sample(qml.X(0))),
    "dict": lambda: {"a": qml.probs(wires=1), "b": qml.var(qml.X(0))},
    "dtype": lambda: (qml.sample(wires=0, dtype="int8"), qml.sample(qml.Z(0), dtype="float32")),
}


@pytest.mark.parametrize("shots", [1, 3, [4], [2, 3], [1, (3, 2)]])
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_is_that_of_pennylane(lightning: Any, name: str, shots: Any) -> None:
    node = qml.set_shots(lightning(measured(STRUCTURES[name]), 3), shots)
    ours, theirs = bellhop.qjit(node)(0.4), node(0.4)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)


def test_shots_of_the_device_and_of_the_qnode() -> None:
    with pytest.warns(qml.exceptions.PennyLaneDeprecationWarning):
        device = qml.device("lightning.qubit", wires=1, shots=7)
    for node in (
        qml.QNode(lambda: qml.sample(wires=0), device),
        qml.QNode(lambda: qml.sample(wires=0), qml.device("lightning.qubit", wires=1), shots=7),
    ):
        assert bellhop.qjit(node)().shape == (7, 1)


@pytest.fixture(scope="module")
def coins() -> Any:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        return qml.sample(wires=0)

    return qml.set_shots(qml.QNode(circuit, qml.device("lightning.qubit", wires=1)), 64)


HALF = np.pi / 2


def test_seeds(coins: Any) -> None:
    one, other, none = (bellhop.qjit(coins, seed=seed) for seed in (5, 5, None))
    first, again = one(HALF), one(HALF)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, other(HALF))
    assert not np.array_equal(first, none(HALF))
    assert not np.array_equal(none(HALF), none(HALF))


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**64, ValueError), (0.5, TypeError), ("a", TypeError)]
)
def test_bad_seeds(seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bellhop.qjit(lambda x: x, seed=seed)


def test_batch_of_circuits_with_shots(coins: Any) -> None:
    samples = bellhop.qjit(jax.vmap(coins), seed=5)(jnp.array([0.0, HALF, HALF, np.pi]))
    assert samples.shape == (4, 64, 1)
    assert samples[0].sum() == 0
    assert samples[3].sum() == 64
    assert not np.array_equal(samples[1], samples[2])


def test_measurements_that_agree_share_samples(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        return qml.expval(qml.X(0)), qml.sample(qml.X(0) @ qml.Y(1)), qml.sample(qml.Y(1))

    node = qml.set_shots(lightning(circuit, 3), 50)
    mean, product, factor = bellhop.qjit(node)(0.4)
    np.testing.assert_allclose(np.mean(product * factor), mean)


OF_SHARED_WIRES = {
    "a sum after one of its terms": lambda i: (
        qml.expval(qml.X(1)),
        qml.var(qml.X(0) + qml.X(1)),
        qml.var(qml.X(0)),
    ),
    "a sum before one of its terms": lambda i: (
        qml.var(qml.Y(0) + qml.Y(1)),
        qml.expval(qml.Y(0)),
        qml.var(qml.Y(1)),
    ),
    "two sums": lambda i: (
        qml.var(qml.X(0) + qml.X(1)),
        qml.var(qml.X(2) + qml.X(1)),
        qml.expval(qml.X(2)),
    ),
    "a traced wire": lambda i: (
        qml.var(qml.X(1)),
        qml.var(qml.X(i)),
        qml.expval(0.5 * qml.X(0) + qml.Z(0)),
    ),
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "default.mixed"])
@pytest.mark.parametrize("name", OF_SHARED_WIRES)
def test_sums_share_some_of_their_wires(name: str, device: str) -> None:
    """A wire that an earlier measurement has rotated to the basis is not rotated again."""

    def measure(i: Any) -> Any:
        qml.RX(0.3, 0)
        qml.RY(0.4, 1)
        qml.CNOT([0, 2])
        return OF_SHARED_WIRES[name](i)

    node = qml.QNode(measure, qml.device(device, wires=3))
    estimates = bellhop.qjit(qml.set_shots(node, 40_000))(2)
    expected = qml.QNode(measure, qml.device("default.qubit", wires=3))(2)
    np.testing.assert_allclose(estimates, expected, atol=0.06)


def test_derivative_by_coefficients(lightning: Any) -> None:
    def circuit(c: Any, x: Any) -> Any:
        qml.RY(x, wires=0)
        return qml.expval(c * qml.Z(0) + 0.5 * qml.X(0))

    node = qml.set_shots(lightning(circuit), 2000)
    derivative = bellhop.qjit(bellhop.grad(node), seed=1)(0.3, 0.4)
    np.testing.assert_allclose(derivative, np.cos(0.4), atol=0.06)


def test_observable_that_the_program_computes(lightning: Any) -> None:
    def observable(x: Any) -> Any:
        return qml.Hermitian(jnp.array([[x, 1.0], [1.0, -x]]), 0)

    def circuit(x: Any) -> Any:
        prepare(0.4)
        return qml.expval(observable(x)), qml.sample(observable(x))

    def exact(x: Any) -> Any:
        prepare(0.4)
        return qml.expval(observable(x))

    mean, samples = bellhop.qjit(qml.set_shots(lightning(circuit, 3), SHOTS), seed=1)(0.5)
    np.testing.assert_allclose(np.unique(samples), [-np.sqrt(1.25), np.sqrt(1.25)])
    np.testing.assert_allclose(mean, bellhop.qjit(lightning(exact, 3))(0.5), atol=0.12)


COMPILE_ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "state": (qml.state, "bellhop does not support state with shots. Measure expval"),
    "entropy": (lambda: qml.vn_entropy(0), "bellhop does not support vn_entropy with shots"),
}


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_what_has_no_shots(lightning: Any, name: str) -> None:
    body, message = COMPILE_ERRORS[name]
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(qml.set_shots(lightning(body), 5))()


def two_samples(name, device_seed, **options):
    options_of_device = {} if device_seed is None else {"seed": device_seed}
    device = qml.device(name, wires=1, **options_of_device)

    @bellhop.qjit(**options)
    @qml.set_shots(64)
    @qml.qnode(device)
    def circuit():
        qml.Hadamard(0)
        return qml.sample(wires=0)

    first, second = circuit(), circuit()
    # The seed of a device is that of a sequence of calls.
    assert np.array_equal(first, second) == ("seed" in options)
    return np.array([first, second]).tobytes()


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_the_seed_of_a_device_is_that_of_programs_without_one(name):
    samples = partial(two_samples, name)
    assert samples(3) == samples(3) != samples(4)
    assert samples(None) != samples(None)


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
def test_the_seed_of_a_program_comes_before_that_of_a_device(name):
    samples = partial(two_samples, name, seed=5)
    assert samples(3) == samples(4) == samples(None)


def test_programs_of_one_device_have_outcomes_of_their_own():
    device = qml.device("lightning.qubit", wires=1, seed=3)

    def circuit():
        qml.Hadamard(0)
        return qml.sample(wires=0)

    qnode = qml.set_shots(qml.QNode(circuit, device), 64)
    one, other = bellhop.qjit(lambda: qnode())(), bellhop.qjit(lambda: qnode())()
    assert np.asarray(one).tobytes() != np.asarray(other).tobytes()


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "default.mixed"])
@pytest.mark.parametrize("measures", [False, True])
def test_outcomes_of_no_number_are_not_drawn(measures: bool, device: str) -> None:
    @bellhop.qjit
    @qml.set_shots(8)
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        if measures:
            bellhop.measure(0)
        return qml.sample(wires=0)

    with pytest.raises(bellhop.CircuitError, match="probabilities of outcomes are NaN"):
        circuit(np.nan)
    assert np.asarray(circuit(np.pi)).all()
