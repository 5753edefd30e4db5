"""Wires that a quantum function allocates, held against PennyLane's own, not compiled."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = {
    "default.qubit": {},
    "lightning.qubit": {"wires": 5},
    "lightning.qubit without wires": {},
    "reference.qubit": {"wires": 5},
}


def device(name: str) -> Any:
    return qml.device(name.split()[0], **DEVICES[name])


def restored_and_kept(x: Any) -> Any:
    """A context manager, and calls; one wire is measured, and one comes back before the end."""
    qml.RX(x, 0)
    with qml.allocate(1, restored=True) as [helper]:
        qml.CNOT([0, helper])
        qml.CRY(0.3, [helper, 1])
        qml.CNOT([0, helper])
    pair = qml.allocate(2)
    qml.RX(x, pair[0])
    qml.CNOT([pair[0], pair[1]])
    qml.CNOT([pair[1], 1])
    qml.deallocate(pair[0])
    word = qml.Z(0) @ qml.Z(1)
    return qml.expval(word), qml.expval(qml.Z(pair[1])), qml.probs(wires=[1, pair[1]])


def used_again(x: Any) -> Any:
    """More wires than there are, one after the other, in the state zero and in any."""
    for i in range(4):
        with qml.allocate(1) as [wire]:
            qml.RX(x * (i + 1), wire)
            qml.CNOT([wire, 0])
    with qml.allocate(1, state="any") as [wire]:
        qml.CNOT([0, wire])
    return qml.expval(qml.Z(0))


def in_a_loop(x: Any) -> Any:
    qml.RX(x, 0)

    @qml.for_loop(3)
    def loop(i: Any) -> None:
        with qml.allocate(1) as [wire]:
            qml.RX(x * (i + 1), wire)
            qml.CNOT([wire, 0])

    loop()
    return qml.expval(qml.Z(0))


def in_a_branch(x: Any) -> Any:
    qml.RX(x, 0)

    def controlled() -> None:
        with qml.allocate(1, restored=True) as [wire]:
            qml.CNOT([0, wire])
            qml.CRY(0.5, [wire, 1])
            qml.CNOT([0, wire])

    qml.cond(x > 0.1, controlled)()
    return qml.expval(qml.Z(1))


def measured(x: Any) -> Any:
    with qml.allocate(2) as wires:
        qml.RX(x, wires[0])
        qml.CNOT(wires)
        qml.cond(qml.measure(wires[1]), qml.X)(0)
    return qml.expval(qml.Z(0))


CIRCUITS = (restored_and_kept, used_again, in_a_loop, in_a_branch, measured)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_values(circuit: Callable[..., Any], name: str) -> None:
    expected = qml.QNode(circuit, qml.device("default.qubit"))(0.7)
    values = bellhop.qjit(qml.QNode(circuit, device(name)))(0.7)
    for one, other in zip(jax.tree.leaves(values), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit"])
def test_derivative(name: str) -> None:
    plain = qml.QNode(used_again, qml.device("default.qubit"))
    slope = (plain(0.7 + 1e-5) - plain(0.7 - 1e-5)) / 2e-5
    found = bellhop.qjit(bellhop.grad(qml.QNode(used_again, device(name))))(0.7)
    np.testing.assert_allclose(found, slope, atol=1e-6)


def test_while_loop_of_computed_length() -> None:
    def circuit(n: Any, x: Any) -> Any:
        @qml.while_loop(lambda i: i < n)
        def loop(i: Any) -> Any:
            with qml.allocate(1, restored=True) as [wire]:
                qml.CNOT([0, wire])
                qml.RX(x, 0)
                qml.CNOT([0, wire])
                qml.CNOT([0, wire])
            return i + 1

        loop(0)
        return qml.expval(qml.Z(0))

    values = [
        bellhop.qjit(qml.QNode(circuit, device(name)))(3, 0.4)
        for name in ("default.qubit", "lightning.qubit")
    ]
    np.testing.assert_allclose(values[0], values[1], atol=1e-9)


def test_a_device_without_wires_has_as_many_as_are_needed() -> None:
    def circuit() -> Any:
        qml.Hadamard("a")
        with qml.allocate(1, restored=True) as [one]:
            qml.CNOT(["a", one])
            qml.CNOT(["a", one])
        other = qml.allocate(2)
        qml.X(other[1])
        return qml.probs()

    probs = bellhop.qjit(qml.QNode(circuit, device("default.qubit")))()
    expected = qml.QNode(circuit, device("default.qubit"))()
    np.testing.assert_allclose(probs, expected, atol=1e-9)


def allocated(*operations: Callable[[], Any], name: str = "lightning.qubit", wires: int = 2) -> Any:
    def circuit() -> Any:
        for operation in operations:
            operation()
        qml.X(0)
        return qml.expval(qml.Z(0))

    return qml.QNode(circuit, qml.device(name, wires=wires))


def after_the_end() -> None:
    with qml.allocate(1) as [wire]:
        pass
    qml.X(wire)


def twice() -> None:
    wires = qml.allocate(1)
    qml.deallocate(wires)
    qml.deallocate(wires)


def kept_in_a_loop() -> None:
    bellhop.for_loop(0, 3)(lambda i: (qml.allocate(1), None)[1])()


def given_back_in_a_branch() -> None:
    wires = qml.allocate(1)
    qml.cond(jnp.asarray(1) > 0, lambda: (qml.deallocate(wires), None)[1])()


def inverted() -> None:
    def function() -> None:
        with qml.allocate(1) as wires:
            qml.X(wires)

    bellhop.adjoint(function)()


def on_a_computed_wire() -> None:
    qml.X(jnp.argmax(jnp.arange(2)))
    qml.allocate(1)


ERRORS = {
    "more than there are": (
        lambda: allocated(lambda: qml.allocate(2)),
        "qml.allocate needs more wires than are free; the device has the wires [0, 1]. Use a",
    ),
    "more than a device of Python has": (
        lambda: allocated(lambda: qml.allocate(2), name="reference.qubit"),
        "the device has too few wires for qml.allocate, or an allocated wire is used after",
    ),
    "after the end": (
        lambda: allocated(after_the_end),
        "an allocated wire is used after qml.deallocate",
    ),
    "given back twice": (
        lambda: allocated(twice),
        "qml.deallocate got a wire that is not allocated. Call qml.deallocate once for each "
        "allocated wire.",
    ),
    "kept in a loop": (
        lambda: allocated(kept_in_a_loop),
        "a loop or a branch allocates a wire and does not deallocate this",
    ),
    "given back in a branch": (
        lambda: allocated(given_back_in_a_branch),
        "a loop or a branch deallocates a wire that was allocated outside of this",
    ),
    "inverted": (
        lambda: allocated(inverted),
        "of wires is not supported in a function that qml.adjoint or qml.ctrl transforms",
    ),
    "traced wires": (
        lambda: allocated(on_a_computed_wire),
        "as the circuit calls qml.allocate, which chooses wires that no gate uses",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    make, message = ERRORS[name]
    with pytest.raises(bellhop.CompileError) as caught:
        bellhop.qjit(make())()
    assert message in str(caught.value)
    assert "test_allocation.py:" in str(caught.value)
