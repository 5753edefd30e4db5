"""adjoint and ctrl of functions with loops and conditionals, against the same unrolled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


class Compiled:
    """Control flow that is compiled."""

    adjoint, ctrl = staticmethod(bellhop.adjoint), staticmethod(bellhop.ctrl)
    for_loop, cond = staticmethod(bellhop.for_loop), staticmethod(bellhop.cond)


class Unrolled:
    """The same in Python."""

    adjoint, ctrl = staticmethod(qml.adjoint), staticmethod(qml.ctrl)

    @staticmethod
    def for_loop(lower: int, upper: int) -> Any:
        def decorate(body: Any) -> Any:
            def loop(*carried: Any) -> Any:
                for i in range(lower, upper):
                    result = body(i, *carried)
                    carried = (result,) if carried else ()
                return carried[0] if carried else None

            return loop

        return decorate

    @staticmethod
    def cond(pred: Any, one: Any, other: Any) -> Any:
        return one if pred else other


def layer(flow: Any, x: Any) -> None:
    qml.RX(x, wires=0)

    @flow.for_loop(0, 3)
    def loop(i: Any, y: Any) -> Any:
        qml.RY(y, wires=i)
        qml.CNOT(wires=[i, (i + 1) % 3])
        qml.S(wires=i)
        return y * x + i

    y = loop(x)
    qml.Rot(x, y, 0.3, wires=1)
    branches = [lambda: (qml.RX(x, 2), qml.T(2), 0.5)[2], lambda: (qml.RZ(y, 0), 2.0)[1]]
    qml.RX(x * flow.cond(x > 1, *branches)(), wires=2)


def inverted(flow: Any, x: Any) -> None:
    flow.adjoint(layer)(flow, x)


def controlled(flow: Any, x: Any) -> None:
    flow.ctrl(layer, control=3)(flow, x)


def controlled_by_zero(flow: Any, x: Any) -> None:
    flow.ctrl(layer, control=[3, 4], control_values=[0, 1])(flow, x)


def controlled_inverse(flow: Any, x: Any) -> None:
    flow.ctrl(lambda: flow.adjoint(layer)(flow, x), control=3)()


def inverse_of_controlled(flow: Any, x: Any) -> None:
    flow.adjoint(lambda: flow.ctrl(layer, control=3)(flow, x))()


def twice_inverted(flow: Any, x: Any) -> None:
    flow.adjoint(lambda: (flow.adjoint(layer)(flow, x), qml.RY(x, 1))[0])()


def in_a_loop(flow: Any, x: Any) -> None:
    @flow.for_loop(0, 2)
    def loop(i: Any) -> None:
        flow.adjoint(lambda: qml.RX(x * i, wires=i))()
        flow.adjoint(layer)(flow, x + i)
        qml.Hadamard(wires=i)

    loop()


def nested_loops(flow: Any, x: Any) -> None:
    def body() -> None:
        @flow.for_loop(0, 2)
        def outer(i: Any, y: Any) -> Any:
            qml.RX(y, wires=i)
            z = flow.for_loop(0, 2)(lambda j, z: (qml.CRY(z, wires=[j, 2]), z + x * j)[1])(y)
            return z * 0.5

        qml.RZ(outer(x), wires=0)

    flow.adjoint(body)()


BODIES = [
    inverted,
    controlled,
    controlled_by_zero,
    controlled_inverse,
    pytest.param(inverse_of_controlled, marks=pytest.mark.matrix),
    pytest.param(twice_inverted, marks=pytest.mark.matrix),
    in_a_loop,
    nested_loops,
]


def circuit(flow: Any, body: Any) -> Any:
    def run(x: Any) -> Any:
        for wire in range(5):
            qml.RY(0.3 + wire, wires=wire)
        body(flow, x)
        return [qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Y(2)), qml.expval(qml.Y(0))]

    return run


@pytest.mark.parametrize("body", BODIES)
def test_value_and_derivative(assert_close: Any, body: Any) -> None:
    ours = qml.QNode(circuit(Compiled, body), qml.device("lightning.qubit", wires=5))
    theirs = qml.QNode(circuit(Unrolled, body), qml.device("default.qubit", wires=5))
    program = bellhop.qjit(lambda x: (ours(x), bellhop.jacobian(ours)(x)))
    for x in (0.7, 1.4):
        value, derivative = program(x)
        assert_close(value, [np.asarray(number) for number in theirs(x)])
        expected = qml.jacobian(lambda x: qml.math.stack(theirs(x)))
        assert_close(derivative, list(expected(qml.numpy.array(x, requires_grad=True))))


def test_default_qubit(assert_close: Any) -> None:
    ours = qml.QNode(circuit(Compiled, inverse_of_controlled), qml.device("default.qubit", wires=5))
    theirs = qml.QNode(circuit(Unrolled, inverse_of_controlled), qml.device("default.qubit"))
    assert_close(bellhop.qjit(ours)(0.7), [np.asarray(number) for number in theirs(0.7)])


def test_operations_stay_operations(lightning: Any) -> None:
    def body(x: Any) -> Any:
        assert isinstance(bellhop.adjoint(qml.RX)(x, wires=0), qml.operation.Operator)
        assert isinstance(bellhop.ctrl(qml.RX(x, wires=0), control=1), qml.operation.Operator)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(bellhop.qjit(lightning(body))(0.3), np.cos(0.3), atol=1e-9)


def test_inverse_of_a_loop_of_unknown_length(lightning: Any) -> None:
    def body(x: Any, n: Any) -> Any:
        layers = lambda: bellhop.for_loop(0, n)(lambda i: qml.RX(x * i, wires=0) and None)()
        layers()
        bellhop.adjoint(layers)()
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(bellhop.qjit(lightning(body))(0.3, 5), 1, atol=1e-9)


def while_loop(x: Any, n: Any) -> None:
    @bellhop.while_loop(lambda i, angle: i < n)
    def loop(i: Any, angle: Any) -> Any:
        qml.RX(angle, wires=0)
        qml.CRY(angle * i, wires=[0, 1])
        return i + 1, jnp.sin(angle)

    loop(0, x)


def for_loop(x: Any, n: Any) -> None:
    @bellhop.for_loop(0, n, 1)
    def loop(i: Any, angle: Any) -> Any:
        qml.RX(angle, wires=0)
        qml.CRY(angle * i, wires=[0, 1])
        return jnp.sin(angle)

    loop(x)


def unrolled(x: float, n: int) -> None:
    for i in range(n):
        qml.RX(x, wires=0)
        qml.CRY(x * i, wires=[0, 1])
        x = np.sin(x)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("layers", [while_loop, for_loop])
def test_inverse_of_a_loop_of_unknown_length_that_carries_values(
    lightning: Any, layers: Any, n: int
) -> None:
    def body(x: Any, n: Any) -> Any:
        qml.Hadamard(0)
        bellhop.adjoint(layers)(x, n)
        bellhop.ctrl(bellhop.adjoint(layers), control=2)(x, n)
        return qml.state()

    def reference(x: float) -> Any:
        qml.Hadamard(0)
        qml.adjoint(unrolled)(x, n)
        return qml.state()

    expected = qml.QNode(reference, qml.device("default.qubit", wires=3))(0.7)
    np.testing.assert_allclose(bellhop.qjit(lightning(body, 3))(0.7, n), expected, atol=1e-9)


def test_measurements_have_no_inverse(lightning: Any) -> None:
    node = lightning(
        lambda x: (bellhop.adjoint(lambda: bellhop.measure(0))(), qml.expval(qml.Z(0)))[1]
    )
    with pytest.raises(
        bellhop.CompileError, match="is not supported in a function that qml.adjoint or qml"
    ):
        bellhop.qjit(node)(jnp.asarray(0.3))


def test_under_vmap(lightning: Any) -> None:
    node = lightning(circuit(Compiled, inverted), 5)
    xs = jnp.array([0.4, 1.2])
    batch = bellhop.qjit(jax.vmap(node))(xs)
    single = list(map(bellhop.qjit(node), xs))
    np.testing.assert_allclose(np.array(batch).T, single, atol=1e-9)


def test_functions_made_in_a_circuit_are_pennylanes_behind_it() -> None:
    kept: list[Any] = []

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit() -> Any:
        kept.append(bellhop.adjoint(lambda: qml.S(0) and None))
        kept.append(bellhop.ctrl(lambda: qml.X(0) and None, control=1))
        return qml.expval(qml.Z(0))

    circuit()
    with qml.queuing.AnnotatedQueue() as queue:
        for function in kept:
            function()
    assert [op.name for op in queue.queue] == ["Adjoint(S)", "CNOT"]
