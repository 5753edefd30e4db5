"""for_loop inside circuits, against the same loop unrolled on default.qubit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

Loop = Callable[..., Callable[..., Any]]


def unrolled(lower: int, upper: int, step: int = 1) -> Callable[..., Any]:
    """Do in Python what bellhop.for_loop compiles."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def loop(*carried: Any) -> Any:
            for i in range(lower, upper, step):
                result = body(i, *carried)
                carried = () if not carried else result if len(carried) > 1 else (result,)
            return carried if len(carried) != 1 else carried[0]

        return loop

    return decorate


def indexed(for_loop: Loop, x: Any) -> None:
    @for_loop(0, 3)
    def loop(i: Any) -> None:
        qml.RX(x[i], wires=0)
        qml.CRY(x[i] * i, wires=[0, 1])

    loop()


def carried(for_loop: Loop, x: Any) -> None:
    @for_loop(0, 3)
    def loop(i: Any, y: Any) -> Any:
        qml.RX(y, wires=0)
        qml.CNOT(wires=[0, 1])
        return y * x[1] + i

    qml.RY(loop(x[0]), wires=1)


def carrying_two(for_loop: Loop, x: Any) -> None:
    @for_loop(0, 3)
    def loop(i: Any, y: Any, z: Any) -> Any:
        qml.RX(y, wires=0)
        return z, y * x[0]

    y, z = loop(x[0], x[1])
    qml.RY(y - z, wires=0)


def nested(for_loop: Loop, x: Any) -> None:
    @for_loop(0, 2)
    def outer(i: Any, y: Any) -> Any:
        qml.RX(y, wires=0)

        @for_loop(0, 3)
        def inner(j: Any, z: Any) -> Any:
            qml.RY(z * (i + 1), wires=1)
            qml.CRX(x[2], wires=[1, 0])
            return z + y * j

        z = inner(y)
        qml.RZ(z, wires=0)
        return y + z

    qml.RX(outer(x[0]), wires=1)


def downwards(for_loop: Loop, x: Any) -> None:
    @for_loop(7, 0, -2)
    def loop(i: Any) -> None:
        qml.RX(x[0] * i, wires=0)
        qml.Hadamard(wires=0)

    loop()


def between_gates(for_loop: Loop, x: Any) -> None:
    qml.RX(x[0], wires=0)
    for_loop(0, 2)(lambda i: qml.RY(x[1], wires=0) and None)()
    qml.RX(x[2], wires=0)
    for_loop(0, 2)(lambda i: qml.RZ(x[0], wires=0) and None)()
    qml.RX(x[1], wires=0)


def never(for_loop: Loop, x: Any) -> None:
    qml.RX(x[0], wires=0)
    for_loop(3, 3)(lambda i: qml.RY(x[1], wires=0) and None)()
    qml.RX(x[2], wires=0)


def without_parameters(for_loop: Loop, x: Any) -> None:
    qml.RX(x[0], wires=0)

    @for_loop(0, 3)
    def loop(i: Any) -> None:
        qml.T(wires=0)
        qml.RX(0.3, wires=0)
        qml.CNOT(wires=[0, 1])

    loop()


def without_gates(for_loop: Loop, x: Any) -> None:
    qml.RX(for_loop(0, 3)(lambda i, y: y * x[1])(x[0]), wires=0)


def with_adjoint_and_control(for_loop: Loop, x: Any) -> None:
    @for_loop(0, 3)
    def loop(i: Any) -> None:
        qml.Hadamard(wires=1)
        qml.adjoint(lambda: qml.Rot(x[0], x[1], x[2], wires=0))()
        qml.ctrl(qml.RX, control=1, control_values=0)(x[i], wires=0)

    loop()


LOOPS = [
    indexed,
    carried,
    carrying_two,
    nested,
    downwards,
    between_gates,
    never,
    without_parameters,
    without_gates,
    with_adjoint_and_control,
]
X = jnp.array([0.3, -0.7, 1.1])


def with_loop(body: Callable[..., Any], for_loop: Loop, measure: Any) -> Callable[..., Any]:
    def circuit(x: Any) -> Any:
        qml.RY(0.2, wires=1)
        body(for_loop, x)
        return measure()

    return circuit


def energies() -> Any:
    return qml.expval(qml.Z(0)), qml.expval(qml.X(0) @ qml.Y(1))


@pytest.mark.parametrize("body", LOOPS)
def test_loop(assert_close: Any, lightning: Any, reference: Any, body: Any) -> None:
    ours = bellhop.qjit(lightning(with_loop(body, bellhop.for_loop, qml.state)))
    theirs = reference(with_loop(body, unrolled, qml.state))
    assert_close(ours(X), theirs(np.asarray(X)))


@pytest.mark.parametrize("body", LOOPS)
def test_derivative_of_loop(assert_close: Any, lightning: Any, body: Any) -> None:
    ours = lightning(with_loop(body, bellhop.for_loop, energies))
    theirs = qml.QNode(
        with_loop(body, unrolled, lambda: list(energies())), qml.device("default.qubit")
    )
    stacked = qml.jacobian(lambda x: qml.math.stack(theirs(x)))
    expected = stacked(qml.numpy.array(X, requires_grad=True))
    assert_close(bellhop.qjit(bellhop.jacobian(ours))(X), tuple(expected))


@pytest.mark.parametrize("bounds", [(0, 4, 1), (2, 9, 3), (5, 0, -2), (3, 3, 1), (4, 2, 1)])
def test_bounds_that_the_program_computes(
    assert_close: Any, lightning: Any, reference: Any, bounds: Any
) -> None:
    def circuit(for_loop: Any, x: Any) -> Any:
        @for_loop
        def loop(i: Any, y: Any) -> Any:
            qml.RX(y + i, wires=0)
            qml.CRY(x, wires=[0, 1])
            return y * 0.5

        qml.RZ(loop(x), wires=0)
        return qml.state()

    @bellhop.qjit
    def ours(x: Any, *bounds: Any) -> Any:
        return lightning(lambda x: circuit(bellhop.for_loop(*bounds), x))(x)

    theirs = reference(lambda x: circuit(unrolled(*bounds), x))
    assert_close(ours(0.3, *bounds), theirs(0.3))


@pytest.mark.parametrize("transform", [bellhop.jacobian, jax.vmap])
def test_classical_loop_around_circuits(lightning: Any, transform: Any) -> None:
    circuit = lightning(lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1])

    def ours(x: Any) -> Any:
        return bellhop.for_loop(0, 3)(lambda i, y: circuit(y + i) * x)(x)

    def theirs(x: Any) -> Any:
        y = x
        for i in range(3):
            y = jnp.cos(y + i) * x
        return y

    x = jnp.array([0.3, 0.9]) if transform is jax.vmap else jnp.array(0.3)
    np.testing.assert_allclose(
        bellhop.qjit(transform(ours))(x),
        (jax.vmap if transform is jax.vmap else jax.jacobian)(theirs)(x),
        atol=1e-12,
    )


def test_body_that_returns_another_structure(lightning: Any) -> None:
    circuit = lightning(
        lambda x: (bellhop.for_loop(0, 2)(lambda i, y: {"a": y})(x), qml.state())[1]
    )
    with pytest.raises(TypeError, match="the structures differ: the loop carries array"):
        bellhop.qjit(circuit)(0.3)


def test_step_of_zero() -> None:
    with pytest.raises(ValueError, match="the step must not be zero"):
        bellhop.for_loop(0, 3, 0)


def climbing(while_loop: Loop, x: Any) -> Any:
    @while_loop(lambda y, n: y < 2)
    def loop(y: Any, n: Any) -> Any:
        qml.RX(y, wires=0)
        qml.CRY(x, wires=[0, 1])
        return y + x, n + 0.5

    y, n = loop(x, 0)
    qml.RZ(y - n, wires=0)
    return qml.state()


def while_in_a_branch_in_a_while(while_loop: Loop, x: Any) -> Any:
    @while_loop(lambda y: y < 3)
    def loop(y: Any) -> Any:
        def inner() -> Any:
            return while_loop(lambda z: z > 0.2)(lambda z: (qml.RY(z, wires=1), z / 2)[1])(y)

        compiled = while_loop is bellhop.while_loop
        branch = (
            bellhop.cond(y > 1, inner, lambda: x) if compiled else inner if y > 1 else lambda: x
        )
        qml.RX(branch(), wires=0)
        return y + x

    loop(x)
    return qml.state()


def repeated(condition: Callable[..., Any]) -> Callable[..., Any]:
    """Do in Python what bellhop.while_loop compiles."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def loop(*carried: Any) -> Any:
            while condition(*carried):
                result = body(*carried)
                carried = result if len(carried) > 1 else (result,)
            return carried if len(carried) != 1 else carried[0]

        return loop

    return decorate


@pytest.mark.parametrize("body", [climbing, while_in_a_branch_in_a_while])
@pytest.mark.parametrize("x", [0.3, 0.7, 5.0])
def test_while_loop(assert_close: Any, lightning: Any, reference: Any, body: Any, x: float) -> None:
    ours = bellhop.qjit(lightning(lambda x: body(bellhop.while_loop, x)))
    assert_close(ours(x), reference(lambda x: body(repeated, x))(x))


def gate_in_the_body(x: Any) -> Any:
    bellhop.while_loop(lambda i: i < 3)(lambda i: (qml.RX(x, wires=0), i + 1)[1])(0)
    return qml.expval(qml.Z(0))


def carried_past_gates(x: Any) -> Any:
    body = lambda i, y: (qml.RX(0.3, wires=0), (i + 1, y / 2))[1]
    _, y = bellhop.while_loop(lambda i, _: i < 3)(body)(0, x)
    qml.RY(y, wires=0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize("transform", [bellhop.grad, jax.jacfwd])
@pytest.mark.parametrize(
    ("body", "slope"),
    [(gate_in_the_body, -3 * np.sin(0.9)), (carried_past_gates, -np.cos(0.9) * np.sin(0.0375) / 8)],
)
def test_derivative_through_a_while_loop(
    lightning: Any, transform: Any, body: Any, slope: float
) -> None:
    np.testing.assert_allclose(bellhop.qjit(transform(lightning(body)))(0.3), slope, atol=1e-9)


def test_derivative_beside_a_while_loop(lightning: Any) -> None:
    @lightning
    def circuit(x: Any) -> Any:
        bellhop.while_loop(lambda i: i < 3)(lambda i: (qml.RX(0.3, wires=0), i + 1)[1])(0)
        qml.RX(x, wires=0)
        bellhop.cond(x > 0, qml.RX)(x, wires=0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(
        bellhop.qjit(bellhop.grad(circuit))(0.4), -2 * np.sin(0.9 + 2 * 0.4), atol=1e-9
    )


def test_condition_that_applies_gates(lightning: Any) -> None:
    @lightning
    def circuit(x: Any) -> Any:
        bellhop.while_loop(lambda y: (qml.RX(y, wires=0), y > 0)[1])(lambda y: y - 1)(x)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match="the condition of a while_loop applies gates"):
        bellhop.qjit(circuit)(0.3)


def test_loops_that_carry_an_integer_into_a_float(lightning: Any, reference: Any) -> None:
    def circuit(for_loop: Loop, x: Any) -> Any:
        qml.RX(for_loop(0, 3)(lambda i, y: (qml.RY(y, wires=0), y + x)[1])(0), wires=0)
        return qml.expval(qml.Z(0))

    ours = lightning(lambda x: circuit(bellhop.for_loop, x))
    theirs = qml.QNode(lambda x: circuit(unrolled, x), qml.device("default.qubit"))
    expected = theirs(0.3), qml.grad(theirs)(qml.numpy.array(0.3, requires_grad=True))
    compiled = bellhop.qjit(bellhop.value_and_grad(ours))(0.3)
    np.testing.assert_allclose(compiled, expected, atol=1e-9)
