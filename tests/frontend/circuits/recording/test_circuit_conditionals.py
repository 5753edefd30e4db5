"""cond and switch inside circuits, against Python's own on default.qubit."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def chosen(pred: Any, true_fn: Any, false_fn: Any = None, elifs: Any = ()) -> Callable[..., Any]:
    """Do in Python what bellhop.cond compiles."""
    for condition, function in ((pred, true_fn), *elifs):
        if condition:
            return function
    return false_fn if false_fn is not None else lambda *_, **__: None


def gates_of_one_branch(cond: Any, x: Any) -> None:
    qml.RX(x[0], wires=0)
    cond(x[0] > 0.5, lambda: qml.RY(x[1], wires=0))()
    qml.RX(x[2], wires=0)


def operators(cond: Any, x: Any) -> None:
    cond(x[0] > 0.5, qml.RX, qml.RY)(x[1], wires=0)


def branches_of_different_lengths(cond: Any, x: Any) -> None:
    def rotated() -> None:
        qml.Rot(x[0], x[1], x[2], wires=0)
        qml.CRX(x[1] * x[0], wires=[0, 1])

    qml.RX(x[0], wires=0)
    cond(x[0] > 0.5, rotated, lambda: qml.RY(x[1], wires=1))()
    qml.RX(x[2], wires=0)


def results(cond: Any, x: Any) -> None:
    def doubled(y: Any) -> Any:
        qml.RX(y, wires=0)
        return {"angle": 2 * y, "more": x[1]}

    value = cond(x[0] > 0.5, doubled, lambda y: {"angle": y * x[2], "more": y})(x[0])
    qml.RY(value["angle"], wires=0)
    qml.RX(value["more"], wires=1)


def several_conditions(cond: Any, x: Any) -> None:
    cond(
        x[0] > 1,
        lambda: qml.RX(x[1], wires=0),
        lambda: (qml.RZ(x[0], wires=0), qml.RX(x[2], wires=0)),
        [(x[0] > 0.5, lambda: qml.RY(x[0], wires=0)), (x[0] > 0.7, lambda: qml.X(0))],
    )()
    qml.RX(x[0], wires=0)


def nested(cond: Any, x: Any) -> None:
    def inner() -> Any:
        def gates(angle: Any) -> Any:
            qml.RY(angle, wires=0)
            return angle * x[2]

        return cond(x[1] > 0, gates, lambda angle: angle)(x[1])

    qml.RX(cond(x[0] > 0.5, inner, lambda: x[2])(), wires=1)
    qml.RZ(x[2], wires=0)


def with_known_conditions(cond: Any, x: Any) -> None:
    cond(True, qml.RX, qml.RY)(x[0], wires=0)
    cond(False, qml.RX)(x[1], wires=0)
    cond(False, lambda: None, None, [(True, lambda: qml.RY(x[1], wires=0))])()
    cond(x[0] > 0.5, qml.RX, qml.RY, [(True, qml.RZ)])(x[2], wires=0)


def without_gates(cond: Any, x: Any) -> None:
    qml.RX(cond(x[0] > 0.5, lambda: x[0] * x[1], lambda: x[2])(), wires=0)


def in_a_loop(cond: Any, x: Any) -> None:
    def body(i: Any, y: Any) -> Any:
        def left(y: Any) -> Any:
            qml.RX(y, wires=0)
            qml.CRY(x[1], wires=[0, 1])
            return y * x[0]

        return cond(i == 1, left, lambda y: y + x[2])(y)

    if cond is chosen:
        y = x[0]
        for i in range(3):
            y = body(i, y)
    else:
        y = bellhop.for_loop(0, 3)(body)(x[0])
    qml.RY(y, wires=0)


def around_a_loop(cond: Any, x: Any) -> None:
    def looped() -> None:
        if cond is chosen:
            for i in range(3):
                qml.RX(x[1] * i, wires=0)
        else:
            bellhop.for_loop(0, 3)(lambda i: qml.RX(x[1] * i, wires=0))()

    cond(x[0] > 0.5, looped, lambda: qml.RY(x[2], wires=0))()
    qml.RY(x[0], wires=0)


CONDITIONALS = [
    gates_of_one_branch,
    operators,
    branches_of_different_lengths,
    results,
    several_conditions,
    nested,
    with_known_conditions,
    without_gates,
    in_a_loop,
    around_a_loop,
]
POINTS = [[0.3, 0.7, 1.1], [0.9, -0.4, 0.2], [1.3, 0.6, -0.8]]


def with_conditional(body: Any, cond: Any, measure: Any) -> Callable[..., Any]:
    def circuit(x: Any) -> Any:
        qml.RY(0.2, wires=1)
        body(cond, x)
        qml.CNOT(wires=[0, 1])
        return measure()

    return circuit


def energies() -> Any:
    return qml.expval(qml.Z(0)), qml.expval(qml.X(0) @ qml.Y(1))


@pytest.mark.parametrize("body", CONDITIONALS)
def test_conditional(assert_close: Any, lightning: Any, reference: Any, body: Any) -> None:
    ours = bellhop.qjit(lightning(with_conditional(body, bellhop.cond, qml.state)))
    theirs = reference(with_conditional(body, chosen, qml.state))
    for x in POINTS:
        assert_close(ours(jnp.array(x)), theirs(np.array(x)))


@pytest.mark.parametrize("body", CONDITIONALS)
def test_derivative_of_conditional(assert_close: Any, lightning: Any, body: Any) -> None:
    ours = bellhop.qjit(bellhop.jacobian(lightning(with_conditional(body, bellhop.cond, energies))))
    theirs = qml.QNode(
        with_conditional(body, chosen, lambda: list(energies())), qml.device("default.qubit")
    )
    stacked = qml.jacobian(lambda x: qml.math.stack(theirs(x)))
    for x in POINTS:
        expected = stacked(qml.numpy.array(x, requires_grad=True))
        assert_close(ours(jnp.array(x)), tuple(expected))


def test_vmap_of_a_circuit_with_a_conditional(lightning: Any, reference: Any) -> None:
    ours = lightning(with_conditional(branches_of_different_lengths, bellhop.cond, energies))
    theirs = reference(with_conditional(branches_of_different_lengths, chosen, energies))
    x = jnp.array(POINTS)
    expected = np.array([theirs(point) for point in np.array(POINTS)]).T
    np.testing.assert_allclose(bellhop.qjit(jax.vmap(ours))(x), expected, atol=1e-9)
    jacobians = bellhop.qjit(jax.vmap(bellhop.jacobian(ours)))(x)
    each = bellhop.qjit(bellhop.jacobian(ours))
    for number, point in enumerate(x):
        for batched, alone in zip(jacobians, each(point), strict=True):
            np.testing.assert_allclose(batched[number], alone, atol=1e-9)


def switched(i: Any, x: Any) -> Any:
    @bellhop.switch(i)
    def choice(y: Any) -> Any:
        qml.RX(x, wires=0)
        return y

    @choice.branch(-3)
    def _(y: Any) -> Any:
        qml.Rot(x, y, 0.3 * x, wires=0)
        return y * x

    @choice.branch(7)
    def _(y: Any) -> Any:
        return 1

    qml.RY(choice(0.4), wires=0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize("transform", [lambda f, argnums: f, bellhop.grad])
def test_switch(lightning: Any, transform: Any) -> None:
    def unswitched(i: int, x: Any) -> Any:
        angle = {-3: 0.4 * x, 7: 1}.get(i, 0.4)
        if i == -3:
            qml.Rot(x, 0.4, 0.3 * x, wires=0)
        elif i != 7:
            qml.RX(x, wires=0)
        qml.RY(angle, wires=0)
        return qml.expval(qml.Z(0))

    program = bellhop.qjit(transform(lightning(switched), argnums=1))
    device = qml.device("default.qubit", wires=4)
    theirs = qml.QNode(unswitched, device)
    if transform is bellhop.grad:
        theirs = qml.grad(theirs, argnums=1)
    for i in (-3, 7, 0, -4, 100):
        with warnings.catch_warnings():
            # Autograd's, where the derivative is zero.
            warnings.filterwarnings("ignore", "Output seems independent of input")
            expected = theirs(i, qml.numpy.array(0.8, requires_grad=True))
        np.testing.assert_allclose(program(i, 0.8), expected, atol=1e-9)


@pytest.mark.parametrize("transform", [lambda f: f, bellhop.grad, jax.vmap])
def test_only_the_branch_that_is_taken_runs(lightning: Any, transform: Any) -> None:
    ran: list[str] = []

    def branch(name: str, gate: Any) -> Any:
        def run(x: Any) -> None:
            bellhop.debug.callback(lambda: ran.append(name))()
            gate(x, wires=0)

        return run

    @bellhop.qjit
    @transform
    @lightning
    def program(x: Any) -> Any:
        branches = branch("one", qml.RX), branch("other", qml.RY)
        bellhop.cond(x > 0.5, *branches, [(x > 0, branch("middle", qml.RX))])(x)
        return qml.expval(qml.Z(0))

    for x, expected in [(0.7, "one"), (0.2, "middle"), (-0.4, "other"), (0.8, "one")]:
        jax.block_until_ready(program(jnp.array([x]) if transform is jax.vmap else x))
        assert ran == [expected]
        ran.clear()


def test_measurement_returned_from_a_branch(lightning: Any) -> None:
    @lightning
    def circuit(x: Any) -> Any:
        return bellhop.cond(x > 0, lambda: qml.expval(qml.Z(0)), lambda: qml.expval(qml.X(0)))()

    message = "cond: the first branch '<lambda>' .* returns the measurement"
    with pytest.raises(TypeError, match=message):
        bellhop.qjit(circuit)(0.3)


def test_wires_that_stand_in_branches_only() -> None:
    @qml.qnode(qml.device("lightning.qubit"))
    def circuit(x: Any) -> Any:
        bellhop.cond(x > 0, lambda: qml.X("a"), lambda: qml.X("b"))()
        return qml.probs()

    np.testing.assert_allclose(bellhop.qjit(circuit)(0.3), [0, 0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(bellhop.qjit(circuit)(-0.3), [0, 1, 0, 0], atol=1e-12)


def test_conditional_on_a_tape(lightning: Any) -> None:
    @lightning
    def circuit(x: Any) -> Any:
        with qml.tape.QuantumTape():
            bellhop.cond(x > 0, qml.RX)(x, wires=0)
        return qml.expval(qml.Z(0))

    with pytest.raises(
        bellhop.CompileError, match="a QuantumTape in a quantum function is not supported"
    ):
        bellhop.qjit(circuit)(0.3)


@pytest.mark.parametrize("transform", [lambda f: f, bellhop.grad])
def test_only_the_branch_that_is_taken_runs_in_a_loop(lightning: Any, transform: Any) -> None:
    ran: list[int] = []

    def branch(parity: int) -> Any:
        return lambda x: (bellhop.debug.callback(lambda: ran.append(parity))(), qml.RX(x, 0))[1]

    @bellhop.qjit
    @transform
    @lightning
    def program(x: Any) -> Any:
        bellhop.for_loop(0, 4)(lambda i: bellhop.cond(i % 2 == 0, branch(0), branch(1))(x))()
        return qml.expval(qml.Z(0))

    expected = np.cos(1.2) if transform is not bellhop.grad else -4 * np.sin(1.2)
    np.testing.assert_allclose(program(0.3), expected, atol=1e-9)
    assert ran == [0, 1, 0, 1]


def test_angles_that_need_less_than_they_are_computed_from() -> None:
    """XLA ends the process where a function that outline-scalars makes has such an operand."""

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(x):
        outcome = bellhop.measure(0)

        @bellhop.for_loop(0, 3, 1)
        def loop(i):
            @bellhop.cond(outcome)
            def branch():
                qml.IsingZZ(x[2] - 0.14 + 0 * i, wires=[1, 2])
                qml.RY(x[1] * 0.5 - 0.28 + 0.5 * (outcome == 1) + 0 * i, wires=0)
                qml.IsingZZ(x[0] * 0.5 + 0.15 + 0.5 * outcome + 0 * i, wires=[0, 2])

            branch()

        loop()
        return qml.probs(wires=[2, 0, 1])

    assert np.allclose(circuit(np.array([0.3, 0.7, -0.2])), np.eye(8)[0])


@pytest.mark.parametrize(
    "applied",
    [
        qml.ctrl(qml.RX, control=2, control_values=[0]),
        lambda *args: qml.ctrl(lambda x, w: [qml.RX(x, w)], control=2, control_values=0)(*args),
        lambda *args: qml.adjoint(lambda x, w: [qml.RX(-x, w)])(*args),
    ],
)
def test_branches_that_are_controlled_or_inverted_functions(applied: Any) -> None:
    def circuit(x):
        qml.cond(x > 0.1, applied)(x, 1)
        return qml.expval(qml.Z(1))

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit", wires=3)))
    assert np.allclose(compiled(0.7), np.cos(0.7))
