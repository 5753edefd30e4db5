"""Second and higher derivatives of circuits in loops whose length the program computes.

They are held against uncompiled ``default.qubit`` and against formulas.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.derivatives import test_loops_of_unknown_length as loops
from tests.frontend.circuits.derivatives import test_shifts_in_dynamic_loops as shifts
from tests.frontend.circuits.derivatives.constructs import OfBellhop, OfPennyLane

import bellhop

pytestmark = pytest.mark.hessian

THETA = jnp.linspace(0.2, 1.1, 3)
X = 0.4
ONE_WIRE = qml.device("lightning.qubit", wires=1)


def assert_close(got: Any, expected: Any, atol: float = 1e-9) -> None:
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def test_hessians_of_expectation_values() -> None:
    """By the adjoint method, at shifted parameters."""
    ours = loops.measured(loops.with_branches, loops.LIGHTNING)
    hessian = bellhop.jacobian(bellhop.jacobian(ours, argnums=[0, 1]), argnums=[0, 1])
    compiled = bellhop.qjit(hessian)
    reference = jax.hessian(loops.measured(loops.with_branches, loops.DEFAULT), argnums=(0, 1))
    for n in (0, 3):
        assert_close(compiled(THETA, X, n), reference(THETA, X, n))


@pytest.mark.parametrize("function", [shifts.carried, shifts.measured_inside])
def test_hessians_by_shifts(function: Any) -> None:
    """Of variances and probabilities too, and after measurements in the loop."""
    ours = shifts.qnode(function, OfBellhop, "lightning.qubit")
    theirs = shifts.qnode(function, OfPennyLane, "default.qubit", mcm_method="deferred")
    compiled = bellhop.qjit(bellhop.jacobian(bellhop.jacobian(ours, argnums=1), argnums=1))
    reference = jax.jacobian(jax.jacobian(theirs, argnums=1), argnums=1)
    x = jnp.array(X)
    assert_close(compiled(THETA, x, 2), reference(THETA, x, 2))


def one_angle(x: Any, n: Any) -> Any:
    """Turn by ``x + x**2 + ... + x**n``."""
    bellhop.for_loop(0, n, 1)(lambda i, y: (qml.RX(y, wires=0), y * x)[1])(x)
    return qml.expval(qml.Z(0))


def formula(x: Any, n: int) -> Any:
    return jnp.cos(sum(x**k for k in range(1, n + 1)))


METHODS = ["adjoint", "parameter-shift"]


@pytest.mark.quick
def test_through_measurements_in_the_loop() -> None:
    """Each of ``n`` measurements takes away what the rotation turned: the value is cos(x)^n."""

    @qml.qnode(ONE_WIRE)
    def circuit(x: Any, n: Any) -> Any:
        @bellhop.for_loop(0, n, 1)
        def loop(_: Any) -> None:
            qml.RY(x, wires=0)
            bellhop.measure(0)

        loop()
        return qml.expval(qml.Z(0))

    found = bellhop.qjit(bellhop.grad(bellhop.grad(circuit)))(X, 2)
    np.testing.assert_allclose(found, -2 * np.cos(2 * X), atol=1e-12)


def nested(loops: Sequence[Any], x: Any, n: Any) -> None:
    """Turn by ``x`` in loops of the given kinds, the first of which is the outermost."""
    if loops:
        loops[0](n, lambda: nested(loops[1:], x, n))
    else:
        qml.RX(x, wires=0)


def twice(_: Any, body: Any) -> None:
    bellhop.for_loop(0, 2, 1)(lambda i: body())()


def for_n(n: Any, body: Any) -> None:
    bellhop.for_loop(0, n, 1)(lambda i: body())()


def while_n(n: Any, body: Any) -> None:
    bellhop.while_loop(lambda i: i < n)(lambda i: (body(), i + 1)[1])(0)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("loops", "count"),
    [
        ([for_n, twice, for_n], 18),
        ([while_n, twice, while_n], 18),
        ([for_n, twice, twice, for_n], 36),
    ],
)
def test_loops_of_known_length_between_others(loops: Sequence[Any], count: int) -> None:
    """The reverse loops have no gates, at any depth."""

    @qml.qnode(ONE_WIRE)
    def circuit(x: Any, n: Any) -> Any:
        nested(loops, x, n)
        return qml.expval(qml.Z(0))

    slope = bellhop.grad(circuit)
    for order, function in enumerate((circuit, slope, bellhop.grad(slope))):
        expected = count**order * np.cos(count * X + order * np.pi / 2)
        np.testing.assert_allclose(bellhop.qjit(function)(X, 3), expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_third_derivative(method: str) -> None:
    circuit = qml.QNode(one_angle, ONE_WIRE, diff_method=method)
    third = bellhop.qjit(bellhop.grad(bellhop.grad(bellhop.grad(circuit))))
    expected = jax.grad(jax.grad(jax.grad(formula)))
    for n in (3, 1, 0):
        assert_close(third(0.3, n), expected(0.3, n))


def test_all_ways_to_ask_for_it() -> None:
    circuit = qml.QNode(one_angle, ONE_WIRE)
    slope = bellhop.grad(circuit)
    expected = jax.hessian(formula)(0.3, 4)

    @bellhop.qjit
    def inside(x: Any, n: Any) -> Any:
        of_x = lambda x: slope(x, n)
        return (
            bellhop.jvp(of_x, [x], [2.0])[1] / 2,
            *[bar / 2 for bar in jax.tree.leaves(bellhop.vjp(of_x, [x], [2.0])[1])],
            jax.jacfwd(of_x)(x),
            jax.hessian(lambda x: circuit(x, n))(x),
        )

    assert_close(inside(0.3, 4), [expected] * 4)
    assert_close(jax.jit(jax.hessian(bellhop.qjit(circuit)))(0.3, 4), expected)
    batch = bellhop.qjit(bellhop.vmap(bellhop.grad(slope), in_axes=(0, 0)))
    got = batch(jnp.array([0.3, 0.5]), jnp.array([4, 2]))
    assert_close(list(got), [expected, jax.hessian(formula)(0.5, 2)])


@pytest.mark.parametrize("method", METHODS)
def test_with_the_data_of_observables(method: str) -> None:
    """And a matrix, which probabilities stand beside."""
    matrix = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])

    def circuit(coefficients: Any, x: Any, n: Any, of: Any) -> Any:
        qml.RX(x, wires=0)
        of.loop(n, lambda i, y: (qml.RY(y * x, wires=0), y + x)[1], x)
        hermitian = qml.Hermitian(coefficients[0] * matrix, 0)
        combined = qml.Hamiltonian(coefficients, [qml.Z(0), qml.X(0)])
        others = [] if method == "adjoint" else [qml.probs(wires=0)]
        return *others, qml.expval(hermitian), qml.expval(combined)

    ours = qml.QNode(circuit, ONE_WIRE, diff_method=method)
    theirs = qml.QNode(circuit, qml.device("default.qubit", wires=1))
    stacked = lambda qnode, of: lambda c, x, n: jnp.hstack(qnode(c, x, n, of))
    slope = bellhop.jacobian(stacked(ours, OfBellhop), argnums=[0, 1])
    hessian = bellhop.jacobian(slope, argnums=[0, 1])
    reference = jax.hessian(stacked(theirs, OfPennyLane), argnums=(0, 1))
    coefficients = jnp.array([0.3, 0.8])
    assert_close(bellhop.qjit(hessian)(coefficients, 0.2, 3), reference(coefficients, 0.2, 3))


def test_with_shots() -> None:
    """They are means of samples, and the same ones at each call with a seed."""
    circuit = qml.set_shots(qml.QNode(one_angle, ONE_WIRE), 20_000)
    second = bellhop.qjit(bellhop.grad(bellhop.grad(circuit)), seed=7)
    again = bellhop.qjit(bellhop.grad(bellhop.grad(circuit)), seed=7)
    got = second(0.3, 2)
    assert_close(got, jax.hessian(formula)(0.3, 2), atol=0.3)
    assert got != jax.hessian(formula)(0.3, 2)
    assert got == again(0.3, 2)


def test_finite_differences_are_not_taken_twice() -> None:
    circuit = qml.QNode(one_angle, ONE_WIRE, diff_method="finite-diff")
    with pytest.raises(bellhop.DifferentiableCompileError, match="one_angle.*differentiated twice"):
        bellhop.qjit(bellhop.grad(bellhop.grad(circuit)))(0.3, 2)


@pytest.mark.parametrize(("method", "order"), [("parameter-shift", 2), ("best", 3)])
def test_steps_that_are_alike_have_shifts_of_their_own(method, order):
    """Iterations that measure are one step each, all with the same gates."""

    @qml.qnode(qml.device("lightning.qubit", wires=1), diff_method=method)
    def circuit(x, n):
        @bellhop.while_loop(lambda i: i < n)
        def rotate_and_measure(i):
            qml.RX(x, 0)
            bellhop.measure(0)
            return i + 1

        rotate_and_measure(0)
        return qml.expval(qml.Z(0))

    derivative, expected = lambda x: circuit(x, 3), lambda x: jnp.cos(x) ** 3
    for _ in range(order):
        derivative, expected = jax.jacfwd(derivative), jax.grad(expected)
    np.testing.assert_allclose(bellhop.qjit(derivative)(0.4), expected(0.4), rtol=1e-9)
