"""Derivatives by values at shifted parameters, in loops whose length the program computes.

They are held against PennyLane's own ``default.qubit``, which is not compiled, and whose loops are
Python's.
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

WIRES = 3
THETA = jnp.linspace(0.2, 1.1, 5)
X = jnp.array(0.4)
MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])


def carried(of: Any, theta: Any, x: Any, n: Any) -> None:
    """Take gates of other frequencies in one loop, and gates outside of it."""
    qml.RX(x, wires=0)

    def body(i: Any, y: Any) -> Any:
        qml.RY(theta[i] * y, wires=0)
        qml.CNOT([0, 1])
        qml.CRZ(y**2 + theta[i], wires=[1, 2])
        qml.RX(y, wires=2)
        return jnp.sin(y) + theta[i]

    qml.RX(of.loop(n, body, x), wires=1)


def nested(of: Any, theta: Any, x: Any, n: Any) -> None:
    """Take a loop of known length around one of unknown length."""

    def outer(j: Any, y: Any) -> Any:
        qml.RX(y, wires=1)
        return of.loop(n, lambda i, y: (qml.RY(theta[i] + y, wires=0), y * x)[1], y)

    y = of.loop(2, outer, x)
    qml.CNOT([0, 2])
    qml.RX(y, wires=2)


def measured_outside(of: Any, theta: Any, x: Any, n: Any) -> None:
    qml.RX(0.9 + x, wires=1)
    outcome = of.measure(1)
    of.cond(outcome, lambda: qml.RY(x, wires=0))
    y = of.loop(n, lambda i, y: (qml.RX(y, wires=0), qml.CRY(theta[i], [0, 2]), y + x)[2], x)
    qml.RX(y, wires=1)


def measured_inside(of: Any, theta: Any, x: Any, n: Any) -> None:
    """Do in each iteration what its outcome says."""

    def body(i: Any, y: Any) -> Any:
        qml.RX(y, wires=0)
        outcome = of.measure(0, reset=True)
        of.cond(outcome, lambda: qml.RY(theta[i] * y, wires=1))
        qml.CRX(y, wires=[1, 2])
        return y + theta[i]

    qml.RX(of.loop(n, body, x), wires=1)


def results() -> tuple[Any, ...]:
    return (
        qml.expval(qml.Z(0) + 0.3 * qml.X(1) @ qml.Z(2)),
        qml.var(qml.Y(1)),
        qml.var(qml.Hermitian(MATRIX, 2)),
        qml.probs(wires=[0, 2]),
        qml.probs(op=qml.X(1)),
    )


def qnode(function: Callable[..., None], of: Any, device: str, **options: Any) -> Any:
    @qml.qnode(qml.device(device, wires=None if of is OfPennyLane else WIRES), **options)
    def circuit(theta: Any, x: Any, n: Any) -> Any:
        function(of, theta, x, n)
        return results()

    return lambda *args: jnp.hstack(jax.tree.leaves(circuit(*args)))


def reference(function: Callable[..., None], n: int) -> Any:
    theirs = qnode(function, OfPennyLane, "default.qubit", mcm_method="deferred")
    jacobian = jax.jacfwd(lambda theta, x: theirs(theta, x, n), argnums=(0, 1))
    return jax.jit(jacobian)(THETA, X)


@pytest.mark.large
@pytest.mark.parametrize(
    ("function", "method"),
    [
        pytest.param(carried, "best", marks=pytest.mark.quick),
        (carried, "finite-diff"),
        (nested, "best"),
        (measured_outside, "best"),
        (measured_inside, "best"),
    ],
)
def test_derivatives(function: Any, method: str) -> None:
    ours = qnode(function, OfBellhop, "lightning.qubit", diff_method=method)
    compiled = bellhop.qjit(bellhop.jacobian(ours, argnums=(0, 1)))
    atol = 1e-5 if method == "finite-diff" else 1e-9
    for n in (0, 2):
        for got, expected in zip(compiled(THETA, X, n), reference(function, n), strict=True):
            np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


@pytest.mark.large
def test_of_expectation_values_alone() -> None:
    """What the adjoint method does as well, asked for by name."""

    def circuit(theta: Any, x: Any, n: Any) -> Any:
        carried(OfBellhop, theta, x, n)
        return qml.expval(qml.Z(0) @ qml.Y(1))

    device = qml.device("lightning.qubit", wires=WIRES)
    slopes = [
        bellhop.qjit(bellhop.grad(qml.QNode(circuit, device, diff_method=m), argnums=(0, 1)))
        for m in ("parameter-shift", "adjoint")
    ]
    by_shifts, by_adjoint = (slope(THETA, X, 4) for slope in slopes)
    for one, other in zip(by_shifts, by_adjoint, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_until_an_outcome() -> None:
    """The length of the loop depends on outcomes: they are those of the way forward."""

    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any, n: Any) -> Any:
        @bellhop.while_loop(lambda i, one, y: (i < n) & one)
        def loop(i: Any, one: Any, y: Any) -> Any:
            qml.RY(x, wires=0)
            one = bellhop.measure(0, reset=True)
            return i + 1, one, y + 0.5 * one

        _, _, y = loop(0, True, x)
        qml.RX(y, wires=1)
        return qml.expval(qml.Z(1))

    def expected(x: Any, n: int) -> Any:
        one = jnp.sin(x / 2) ** 2
        ends = [one**k * (1 - one) * jnp.cos(x + 0.5 * k) for k in range(n)]
        return sum(ends) + one**n * jnp.cos(x + 0.5 * n)

    slope = bellhop.qjit(bellhop.value_and_grad(circuit))
    for n in (1, 3):
        np.testing.assert_allclose(slope(1.1, n), jax.value_and_grad(expected)(1.1, n), atol=1e-9)


@pytest.mark.large
def test_batches() -> None:
    ours = qnode(measured_inside, OfBellhop, "lightning.qubit")
    jacobian = bellhop.jacobian(ours, argnums=1)
    xs = jnp.array([0.4, -0.9])
    found = bellhop.qjit(jax.vmap(jacobian, (None, 0, None)))(THETA, xs, 2)
    theirs = qnode(measured_inside, OfPennyLane, "default.qubit", mcm_method="deferred")
    reference = jax.jit(jax.jacfwd(lambda x: theirs(THETA, x, 2)))
    for row, x in zip(found, xs, strict=True):
        np.testing.assert_allclose(row, reference(x), rtol=0, atol=1e-9)


def test_with_shots() -> None:
    shots = 20_000

    @qml.qnode(qml.device("lightning.qubit", wires=1), shots=shots)
    def circuit(x: Any, n: Any) -> Any:
        bellhop.for_loop(0, n, 1)(lambda i, y: (qml.RX(y, wires=0), y + x)[1])(x)
        return qml.expval(qml.Z(0))

    # The angles add up: x + 2 x + 3 x.
    slope = bellhop.qjit(bellhop.grad(circuit), seed=3)(0.2, 3)
    np.testing.assert_allclose(slope, -6 * np.sin(1.2), atol=5 * 6 / np.sqrt(shots))


def test_a_gate_without_a_rule() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=4), diff_method="parameter-shift")
    def circuit(x: Any, n: Any) -> Any:
        matrix = lambda y: jnp.array([[jnp.cos(y), -jnp.sin(y)], [jnp.sin(y), jnp.cos(y)]])
        bellhop.for_loop(0, n, 1)(lambda i: qml.QubitUnitary(matrix(x), wires=0))()
        return qml.probs(wires=0)

    compiled = bellhop.qjit(bellhop.jacobian(circuit))
    # A matrix of one qubit is three rotations to a derivative.
    expected = [-np.sin(2 * 0.9) * 3, np.sin(2 * 0.9) * 3]
    np.testing.assert_allclose(compiled(0.3, 3), expected, atol=1e-9)
