"""Loops that are a run of gates: all iterations in one call of the runtime."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import iterations_of_calls

import bellhop
from bellhop.circuits.backends.compiled.record import traced_bodies

pytestmark = pytest.mark.usefixtures("loops_stay")

ITERATIONS = 7
Loop = Callable[..., Any]


def in_python(body: Callable[..., Any], *carried: Any) -> Any:
    for i in range(ITERATIONS):
        result = body(i, *carried)
        carried = (result,) if carried else ()
    return carried[0] if carried else None


def compiled_loop(body: Callable[..., Any], *carried: Any) -> Any:
    return bellhop.for_loop(0, ITERATIONS)(body)(*carried)


def of_the_number(loop: Loop, x: Any) -> None:
    def body(i: Any) -> None:
        qml.RX(x[0] * i, 0)
        qml.CNOT([0, 1])
        qml.RY(qml.math.sin(x[1] + i), 1)

    loop(body)


def of_what_is_carried(loop: Loop, x: Any) -> None:
    def body(i: Any, angle: Any) -> Any:
        qml.RX(angle, 0)
        qml.CRY(angle * x[1], [0, 1])
        return angle * x[0] + 0.1

    qml.RY(loop(body, x[0]), 1)


def on_computed_wires(loop: Loop, x: Any) -> None:
    def body(i: Any) -> None:
        qml.RX(x[0] * i, i % 2)
        qml.CNOT([i % 2, (i + 1) % 2])

    loop(body)
    qml.RX(x[1], 0)


def without_parameters(loop: Loop, x: Any) -> None:
    qml.RX(x[0], 0)

    def body(i: Any) -> None:
        qml.Hadamard(0)
        qml.CNOT([0, 1])
        qml.T(1)

    loop(body)
    qml.RX(x[1], 0)


def one_after_another(loop: Loop, x: Any) -> None:
    of_the_number(loop, x)
    qml.RZ(x[0] * x[1], 0)
    of_the_number(loop, 2 * x)


def in_a_loop(loop: Loop, x: Any) -> None:
    def outer(i: Any, angle: Any) -> Any:
        qml.RY(angle, 0)
        loop(lambda k: qml.RX(x[0] * k * angle, 1))
        qml.CNOT([1, 0])
        return angle * x[1]

    loop(outer, x[0])


ONE_CALL = [of_the_number, of_what_is_carried, on_computed_wires, without_parameters]
ALL = [*ONE_CALL, one_after_another, in_a_loop]


def circuit_of(gates: Callable[[Loop, Any], None], loop: Loop) -> Callable[[Any], Any]:
    def circuit(x: Any) -> Any:
        gates(loop, x)
        return qml.expval(qml.PauliZ(0) @ qml.PauliY(1) + qml.PauliZ(1))

    return circuit


@pytest.fixture
def point() -> np.ndarray:
    return np.array([0.4, 1.3])


@pytest.mark.parametrize("gates", ALL, ids=lambda gates: gates.__name__)
def test_value_and_derivatives(
    gates: Any, lightning: Any, reference: Any, assert_close: Any, point: np.ndarray
) -> None:
    ours = lightning(circuit_of(gates, compiled_loop), 2)
    compiled = bellhop.qjit(lambda x: (ours(x), bellhop.grad(ours)(x)))
    theirs = reference(circuit_of(gates, in_python), 2)
    expected = theirs(point), qml.grad(theirs)(qml.numpy.array(point, requires_grad=True))
    assert_close(compiled(jnp.asarray(point)), expected)
    assert ITERATIONS in iterations_of_calls(compiled)


@pytest.mark.hessian
@pytest.mark.parametrize("gates", ONE_CALL[:2], ids=lambda gates: gates.__name__)
def test_second_derivative(gates: Any, lightning: Any, point: np.ndarray) -> None:
    ours = lightning(circuit_of(gates, compiled_loop), 2)
    hessian = bellhop.qjit(jax.hessian(ours))(jnp.asarray(point))
    traced = qml.QNode(circuit_of(gates, in_python), qml.device("default.qubit", wires=2))
    np.testing.assert_allclose(hessian, jax.hessian(traced)(jnp.asarray(point)), atol=1e-8)


@pytest.mark.parametrize("gates", ONE_CALL, ids=lambda gates: gates.__name__)
def test_nothing_is_left_of_the_loop_in_the_circuit(gates: Any, lightning: Any, point: Any) -> None:
    function = bellhop.qjit(lightning(circuit_of(gates, compiled_loop), 2))
    function(jnp.asarray(point))
    assert iterations_of_calls(function).count(ITERATIONS) == 1
    assert ("stablehlo.while" in function.mlir_opt) == (gates is of_what_is_carried)


def test_iterations_with_more_than_gates_keep_their_loop(lightning: Any, point: np.ndarray) -> None:
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, ITERATIONS)
        def loop(i: Any) -> None:
            qml.RX(x[0], 0)
            bellhop.cond(i % 2 == 0)(lambda: qml.CNOT([0, 1]))()
            qml.RY(x[1], 1)

        loop()
        return qml.expval(qml.PauliZ(0))

    function = bellhop.qjit(lightning(circuit, 2))
    function(jnp.asarray(point))
    assert set(iterations_of_calls(function)) == {1}


def test_long_loops_are_not_held_at_once(
    lightning: Any, reference: Any, monkeypatch: Any, point: np.ndarray
) -> None:
    monkeypatch.setattr(traced_bodies, "_MAX_ITERATIONS_PER_CALL", ITERATIONS - 1)
    function = bellhop.qjit(lightning(circuit_of(of_the_number, compiled_loop), 2))
    expected = reference(circuit_of(of_the_number, in_python), 2)(point)
    np.testing.assert_allclose(function(jnp.asarray(point)), expected, atol=1e-9)
    assert set(iterations_of_calls(function)) == {1}


def test_wire_outside_the_circuit_is_named(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        bellhop.for_loop(0, ITERATIONS)(lambda i: qml.RX(x, i))()
        return qml.expval(qml.PauliZ(0))

    with pytest.raises(Exception, match=r"RX.*test_repeated_runs.py:\d+.*wire 3 is not in"):
        bellhop.qjit(lightning(circuit, 3))(0.5)
