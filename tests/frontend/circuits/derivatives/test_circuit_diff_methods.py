"""Methods and orders of derivatives of circuits, against matrices that JAX differentiates."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

ONE, X, Y, Z = (np.asarray(op.compute_matrix()) for op in (qml.Identity, qml.X, qml.Y, qml.Z))
SWAPPED = (np.kron(X, X) + np.kron(Y, Y)) / 2
LOW, HIGH = np.diag([1, 0]), np.diag([0, 1])
POINT = 0.4, 0.7


def apply_gates(x: Any, y: Any) -> None:
    """Gates with one and two frequencies, in a loop and in branches that differ."""
    qml.RX(x, 0)
    qml.CRY(y, [0, 1])

    @bellhop.for_loop(0, 2)
    def layer(i: Any) -> None:
        qml.IsingXY(x * (i + 1), [0, 1])
        bellhop.cond(i > 0, lambda: qml.RX(y, 0), lambda: qml.CRY(x * y, [1, 0]))()

    layer()
    qml.ctrl(qml.PhaseShift(y, 1), 0)


def turn(pauli: Any, angle: Any) -> Any:
    return jnp.cos(angle / 2) * np.eye(len(pauli)) - 1j * jnp.sin(angle / 2) * pauli


def state(x: Any, y: Any) -> Any:
    """Compute the same state with matrices."""
    swapped = lambda a: (
        np.eye(4) + (jnp.cos(a / 2) - 1) * SWAPPED @ SWAPPED + 1j * jnp.sin(a / 2) * SWAPPED
    )
    gates = [
        jnp.kron(turn(X, x), ONE),
        np.kron(LOW, ONE) + jnp.kron(HIGH, turn(Y, y)),
        swapped(x),
        np.kron(ONE, LOW) + jnp.kron(turn(Y, x * y), HIGH),
        swapped(2 * x),
        jnp.kron(turn(X, y), ONE),
        jnp.diag(jnp.array([1, 1, 1, jnp.exp(1j * y)])),
    ]
    return functools.reduce(lambda psi, gate: gate @ psi, gates, np.eye(4)[0])


def expectation(psi: Any, observable: Any) -> Any:
    return jnp.real(jnp.vdot(psi, observable @ psi))


def expvals() -> list[Any]:
    return [qml.expval(qml.Z(0) @ qml.X(1)), qml.expval(qml.Y(1) + 0.5 * qml.Z(0))]


def all_kinds() -> list[Any]:
    hermitian = qml.Hermitian(np.array([[1, 2j], [-2j, 0.5]]), 1)
    return [*expvals(), qml.var(qml.Y(1)), qml.var(qml.X(0) + 2 * hermitian), qml.probs(wires=1)]


def reference_of_expvals(x: Any, y: Any) -> Any:
    psi = state(x, y)
    observables = np.kron(Z, X), np.kron(ONE, Y) + 0.5 * np.kron(Z, ONE)
    return jnp.stack([expectation(psi, observable) for observable in observables])


def reference_of_all_kinds(x: Any, y: Any) -> Any:
    psi = state(x, y)
    of_sum = np.kron(X, ONE) + 2 * np.kron(ONE, np.array([[1, 2j], [-2j, 0.5]]))
    variances = [
        expectation(psi, a @ a) - expectation(psi, a) ** 2 for a in (np.kron(ONE, Y), of_sum)
    ]
    probs = jnp.sum(jnp.abs(psi.reshape(2, 2)) ** 2, axis=0)
    return jnp.concatenate([reference_of_expvals(x, y), jnp.stack(variances), probs])


def compiled(measure: Callable[[], Sequence[Any]], **options: Any) -> Callable[..., Any]:
    @qml.qnode(qml.device("lightning.qubit", wires=2), **options)
    def circuit(x: Any, y: Any) -> Any:
        apply_gates(x, y)
        return measure()

    return lambda x, y: jnp.hstack(circuit(x, y))


ORDERS = {
    "jacobian": lambda f: bellhop.jacobian(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, y: jax.jvp(f, (x, y), (0.3, -0.8)),
    "hessian": lambda f: jax.hessian(f, argnums=(0, 1)),
    "vjp of vjp": lambda f: lambda x, y: jax.grad(lambda x: jax.grad(lambda y: f(x, y)[1])(y))(x),
    "third": lambda f: jax.jacfwd(jax.jacrev(jax.jacfwd(f)), argnums=1),
}
CASES = [
    pytest.param("best", "expvals", "hessian", marks=pytest.mark.hessian),
    pytest.param("best", "expvals", "vjp of vjp", marks=(pytest.mark.hessian, pytest.mark.quick)),
    pytest.param("best", "expvals", "third", marks=pytest.mark.hessian),
    pytest.param("best", "all kinds", "jacobian", marks=pytest.mark.matrix),
    pytest.param("best", "all kinds", "hessian", marks=pytest.mark.hessian),
    ("parameter-shift", "expvals", "jvp"),
    pytest.param("parameter-shift", "expvals", "third", marks=pytest.mark.hessian),
    ("parameter-shift", "all kinds", "jacobian"),
    ("finite-diff", "all kinds", "jacobian"),
]
MEASUREMENTS: dict[str, tuple[Any, Any]] = {
    "expvals": (expvals, reference_of_expvals),
    "all kinds": (all_kinds, reference_of_all_kinds),
}


@pytest.mark.parametrize(("method", "measured", "order"), CASES)
def test_method(method: str, measured: str, order: str) -> None:
    measure, reference = MEASUREMENTS[measured]
    actual = bellhop.qjit(ORDERS[order](compiled(measure, diff_method=method)))(*POINT)
    expected = jax.jit(ORDERS[order](reference))(*POINT)
    tolerance = 3e-6 if method == "finite-diff" else 1e-9
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_options_of_finite_differences() -> None:
    options = {"h": 1e-3, "approx_order": 2, "strategy": "center"}
    f = compiled(expvals, diff_method="finite-diff", gradient_kwargs=options)
    actual = bellhop.qjit(bellhop.jacobian(f))(*POINT)
    expected = jax.jit(jax.jacfwd(reference_of_expvals))(*POINT)
    error = np.max(np.abs(actual - expected))
    # The error of the second order at this step, neither that of rounding nor of the first.
    assert 1e-9 < error < 1e-5


def of_one_angle(gate: Callable[[Any], Any], **options: Any) -> Callable[..., Any]:
    @qml.qnode(qml.device("lightning.qubit", wires=3), **options)
    def circuit(x: Any) -> Any:
        for wire in range(3):
            qml.RY(0.3 + wire, wire)
        gate(x)
        qml.CNOT([0, 1])
        qml.RX(0.7, 1)
        return qml.expval(qml.Y(0) @ qml.X(1)), qml.expval(qml.X(1) @ qml.Z(2))

    return lambda x: jnp.stack(circuit(x))


@pytest.mark.parametrize(
    "gate",
    [
        lambda x: qml.PauliRot(x, "XIY", [0, 1, 2]),
        lambda x: qml.ctrl(qml.PauliRot(x, "XY", [1, 2]), 0, control_values=[0]),
        lambda x: qml.ctrl(qml.SingleExcitation(x, [1, 2]), 0),
        lambda x: qml.adjoint(qml.SingleExcitationPlus(x, [1, 2])),
        lambda x: qml.ctrl(qml.GlobalPhase(x), [0, 1]),
        lambda x: qml.GlobalPhase(x),
        lambda x: qml.MultiRZ(x, [0, 2]),
        lambda x: qml.Rot(x, 2 * x, 0.3, 1),
        lambda x: qml.PSWAP(x, [0, 1]),
        lambda x: qml.ControlledPhaseShift(x, [2, 0]),
    ],
    ids=lambda gate: None,
)
def test_rule_of_a_gate_is_the_adjoint_method(gate: Any) -> None:
    by_adjoint = bellhop.jacobian(of_one_angle(gate, diff_method="adjoint"))
    by_shifts = bellhop.jacobian(of_one_angle(gate, diff_method="parameter-shift"))
    one, other = bellhop.qjit(lambda x: (by_adjoint(x), by_shifts(x)))(0.6)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.large
def test_matrices_by_finite_differences() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2), diff_method="finite-diff")
    def circuit(x: Any) -> Any:
        qml.StatePrep(jnp.stack([jnp.cos(x), jnp.sin(x)]), wires=0)
        qml.QubitUnitary(jax.scipy.linalg.expm(-1j * x * np.kron(X, Y)), wires=[0, 1])
        return qml.expval(qml.Z(1))

    derivative = bellhop.qjit(bellhop.grad(circuit))(0.3)
    assert derivative == pytest.approx(-2 * np.sin(0.6), abs=1e-5)


def observed(c: Any, d: Any, x: Any) -> Any:
    """Measure observables whose coefficients and matrix the program computes."""
    qml.RX(x, 0)
    qml.CRY(2 * x, [0, 1])
    one = c * np.array([[1, 0.5j], [-0.5j, 0.3]]) + d * np.array([[0, 1], [1, 2]])
    two = d**2 * np.kron(X, Z) + c * np.kron(Y, Y) + np.diag(np.arange(4.0))
    return (
        qml.expval((c * d) * qml.Z(0) @ qml.Hermitian(one, 1) + d * qml.X(1)),
        qml.expval(qml.Hermitian(two, [1, 0])),
    )


def observed_by_matrices(c: Any, d: Any, x: Any) -> Any:
    psi = jnp.kron(turn(X, x), ONE) @ np.eye(4)[0]
    psi = (np.kron(LOW, ONE) + jnp.kron(HIGH, turn(Y, 2 * x))) @ psi
    one = c * np.array([[1, 0.5j], [-0.5j, 0.3]]) + d * np.array([[0, 1], [1, 2]])
    two = d**2 * np.kron(Z, X) + c * np.kron(Y, Y) + np.diag([0.0, 2, 1, 3])
    first = c * d * jnp.kron(Z, one) + d * np.kron(ONE, X)
    return jnp.stack([expectation(psi, first), expectation(psi, two)])


@pytest.mark.large
@pytest.mark.parametrize("method", ["best", "parameter-shift"])
def test_derivatives_by_coefficients_and_matrices(method: str) -> None:
    node = qml.QNode(observed, qml.device("lightning.qubit", wires=2), diff_method=method)
    second = lambda f: jax.hessian(f, argnums=(0, 1, 2))
    both = lambda f: lambda *args: (jax.jacobian(f, argnums=(0, 1, 2))(*args), second(f)(*args))
    actual = bellhop.qjit(both(lambda *args: jnp.stack(node(*args))))(0.4, 0.9, 0.3)
    expected = jax.jit(both(observed_by_matrices))(0.4, 0.9, 0.3)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.hessian
def test_hessian_with_callbacks_and_regions_on_both_sides() -> None:
    @bellhop.pure_callback
    def sine(x: Any) -> float:
        return np.sin(x)

    sine.jvp(lambda primals, tangents: (sine(*primals), jnp.cos(primals[0]) * tangents[0]))
    cube = bellhop.accelerate(lambda x: x**3, dev=jax.devices("cpu")[1])

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, 0)
        qml.RZ(y, 0)
        return qml.expval(qml.Y(0))

    def program(x: Any, y: Any) -> Any:
        return cube(sine(circuit(cube(sine(x)), y)))

    def by_formula(x: Any, y: Any) -> Any:
        return jnp.sin(-jnp.sin(jnp.sin(x) ** 3) * jnp.cos(y)) ** 3

    actual = bellhop.qjit(jax.hessian(program, argnums=(0, 1)))(*POINT)
    expected = jax.hessian(by_formula, argnums=(0, 1))(*POINT)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


@pytest.mark.hessian
@pytest.mark.parametrize("setting", ["vmap of hessian", "hessian of vmap", "hessian in scan"])
def test_second_derivative_of_many_circuits(setting: str) -> None:
    angles = jnp.array([0.1, 0.5])

    def transform(f: Callable[..., Any]) -> Callable[..., Any]:
        if setting == "vmap of hessian":
            return lambda x: jax.vmap(jax.hessian(lambda x: f(x, x)))(x * angles)
        if setting == "hessian of vmap":
            return jax.hessian(lambda x: jnp.prod(jax.vmap(f, (0, None))(x * angles, x)))
        step = lambda carried, a: (f(carried, a), None)
        return jax.hessian(lambda x: jax.lax.scan(step, x, x * angles)[0])

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, 0)
        qml.RY(y, 0)
        return qml.expval(qml.Z(0))

    actual = bellhop.qjit(transform(circuit))(0.6)
    expected = transform(lambda x, y: jnp.cos(x) * jnp.cos(y))(0.6)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", ["jacobian", "hessian"])
def test_circuit_without_parameters_that_count(order: str) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1), diff_method="parameter-shift")
    def circuit(x: Any) -> Any:
        qml.GlobalPhase(x)
        qml.RX(0.3, 0)
        return qml.probs()

    derivative = {"jacobian": jax.jacobian, "hessian": jax.hessian}[order]
    np.testing.assert_array_equal(bellhop.qjit(derivative(circuit))(0.4), [0.0, 0.0])
