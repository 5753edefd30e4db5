"""Rotations by computed angles that passes merge: values and derivatives are those of all gates."""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontend.circuits.gate_counts import gate_count

import bellhop
from bellhop.tracing.state import is_tracing

ALL = {"cancel_inverses": {}, "merge_rotations": {}, "merge_loop_boundaries": {}}
WIRES = 3
ROTATIONS = {"RX": 1, "RZ": 1, "PhaseShift": 1, "CRY": 2, "IsingXX": 2, "MultiRZ": 3}
FIXED = {"Hadamard": 1, "S": 1, "PauliX": 1, "CNOT": 2, "CZ": 2, "Toffoli": 3}

numbers = st.floats(-3, 3).map(lambda angle: round(angle, 3))


@st.composite
def gates(draw: Any) -> tuple[Any, ...]:
    """Draw name, wires, angle, whether it is adjoint; an integer angle is a parameter's number."""
    name = draw(st.sampled_from([*ROTATIONS, *ROTATIONS, *FIXED]))
    wires = draw(st.permutations(range(WIRES)))[: (ROTATIONS | FIXED)[name]]
    angle = draw(st.one_of(st.integers(0, 1), numbers)) if name in ROTATIONS else None
    return name, tuple(wires), angle, draw(st.booleans())


# Where no other gate stands between, these meet.
pairs = st.tuples(st.sampled_from(sorted(ROTATIONS)), st.integers(0, 1), st.booleans())
runs = st.lists(gates(), max_size=6)
# A run, the pair that certainly meets, the iterations of a loop around it (0: none), and a run.
pieces = st.tuples(runs, pairs, st.sampled_from([0, 0, 1, 2, 4]), runs)


def apply(gate: tuple[Any, ...], x: Any, iteration: Any) -> None:
    name, wires, angle, is_adjoint = gate
    made = lambda: getattr(qml, name)(wires=wires)
    if angle is not None:
        value = x[angle] * (1 + iteration) if isinstance(angle, int) else angle
        made = lambda: getattr(qml, name)(value, wires=wires)
    (qml.adjoint(made) if is_adjoint else made)()


def apply_piece(piece: tuple[Any, ...], x: Any) -> None:
    run, (name, number, is_adjoint), n_iterations, others = piece
    wires = tuple(range(ROTATIONS[name]))

    def body(iteration: Any) -> None:
        for gate in run:
            apply(gate, x, iteration)
        apply((name, wires, number, is_adjoint), x, iteration)
        apply((name, wires, 1 - number, False), x, iteration)
        for gate in others:
            apply(gate, x, iteration)

    if n_iterations:
        loops: Any = bellhop if is_tracing() else qml
        loops.for_loop(0, n_iterations, 1)(body)()
    else:
        body(0)


@pytest.mark.large
@settings(max_examples=10)
@given(
    program=st.lists(pieces, min_size=1, max_size=2),
    x=st.tuples(numbers, numbers),
    is_of_program=st.booleans(),
)
def test_random_circuits(
    assert_close: Any, reference: Any, lightning: Any, program: Any, x: Any, is_of_program: bool
) -> None:
    def function(x: Any) -> Any:
        for wire in range(WIRES):
            qml.RY(0.4 + wire, wires=wire)
        for piece in program:
            apply_piece(piece, x)
        word = qml.Z(0) @ qml.X(1)
        return qml.expval(word + 0.3 * qml.Y(2) @ qml.X(0) + 0.2 * qml.Z(1))

    def both(qnode: Any, **options: Any) -> Any:
        return bellhop.qjit(lambda x: (qnode(x), bellhop.grad(qnode)(x)), **options)

    plain = both(lightning(function, WIRES))
    if is_of_program:
        merged = both(lightning(function, WIRES), circuit_transform_pipeline=ALL)
    else:
        merged = both(bellhop.pipeline(ALL)(lightning(function, WIRES)))
    theirs = reference(function, WIRES)
    with warnings.catch_warnings():
        # NumPy drops imaginary parts of expectation values, which are zero.
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        gradient = qml.grad(theirs)(qml.numpy.array(x, requires_grad=True))
    expected = theirs(np.array(x)), gradient
    assert_close(merged(jnp.array(x)), expected)
    plain(jnp.array(x))
    assert gate_count(merged) < gate_count(plain)


def straight(x: Any) -> None:
    """Apply rotations that meet across gates on other wires."""
    qml.Hadamard(0)
    qml.RX(x[0], 0)
    qml.CRY(x[1], [1, 2])
    qml.RX(x[1] * x[0], 0)
    qml.CNOT([1, 2])
    qml.adjoint(qml.RX(x[1], 0))
    qml.CNOT([1, 2])
    qml.CRY(x[0], [1, 2])
    qml.RX(0.2, 0)
    qml.IsingZZ(x[0], [0, 1])
    qml.IsingZZ(x[1], [1, 0])


def layers(x: Any) -> None:
    """Turn a loop whose ends meet, by angles of two iterations."""

    @(bellhop if is_tracing() else qml).for_loop(0, 3, 1)
    def loop(i: Any) -> None:
        qml.adjoint(qml.RX(x[0] * (i + 1), 0))
        qml.S(1)
        qml.RZ(x[1], 2)
        qml.CNOT([0, 1])
        qml.CRY(x[1], [2, 1])
        qml.RX(x[1] + 0.1 * i, 0)
        qml.RZ(0.3, 2)
        qml.adjoint(qml.S(1))

    loop()


def branch(x: Any) -> None:
    """Merge other gates in each branch."""

    def taken() -> None:
        qml.RX(x[0], 0)
        qml.RX(x[1], 0)
        qml.RY(x[0], 1)

    def otherwise() -> None:
        qml.RY(x[0], 1)
        qml.RX(x[0], 0)
        qml.RX(x[1], 0)
        qml.RX(x[1], 0)

    (bellhop if is_tracing() else qml).cond(x[0] > x[1], taken, otherwise)()
    qml.RZ(x[1], 1)


X = np.array([0.6, -0.4])
BODIES = {"straight": straight, "layers": layers, "branch": branch}


def circuit(body: Any) -> Any:
    def function(x: Any) -> Any:
        for wire in range(WIRES):
            qml.RY(0.4 + wire, wires=wire)
        body(x)
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.expval(qml.X(2) @ qml.X(1))

    return function


@functools.cache
def all_derivatives(body: Any) -> tuple[Any, Any, Any]:
    """Return value, Jacobian and Hessian at X, by PennyLane and Autograd alone."""
    qnode = qml.QNode(circuit(body), qml.device("default.qubit", wires=WIRES))
    joined = lambda x: qml.math.stack(qnode(x))
    x = qml.numpy.array(X, requires_grad=True)
    jacobian = qml.jacobian(joined)
    return joined(X), jacobian(x), qml.jacobian(jacobian)(x)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("method", "orders"), [("adjoint", 2), ("parameter-shift", 2), ("finite-diff", 1)]
)
def test_derivatives_by_each_method(lightning: Any, name: str, method: str, orders: int) -> None:
    body = BODIES[name]
    qnode = bellhop.pipeline(ALL)(lightning(circuit(body), WIRES, diff_method=method))
    joined = lambda x: jnp.stack(qnode(x))
    derivatives = [joined, jax.jacobian(joined), jax.hessian(joined)][: orders + 1]
    merged = bellhop.qjit(lambda x: [derivative(x) for derivative in derivatives])
    expected = all_derivatives(body)
    for found, known in zip(merged(X), expected, strict=False):
        atol = 1e-6 if method == "finite-diff" else 1e-9
        np.testing.assert_allclose(found, known, rtol=0, atol=atol)


@pytest.mark.parametrize("name", BODIES)
def test_batches(lightning: Any, name: str) -> None:
    qnode = bellhop.pipeline(ALL)(lightning(circuit(BODIES[name]), WIRES))
    jacobian = jax.jacobian(lambda x: jnp.stack(qnode(x)))
    _, expected, _ = all_derivatives(BODIES[name])
    # The first row takes the branch, and the others do not.
    found = bellhop.qjit(jax.vmap(jacobian))(jnp.stack([X, -X, -X]))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found[1:], [bellhop.qjit(jacobian)(-X)] * 2, rtol=0, atol=1e-9)


# Gates beside the three in front, without and with the passes.
@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        # Hadamard, one RX, one CRY, one IsingZZ.
        (straight, 11, 4),
        # RX and RZ before the loop, S before and after; an iteration is CNOT, CRY, RX and RZ.
        (layers, 3 * 8, 4 + 3 * 4),
        (branch, 8, 5),
    ],
)
def test_gates_that_are_left(lightning: Any, body: Any, before: int, after: int) -> None:
    for passes, count in (({}, before), (ALL, after)):
        qnode = bellhop.pipeline(passes)(lightning(circuit(body), WIRES))
        f = bellhop.qjit(lambda x, qnode=qnode: jax.jacobian(lambda x: jnp.stack(qnode(x)))(x))
        f(X)
        assert gate_count(f) == WIRES + count


def test_a_merged_rotation_is_one_parameter(lightning: Any) -> None:
    """The Jacobian of the device has a column for each gate that is left."""
    qnode = bellhop.passes.merge_rotations(lightning(circuit(straight), WIRES))
    f = bellhop.qjit(jax.jacobian(lambda x: jnp.stack(qnode(x))))
    f(X)
    (line,) = [line for line in f.mlir.splitlines() if "quantum.measure" in line]
    assert "tensor<2x4xf64>" in line


def test_rotations_of_a_pauli_word(lightning: Any, reference: Any, assert_close: Any) -> None:
    """What they are decomposed to meets, and letters of a word stand in any order."""

    def function(x: Any) -> Any:
        qml.PauliRot(x[0], "XY", [0, 1])
        qml.PauliRot(x[1], "YX", [1, 0])
        return qml.expval(qml.Z(0))

    counts = []
    x = qml.numpy.array(X, requires_grad=True)
    theirs = reference(function, 2)
    expected = theirs(X), qml.grad(theirs)(x)
    for passes in ({}, ALL):
        f = bellhop.qjit(jax.value_and_grad(bellhop.pipeline(passes)(lightning(function, 2))))
        assert_close(f(X), expected)
        counts.append(gate_count(f))
    assert counts == [10, 5]


def test_two_of_an_iteration_that_meet_only_each_other(lightning: Any, assert_close: Any) -> None:
    """A loop whose iterations are one rotation stays; one that cancels has no gates."""

    def function(x: Any) -> Any:
        @bellhop.for_loop(0, 3, 1)
        def one(i: Any) -> None:
            qml.RX(x * i, 0)

        @bellhop.for_loop(0, 3, 1)
        def none(i: Any) -> None:
            qml.S(1)
            qml.adjoint(qml.S(1))

        one()
        none()
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(jax.value_and_grad(bellhop.pipeline(ALL)(lightning(function, 2))))
    assert_close(f(0.3), (np.cos(0.9), -3 * np.sin(0.9)))
    assert gate_count(f) == 3
