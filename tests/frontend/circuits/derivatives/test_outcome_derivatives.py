"""Derivatives through mid-circuit measurements on Lightning.

They are held against PennyLane's own ``default.qubit``, which defers the measurements and is
not compiled.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.derivatives.constructs import OfBellhop, OfPennyLane

import bellhop

POINT = (jnp.array(0.4), jnp.array(0.7))
MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])


def prepare(x: Any, y: Any) -> None:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    qml.RY(0.3 + x, wires=2)
    qml.CNOT(wires=[0, 1])
    qml.CRX(y, wires=[1, 2])


def results(first: Any, second: Any) -> Any:
    return (
        qml.expval(qml.Y(1) @ qml.X(2)),
        qml.expval(0.4 * qml.X(2) + qml.Z(0)),
        qml.expval(qml.Hermitian(MATRIX, 1)),
        qml.var(qml.Y(2)),
        qml.probs(wires=[0, 2]),
        qml.probs(op=qml.X(2)),
        qml.expval(first),
        qml.var(second),
        qml.probs(op=[first, second]),
    )


def word(first: Any, second: Any) -> Any:
    return qml.expval(qml.Y(1) @ qml.X(2))


def conditional(of: Any, x: Any, y: Any, returned: Any = results) -> Any:
    prepare(x, y)
    first = of.measure(0)
    of.cond(first, lambda: (qml.RY(x * y, wires=1), qml.RX(0.2 - y, wires=2)))
    second = of.measure(1, reset=True)
    qml.RX(0.3 + x, wires=1)
    qml.CNOT(wires=[1, 2])
    return returned(first, second)


def postselected(of: Any, x: Any, y: Any) -> Any:
    prepare(x, y)
    first = of.measure(0)
    of.cond(first, lambda: qml.RY(x * y, wires=1))
    second = of.measure(2, postselect=1)
    qml.CRY(x, wires=[2, 1])
    return results(first, second)


CIRCUITS = {"conditional": conditional, "postselected": postselected}


def lightning(function: Callable[..., Any], **options: Any) -> qml.QNode:
    return qml.QNode(function, qml.device("lightning.qubit", wires=3), **options)


def deferred(function: Callable[..., Any]) -> qml.QNode:
    return qml.QNode(function, qml.device("default.qubit"), mcm_method="deferred")


def joined(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: jnp.hstack(jax.tree.leaves(function(*args)))


@pytest.mark.large
@pytest.mark.parametrize(
    ("name", "transform"),
    [("conditional", "jacobian"), ("postselected", "jacobian"), ("postselected", "hessian")],
)
def test_derivative(assert_close: Any, name: str, transform: str) -> None:
    ours = joined(lightning(lambda x, y: CIRCUITS[name](OfBellhop, x, y)))
    theirs = joined(deferred(lambda x, y: CIRCUITS[name](OfPennyLane, x, y)))
    if transform == "jacobian":
        expected = jax.jit(jax.jacfwd(theirs, argnums=(0, 1)))(*POINT)
        ours = bellhop.jacobian(ours, argnums=(0, 1))
    else:
        # A weighted sum, so that it is one matrix.
        weigh = lambda function: lambda *args: jnp.sin(jnp.arange(16.0)) @ function(*args)
        expected = jax.jit(jax.hessian(weigh(theirs), argnums=(0, 1)))(*POINT)
        ours = jax.jacfwd(jax.grad(weigh(ours), argnums=(0, 1)), argnums=(0, 1))
    assert_close(bellhop.qjit(ours)(*POINT), expected)


def test_angles_computed_from_outcomes(assert_close: Any) -> None:
    """How an angle depends on an argument may depend on the outcomes."""

    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        first = bellhop.measure(0)
        qml.RY(jnp.where(first, x**2, jnp.sin(x)) + 0.1, wires=1)
        second = bellhop.measure(1)
        qml.RX(x * (first + 2.0 * second), wires=2)
        return qml.expval(qml.Z(2))

    def by_hand(x: Any) -> Any:
        total: Any = 0.0
        for first in (0, 1):
            p = jnp.where(first, jnp.sin(x / 2) ** 2, jnp.cos(x / 2) ** 2)
            angle = jnp.where(first, x**2, jnp.sin(x)) + 0.1
            for second in (0, 1):
                q = jnp.where(second, jnp.sin(angle / 2) ** 2, jnp.cos(angle / 2) ** 2)
                total += p * q * jnp.cos(x * (first + 2.0 * second))
        return total

    program = bellhop.qjit(bellhop.value_and_grad(lightning(circuit)))
    assert_close(program(0.7), (by_hand(0.7), jax.grad(by_hand)(0.7)))


@pytest.mark.large
def test_measurements_in_a_loop(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, 3, 1)
        def loop(i: Any, count: Any) -> Any:
            qml.RX(x[i], wires=0)
            qml.CRY(x[i] + 0.2, wires=[0, 1])
            return count + bellhop.measure(0, reset=True)

        count = loop(0)
        qml.RZ(0.3 * count, wires=1)
        return qml.expval(qml.X(1))

    def unrolled(x: Any) -> Any:
        outcomes = []
        for i in range(3):
            qml.RX(x[i], wires=0)
            qml.CRY(x[i] + 0.2, wires=[0, 1])
            outcomes.append(qml.measure(0, reset=True))
        for outcome in outcomes:
            qml.cond(outcome, qml.RZ)(0.3, wires=1)
        return qml.expval(qml.X(1))

    x = jnp.array([0.3, 0.5, -0.8])
    gradient = bellhop.qjit(bellhop.grad(lightning(circuit)))(x)
    assert_close(gradient, jax.jit(jax.grad(deferred(unrolled)))(x))


def test_finite_differences() -> None:
    function = lambda x: conditional(OfBellhop, x, 0.7, word)
    options: dict[str, Any] = {
        "diff_method": "finite-diff",
        "gradient_kwargs": {"h": 1e-4, "approx_order": 2, "strategy": "center"},
    }
    by_differences, by_shifts = (
        bellhop.qjit(bellhop.grad(lightning(function, **chosen)))(0.4) for chosen in (options, {})
    )
    np.testing.assert_allclose(by_differences, by_shifts, atol=1e-7)


def test_outcomes_that_hardly_happen() -> None:
    """Those that do not happen count in a second derivative."""

    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome)(lambda: qml.RX(0.7, wires=1))()
        return qml.expval(outcome), qml.expval(qml.Y(1))

    first = bellhop.qjit(bellhop.jacobian(joined(lightning(circuit))))
    second = bellhop.qjit(jax.jacfwd(jax.jacrev(joined(lightning(circuit)))))
    scale = np.array([1.0, -np.sin(0.7)]) / 2
    for x in (0.0, 1e-9, 1e-6, np.pi):
        np.testing.assert_allclose(first(x), scale * np.sin(x), rtol=0, atol=1e-9)
        np.testing.assert_allclose(second(x), scale * np.cos(x), rtol=0, atol=1e-9)


def until_zero(x: Any) -> Any:
    """Turn until the outcome is zero, at most as often as is likely."""

    @bellhop.while_loop(lambda outcome, _: outcome)
    def again(outcome: Any, count: Any) -> tuple[Any, Any]:
        qml.Hadamard(0)
        return bellhop.measure(0) & True, count + 1

    _, count = again(jnp.array(True), 0)
    qml.RX(x * count, wires=1)
    return qml.expval(qml.Z(1))


@jax.custom_vjp
def sine_of_jax(x: Any) -> Any:
    return jnp.sin(x)


sine_of_jax.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))

sine_of_python = bellhop.pure_callback(np.sin, float)
sine_of_python.fwd(lambda x: (sine_of_python(x), x))
sine_of_python.bwd(lambda x, bar: bar * bellhop.pure_callback(np.cos, float)(x))


def angle_by_an_outcome(sine: Any, x: Any) -> Any:
    qml.RX(x, 0)
    qml.RY(sine(x) * bellhop.measure(0), 1)
    return qml.expval(qml.Z(1))


def angle_in_a_loop_until(sine: Any, x: Any) -> Any:
    bellhop.while_loop(lambda y: y < 2.0)(lambda y: (qml.RY(sine(y), 1), y + 0.7)[1])(x)
    return qml.expval(qml.Z(1))


@pytest.mark.parametrize("circuit", [angle_by_an_outcome, angle_in_a_loop_until])
@pytest.mark.parametrize("sine", [sine_of_jax, sine_of_python])
def test_angles_whose_derivative_is_reverse_only(
    assert_close: Any, sine: Any, circuit: Callable[..., Any]
) -> None:
    by = lambda sine: bellhop.qjit(bellhop.grad(lightning(lambda x: circuit(sine, x))))(0.4)
    assert_close(by(sine), by(jnp.sin))


def test_loop_until_success(assert_close: Any) -> None:
    gradient = bellhop.qjit(bellhop.grad(lightning(until_zero)))(0.3)
    counts = np.arange(1, 60)
    assert_close(gradient, -np.sum(0.5**counts * counts * np.sin(0.3 * counts)))
    twice = bellhop.qjit(bellhop.grad(bellhop.grad(lightning(until_zero))))
    with pytest.raises(bellhop.CircuitError, match="enumerate all outcomes: expected at most 20"):
        twice(0.3)


@pytest.mark.large
def test_coefficients_matrices_and_complex_arguments(assert_close: Any) -> None:
    def circuit(c: Any, matrix: Any, x: Any) -> Any:
        qml.RX(x, wires=0)
        qml.Hadamard(1)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome)(lambda: qml.RY(x, wires=1))()
        hermitian = matrix + jnp.conj(matrix.T)
        return qml.expval(c * qml.X(1) + 2.0 * qml.Z(0)), qml.expval(qml.Hermitian(hermitian, 1))

    def by_hand(c: Any, matrix: Any, x: Any) -> Any:
        p = jnp.sin(x / 2) ** 2
        plus = jnp.array([1.0, 1.0]) / jnp.sqrt(2)
        turned = jnp.array([jnp.cos(x / 2) - jnp.sin(x / 2), jnp.cos(x / 2) + jnp.sin(x / 2)])
        hermitian = matrix + jnp.conj(matrix.T)
        mean = lambda m: (1 - p) * plus @ m @ plus + p * turned @ m @ turned / 2
        observed = c * mean(jnp.array([[0, 1], [1, 0]])) + 2 * (1 - 2 * p)
        return observed, jnp.real(mean(hermitian))

    args = (jnp.array(0.3), jnp.array(MATRIX), jnp.array(0.4))
    total = lambda function: lambda *args: sum(jax.tree.leaves(function(*args)))
    ours = bellhop.qjit(jax.grad(total(lightning(circuit)), argnums=(0, 1, 2)))
    assert_close(ours(*args), jax.grad(total(by_hand), argnums=(0, 1, 2))(*args))


def test_batch(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        return conditional(OfBellhop, x, 0.7, word)

    xs = jnp.array([0.1, 0.4])
    gradient = bellhop.grad(lightning(circuit))
    one = bellhop.qjit(gradient)
    assert_close(bellhop.qjit(jax.vmap(gradient))(xs), np.array([one(x) for x in xs]))


@pytest.mark.parametrize("n", [0, 3])
def test_by_what_no_gate_depends_on(n: int) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(y, wires=0)
        bellhop.measure(0)
        return qml.expval(qml.Z(0)), qml.expval((1 + 0 * jnp.sum(x)) * qml.Z(0))

    slopes = bellhop.qjit(jax.jacobian(circuit))(jnp.ones(n), 0.4)
    for slope in slopes:
        np.testing.assert_array_equal(slope, np.zeros(n))


def test_adjoint_method(assert_close: Any) -> None:
    """The engine goes back through measurements; a plugin does not."""
    adjoint, shifts = (
        bellhop.grad(
            lightning(lambda x: conditional(OfBellhop, x, 0.7, word), diff_method=diff_method)
        )
        for diff_method in ("adjoint", "parameter-shift")
    )
    assert_close(bellhop.qjit(adjoint)(0.4), bellhop.qjit(shifts)(0.4))
    message = "the circuit has mid-circuit measurements that bellhop's engine does not run"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(adjoint, engine="plugin")(0.4)


@pytest.mark.parametrize("options", [{}, {"engine": "plugin"}])
def test_coefficients_in_a_single_branch(options: Any) -> None:
    """Terms are measured after the outcome that was drawn."""

    def circuit(coefficient: Any) -> Any:
        qml.RX(1.0, wires=0)
        bellhop.measure(0, reset=True)
        qml.RX(0.4, wires=0)
        bellhop.measure(1)
        return qml.expval(coefficient * qml.Z(0))

    branch = lightning(circuit, mcm_method="single-branch-statistics")
    program = bellhop.qjit(bellhop.value_and_grad(branch), seed=3, **options)
    value, slope = program(2.0)
    np.testing.assert_allclose([value, slope], [2 * np.cos(0.4), np.cos(0.4)], atol=1e-12)


def test_single_branch() -> None:
    circuit = lightning(
        lambda x: conditional(OfBellhop, x, 0.7, word), mcm_method="single-branch-statistics"
    )
    with pytest.raises(bellhop.DifferentiableCompileError, match="draws random mid-circuit"):
        bellhop.qjit(bellhop.grad(circuit))(0.4)
