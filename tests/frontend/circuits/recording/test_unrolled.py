"""Loops of few gates on known wires, which are straight runs of gates."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import calls

import bellhop
from bellhop.circuits.gates.traced_operators import TracedOperator


def applying(gate: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return the body of a loop, which returns nothing."""

    def body(number: Any) -> None:
        gate(number)

    return body


X = np.linspace(0.2, 1.9, 12).reshape(3, 4)


def by_name(loop: Any, x: Any) -> None:
    loop(4)(applying(lambda i: qml.RX(x[0, i], wires=i)))()


def ring(loop: Any, x: Any) -> None:
    @loop(3)
    def layer(number: Any) -> None:
        loop(4)(applying(lambda i: qml.RY(x[number, i], wires=i)))()
        qml.Hadamard(0)
        loop(4)(applying(lambda i: qml.CNOT(wires=[i, (i + 1) % 4])))()

    layer()


def of_two_numbers(loop: Any, x: Any) -> None:
    @loop(3)
    def outer(i: Any) -> None:
        loop(2)(applying(lambda k: qml.CRX(x[i, k] * (k + 1), wires=[i, (i + k + 1) % 4])))()

    qml.RX(x[2, 3], wires=3)
    loop(4)(applying(lambda i: qml.Hadamard(wires=i)))()
    outer()
    qml.RY(x[0, 3], wires=0)


def with_carried(loop: Any, x: Any) -> None:
    @loop(4)
    def body(i: Any, angle: Any) -> Any:
        qml.Rot(angle, x[1, i], 0.3, wires=3 - i)
        return angle * 1.5 + x[0, i]

    qml.RX(body(x[2, 0]), wires=1)


def controlled(loop: Any, x: Any) -> None:
    qml.Hadamard(3)
    qml.ctrl(lambda: by_three(loop, x), control=3)()
    qml.adjoint(lambda: by_three(loop, x))()


def by_three(loop: Any, x: Any) -> None:
    loop(3)(applying(lambda i: qml.RX(x[1, i], wires=i)))()


def triangle(loop: Any, x: Any) -> None:
    wires = jnp.arange(5)[:-1] if loop is bellhop.for_loop else range(4)

    @loop(4)
    def outer(i: Any) -> None:
        qml.Hadamard(wires[i])
        loop(i)(applying(lambda j: qml.CRY(x[1, i] * (j + 1), wires=[wires[i], wires[j]])))()
        qml.RX(x[2, i], wires=wires[-1])

    outer()
    qml.adjoint(outer)()


def pieces(loop: Any, x: Any) -> None:
    @loop(3)
    def outer(i: Any) -> None:
        qml.RY(x[0, i], wires=i)
        loop(2)(applying(lambda k: qml.CRX(x[i, k], wires=[i, (i + k + 1) % 4])))()
        loop(2 - i)(applying(lambda k: qml.Rot(x[i, k], 0.4, x[k, i], wires=i + k)))()

    outer()


def qnode(name: str, circuit: Callable[..., Any], loop: Any, **options: Any) -> qml.QNode:
    @qml.qnode(qml.device(name, wires=4), **options)
    def measured(x: Any) -> Any:
        circuit(loop, x)
        return qml.expval(qml.Z(0) @ qml.Y(1)), qml.probs(wires=[2, 3])

    return measured


@pytest.mark.parametrize(
    "circuit", [by_name, ring, of_two_numbers, with_carried, controlled, triangle, pieces]
)
def test_values_and_jacobians(circuit: Callable[..., Any]) -> None:
    compiled = qnode("lightning.qubit", circuit, bellhop.for_loop)
    reference = qnode("default.qubit", circuit, qml.for_loop)
    both = lambda circuit: lambda x: (circuit(x), jax.jacobian(circuit)(x))
    found, expected = bellhop.qjit(both(compiled))(X), jax.jit(both(reference))(X)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


@pytest.mark.parametrize("circuit", [by_name, ring, of_two_numbers, with_carried, triangle, pieces])
def test_all_gates_are_one_run(circuit: Callable[..., Any]) -> None:
    compiled = bellhop.qjit(qnode("lightning.qubit", circuit, bellhop.for_loop))
    compiled(X)
    assert [iterations for _, iterations in calls(compiled)] == [1]


def of_an_argument(loop: Any, x: Any) -> None:
    first = (x[0, 0] > 0).astype(int)
    loop(3)(applying(lambda i: qml.RX(x[0, i], wires=i + first)))()


def long(loop: Any, x: Any) -> None:
    loop(2000)(applying(lambda i: qml.RX(x[0, 0] * 1e-3, wires=i % 4)))()


def nest_of_large_gates(loop: Any, x: Any) -> None:
    outer = lambda i: loop(8)(applying(lambda j: qml.QFT(wires=range(4))))()
    loop(8)(applying(outer))()


def nest_of_an_argument(loop: Any, x: Any) -> None:
    first = (x[0, 0] > 0).astype(int)
    outer = lambda i: loop(2)(applying(lambda j: qml.RX(x[i, j], wires=j + first)))()
    loop(3)(applying(outer))()


@pytest.mark.parametrize(
    "circuit", [of_an_argument, long, nest_of_large_gates, nest_of_an_argument]
)
def test_others_stay_loops(circuit: Callable[..., Any]) -> None:
    compiled = bellhop.qjit(qnode("lightning.qubit", circuit, bellhop.for_loop))
    expected = qnode("default.qubit", circuit, qml.for_loop)(X)
    for mine, theirs in zip(compiled(X), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)
    assert '"quantum.gates"' in compiled.mlir_opt


@pytest.mark.parametrize(
    ("wires", "message"),
    [
        (lambda i: [i, i + 2], "RXX|wire|qubit"),
        (lambda i: [i, i * 2], "wire"),
    ],
)
@pytest.mark.parametrize("is_nest", [False, True])
def test_wires_that_are_wrong_are_the_errors_of_the_run(
    wires: Any, message: str, is_nest: bool
) -> None:
    def circuit(loop: Any, x: Any) -> None:
        gates = lambda: loop(4)(applying(lambda i: qml.IsingXX(x[0, i], wires=wires(i))))()
        (loop(2)(lambda _: gates()) if is_nest else gates)()

    with pytest.raises(bellhop.CircuitError, match=message):
        bellhop.qjit(qnode("lightning.qubit", circuit, bellhop.for_loop))(X)


def test_what_computed_known_wires_is_left_out() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=4))
    def circuit(x: Any) -> Any:
        wires = jnp.arange(5)[:-1]
        qml.RX(x, wires[-1])
        bellhop.for_loop(0, 3)(applying(lambda i: qml.CNOT(wires=[wires[-1 - i], wires[i]])))()
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(0.7), np.cos(0.7), atol=1e-12)
    assert "slice" not in str(circuit.jaxpr)


def test_a_nest_of_many_gates_is_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], TracedOperator.with_values

    def counted(self: TracedOperator, values: Any) -> Any:
        made.append(self)
        return make(self, values)

    def many(loop: Any, x: Any) -> None:
        outer = lambda i: loop(30)(applying(lambda j: qml.RX(x[0, 0] * j, wires=0)))()
        loop(20)(applying(outer))()

    monkeypatch.setattr(TracedOperator, "with_values", counted)
    bellhop.qjit(qnode("lightning.qubit", many, bellhop.for_loop))(X)
    # It was put down 513 times, to find out that these are more than are written as a line.
    assert 0 < len(made) < 20
