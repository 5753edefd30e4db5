"""Mid-circuit measurements on default.qubit: exact, and differentiated, against PennyLane."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

POINT = 0.4, 0.7


def straight(x: Any, y: Any, measure: Any, cond: Any) -> Any:
    qml.RX(x, 0)
    qml.CRY(y, [0, 1])
    first = measure(0)
    cond(first, qml.RY, qml.RZ)(x, 1)
    second = measure(1, reset=True)
    cond(second, qml.RX)(y, 1)
    qml.CRX(x * y, [1, 0])
    return (
        qml.expval(qml.Z(0) @ qml.Y(1)),
        qml.expval(first),
        qml.probs(op=[first, second]),
        qml.probs(wires=1),
        qml.var(qml.X(1) + 0.5 * qml.Z(0)),
        qml.var(second),
        qml.probs(op=qml.Y(0)),
    )


def postselected(x: Any, y: Any, measure: Any, cond: Any) -> Any:
    qml.RX(x, 0)
    qml.CRY(y, [0, 1])
    measure(0, postselect=1)
    second = measure(1)
    cond(second, qml.RY)(x, 0)
    return qml.expval(qml.X(0)), qml.probs(op=[second]), qml.var(qml.Z(0))


@pytest.mark.parametrize("circuit", [pytest.param(straight, marks=pytest.mark.large), postselected])
def test_values_and_gradient(circuit: Any) -> None:
    compiled = qml.QNode(
        lambda x, y: circuit(x, y, bellhop.measure, bellhop.cond),
        qml.device("default.qubit", wires=2),
    )
    reference = qml.QNode(
        lambda x, y: circuit(x, y, qml.measure, qml.cond), qml.device("default.qubit")
    )
    ours = lambda x, y: jnp.hstack(compiled(x, y))
    both = bellhop.qjit(lambda *args: (ours(*args), bellhop.jacobian(ours, argnums=[0, 1])(*args)))
    value, slope = both(*POINT)
    np.testing.assert_allclose(value, np.hstack(reference(*POINT)), rtol=0, atol=1e-9)
    variables = [qml.numpy.array(number, requires_grad=True) for number in POINT]
    joined = lambda x, y: qml.math.hstack(reference(x, y))
    expected = qml.jacobian(joined, argnums=[0, 1])(*variables)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-9)


def in_control_flow(x: Any) -> Any:
    """A loop of measurements, and branches with one, two and none."""
    qml.RX(x, 0)

    @bellhop.for_loop(0, 2)
    def loop(i: Any, count: Any) -> Any:
        qml.RY(0.5 * x, 0)
        return count + bellhop.measure(0, reset=True)

    def two() -> Any:
        qml.RX(x, 0)
        return bellhop.measure(0) + bellhop.measure(0, reset=True)

    count = loop(0)
    more = bellhop.cond(count == 1, two, lambda: 0 * count)()
    qml.RX(x * (count + more), 0)
    return qml.expval(qml.Z(0)), qml.probs(wires=0)


def by_hand(x: float) -> tuple[Any, Any]:
    """Go through the ways that the circuit above can take."""
    amplitudes = qml.RY.compute_matrix(x / 2) @ qml.RX.compute_matrix(x)[:, 0]
    first = abs(amplitudes[1]) ** 2
    second = np.sin(x / 4) ** 2
    ways = {
        0: (1 - first) * (1 - second),
        1: first * (1 - second) + (1 - first) * second,
        2: first * second,
    }
    flips = np.sin(x / 2) ** 2
    energy = ways[0] + ways[2] * np.cos(2 * x)
    energy += ways[1] * ((1 - flips) * np.cos(x) + flips * np.cos(3 * x))
    return energy, np.array([1 + energy, 1 - energy]) / 2


@pytest.mark.large
def test_control_flow() -> None:
    circuit = qml.QNode(in_control_flow, qml.device("default.qubit", wires=1))
    energy, probs = bellhop.qjit(circuit)(0.7)
    expected = by_hand(0.7)
    np.testing.assert_allclose(energy, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(probs, expected[1], rtol=0, atol=1e-12)
    slope = bellhop.qjit(bellhop.grad(lambda x: circuit(x)[0]))(0.7)
    step = 1e-5
    assert slope == pytest.approx(
        (by_hand(0.7 + step)[0] - by_hand(0.7 - step)[0]) / (2 * step), abs=1e-8
    )


def test_outcome_in_a_callback_and_in_a_region() -> None:
    @bellhop.pure_callback
    def angle(m: Any) -> float:
        return 0.3 + m

    @qml.qnode(qml.device("default.qubit", wires=2))
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        qml.RX(angle(bellhop.measure(0)), 1)
        return qml.expval(qml.Z(1))

    region = bellhop.accelerate(lambda x: 2 * x, dev=jax.devices("cpu")[1])
    values = bellhop.qjit(bellhop.vmap(lambda x: region(circuit(x))))(jnp.array([0.2, 0.9]))
    odds = np.sin(np.array([0.1, 0.45])) ** 2
    expected = 2 * ((1 - odds) * np.cos(0.3) + odds * np.cos(1.3))
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def in_loop(n_iterations: Any) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        n = n_iterations if isinstance(n_iterations, int) else jnp.asarray(x, int)

        @bellhop.for_loop(0, n)
        def loop(i: Any) -> None:
            bellhop.measure(0)

        loop()
        return qml.expval(qml.Z(0))

    return body


def in_while(x: Any) -> Any:
    bellhop.while_loop(lambda m: m)(lambda m: bellhop.measure(0))(x > 0)
    return qml.expval(qml.Z(0))


def then(measured: Callable[[], Any]) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        bellhop.measure(0)
        return measured()

    return body


# The engine has neither limit.
IN_PROGRAM = {"diff_method": "backprop"}

ERRORS: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "too many": (
        in_loop(13),
        IN_PROGRAM,
        "expected at most 12 outcomes in use at the same time, got 13",
    ),
    "dynamic loop": (
        in_loop(None),
        IN_PROGRAM,
        "a mid-circuit measurement is in a for_loop with traced bounds",
    ),
    "while loop": (in_while, IN_PROGRAM, "a mid-circuit measurement is in a while_loop"),
    "state": (then(qml.state), {}, "state after mid-circuit measurements, which give a mixture"),
    "method": (
        then(lambda: qml.expval(qml.Z(0))),
        {"mcm_method": "one-shot"},
        "mcm_method='one-shot' needs shots",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_names_the_circuit(name: str) -> None:
    body, options, message = ERRORS[name]

    @qml.qnode(qml.device("default.qubit", wires=1), **options)
    def failing(x: Any) -> Any:
        return body(x)

    with pytest.raises(bellhop.CompileError, match=f"the QNode 'failing'.*{re.escape(message)}"):
        bellhop.qjit(failing)(3.0)


@pytest.mark.parametrize("device", ["default.qubit", "default.mixed"])
def test_postselections_are_no_outcomes_to_go_through(device: str) -> None:
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x: Any, n: Any) -> Any:
        qml.H(1)

        @bellhop.for_loop(0, n, 1)
        def attempt(_: Any) -> None:
            qml.CRX(x, [1, 0])
            bellhop.measure(0, postselect=0)

        attempt()
        return qml.expval(qml.Z(1))

    def by_hand(x: Any, n: int) -> Any:
        kept = jnp.cos(x / 2) ** (2 * n)
        return (1 - kept) / (1 + kept)

    known = bellhop.qjit(bellhop.value_and_grad(lambda x: circuit(x, 14)))
    np.testing.assert_allclose(known(0.4), jax.value_and_grad(by_hand)(0.4, 14), atol=1e-10)
    np.testing.assert_allclose(bellhop.qjit(circuit)(0.4, 14), by_hand(0.4, 14), atol=1e-10)
