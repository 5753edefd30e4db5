"""Classical shadows: outcomes of wires in random bases, and expectation values of them.

Seeds are fixed, and tolerances are above five standard errors.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ("default.qubit", "lightning.qubit", "default.mixed")
SHOTS = 4000
# A word of one or two factors is 3 or 9 in a third or a ninth of the shots.
TOLERANCE = 0.3


def prepared(x: Any) -> None:
    qml.RX(x, wires="a")
    qml.RY(2 * x, wires="b")
    qml.CNOT(wires=["a", "b"])


def node(name: str, measure: Any, shots: Any = SHOTS, **options: Any) -> Any:
    def circuit(x: Any) -> Any:
        prepared(x)
        return measure()

    return qml.set_shots(qml.QNode(circuit, qml.device(name, wires=["a", "b"]), **options), shots)


def observables() -> list[Any]:
    """Return sums of words, whose coefficients may be computed, and what is made of words."""
    product = qml.Z("a") @ qml.X("b")
    return [qml.Y("a"), 0.5 * product + 0.3 * qml.Y("a") + qml.Identity("b"), qml.Hadamard("a")]


def exact(x: float) -> Any:
    y, product = -np.sin(x) * np.sin(2 * x), np.cos(x) * np.sin(2 * x)
    return np.array([y, 0.5 * product + 0.3 * y + 1, np.cos(x) / np.sqrt(2)])


@pytest.mark.parametrize("name", DEVICES)
def test_bases_are_those_of_the_seed_and_bits_those_of_the_state(name: str) -> None:
    shadow = node(name, lambda: qml.classical_shadow(wires=["b", "a"], seed=3))
    bits, bases = bellhop.qjit(shadow, seed=2)(0.7)
    assert bits.dtype == bases.dtype == np.int8
    np.testing.assert_array_equal(bases, np.random.RandomState(3).randint(0, 3, (SHOTS, 2)))
    found = qml.ClassicalShadow(np.asarray(bits), np.asarray(bases), wire_map=["b", "a"])
    values = found.expval([qml.Y("a"), qml.Z("a") @ qml.X("b")])
    word = np.sin(1.4) * np.cos(0.7)
    np.testing.assert_allclose(values, [-np.sin(0.7) * np.sin(1.4), word], atol=TOLERANCE)


@pytest.mark.parametrize("name", DEVICES)
def test_each_run_has_other_bases_where_there_is_no_seed(name: str) -> None:
    shadow = bellhop.qjit(node(name, lambda: qml.classical_shadow(wires=["a", "b"]), 60))
    one, other = shadow(0.7)[1], shadow(0.7)[1]
    assert np.any(one != other)
    assert set(np.unique(one)) == {0, 1, 2}


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_expectation_values_and_their_derivatives(name: str) -> None:
    measured = node(name, lambda: qml.shadow_expval(observables()))
    values, slopes = bellhop.qjit(lambda x: jax.jvp(measured, (x,), (1.0,)), seed=5)(0.7)
    np.testing.assert_allclose(values, exact(0.7), atol=TOLERANCE)
    differences = (exact(0.7 + 1e-5) - exact(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slopes, differences, atol=TOLERANCE)


def test_the_device_that_python_calls_differentiates_them() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.shadow_expval(qml.Z(0))

    device = qml.device("default.mixed", wires=1)
    measured = qml.set_shots(qml.QNode(circuit, device), 1000)
    slope = bellhop.qjit(bellhop.grad(measured), seed=5)(0.7)
    np.testing.assert_allclose(slope, -np.sin(0.7), atol=TOLERANCE)


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_the_value_is_the_median_of_means_of_parts(name: str) -> None:
    """All shots measure Z of a state that is known, so each mean counts those that measure it."""

    def circuit() -> Any:
        return [qml.shadow_expval(2 * qml.Z(0), k=k, seed=4) for k in (1, 3)]

    plain = qml.set_shots(qml.QNode(circuit, qml.device(name, wires=1)), 10)
    values = bellhop.qjit(plain)()
    of_shots = 6.0 * (np.random.RandomState(4).randint(0, 3, 10) == 2)
    parts = of_shots[:4], of_shots[4:8], of_shots[8:]
    np.testing.assert_allclose(values, [np.mean(of_shots), np.median([*map(np.mean, parts)])])


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_after_measurements_in_the_middle_with_a_vector_of_shots(name: str) -> None:
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, 0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome, lambda: qml.RY(y, 1))()
        return qml.shadow_expval(qml.Z(1))

    plain = qml.set_shots(qml.QNode(circuit, qml.device(name, wires=2)), (500, 300))
    values = bellhop.qjit(plain, seed=1)(1.2, 0.7)
    expected = np.cos(0.6) ** 2 + np.sin(0.6) ** 2 * np.cos(0.7)
    np.testing.assert_allclose(values, [expected] * 2, atol=0.35)


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_of_a_batch(name: str) -> None:
    measured = node(name, lambda: qml.shadow_expval(qml.Z("a")))
    xs = jnp.array([0.0, 0.7, 2.0])
    values = bellhop.qjit(lambda xs: jax.vmap(measured)(xs), seed=4)(xs)
    np.testing.assert_allclose(values, np.cos(xs), atol=0.2)


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_shots_that_postselection_drops_are_marked(name: str) -> None:
    def circuit() -> Any:
        qml.H(0)
        qml.CNOT([0, 1])
        bellhop.measure(0, postselect=1)
        return qml.classical_shadow(wires=1)

    node = qml.QNode(circuit, qml.device(name, wires=2), postselect_mode="hw-like")
    bits, bases = np.asarray(bellhop.qjit(qml.set_shots(node, 200), seed=1)())[..., 0]
    kept = bits >= 0
    assert 60 < kept.sum() < 140
    # The least value of the type: -2147483648 is too large for it.
    assert set(bits[~kept]) == set(bases[~kept]) == {-128}
    assert set(bits[kept & (bases == 2)]) == {1}
    assert set(bases[kept]) == {0, 1, 2}


def with_outcome(measure: Any) -> Any:
    def circuit(x: Any) -> Any:
        prepared(x)
        bellhop.measure("a")
        return measure()

    return qml.set_shots(qml.QNode(circuit, qml.device("lightning.qubit", wires=["a", "b"])), 10)


def shadow(**options: Any) -> Any:
    return lambda: qml.classical_shadow(wires="a", **options)


def expectation(**options: Any) -> Any:
    return lambda: qml.shadow_expval(qml.Z("a"), **options)


ERRORS = {
    "no shots": (
        node("default.qubit", expectation(), None),
        "shadow_expval needs shots, and the QNode has none. Set them",
    ),
    "empty parts": (
        node("default.qubit", expectation(k=9), 10),
        "bellhop does not support shadow_expval with k=9 and 10 shots. Use k=1, or another",
    ),
    "parts of shots that run alone": (
        with_outcome(expectation(k=2)),
        "shadow_expval with k=2 where each shot is a separate execution",
    ),
    "a seed of shots that run alone": (
        with_outcome(shadow(seed=1)),
        "classical_shadow with a seed of its own after mid-circuit measurements",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    circuit, message = ERRORS[name]
    with pytest.raises(bellhop.CompileError) as caught:
        bellhop.qjit(circuit)(0.3)
    assert message in str(caught.value)
    assert "test_shadows.py:" in str(caught.value)


def test_bits_have_no_derivative() -> None:
    bits = node("lightning.qubit", lambda: qml.classical_shadow(wires=["a"]), 5)
    with pytest.raises(
        bellhop.DifferentiableCompileError,
        match="returns classical_shadow, whose bits have no derivative",
    ):
        bellhop.qjit(jax.jacobian(lambda x: bits(x).astype(float)))(0.3)
