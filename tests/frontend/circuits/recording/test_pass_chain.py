"""Passes over circuits: chains of interpreters."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import pennylane as qml
import pytest

import bellhop
from bellhop.circuits.front.quantum_function import CachedFunction
from bellhop.circuits.ir.interpreter import GateReceiver
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.circuit_pass import CircuitPass


class Recorder(GateReceiver):
    """A backend that lists the constructs which it gets."""

    def __init__(self) -> None:
        super().__init__(WireMap((0, 1, 2), "test", lambda: (2,)), "test")
        self.constructs: list[str] = []

    def apply(self, operations: Sequence[Any]) -> None:
        self.constructs += [f"{op.name} on {list(map(self.wires, op.wires))}" for op in operations]

    def mid_measure(self, label: Any, **_: Any) -> Any:
        self.constructs.append(f"measure {label}")
        return jnp.asarray(False)

    def for_loop(self, n_iterations: Any, body: Any, carried: Any, **_: Any) -> Any:
        self.constructs.append(f"loop of {n_iterations}")
        return body(carried, jnp.asarray(0))

    def while_loop(self, condition: Any, body: Any, carried: Any) -> Any:
        self.constructs.append("while")
        return body(carried)

    def branch(self, branches: Any) -> Any:
        self.constructs.append("branch")
        return [function() for function in branches.functions][-1]


class DropWire(CircuitPass):
    """Drops the gates on wire 0."""

    def apply(self, operations: Sequence[Any]) -> None:
        self.target.apply([op for op in operations if 0 not in op.wires])


def circuit(x: Any) -> Any:
    qml.RX(x, 0)

    def body(i: Any) -> None:
        qml.RY(x, 0)
        qml.RY(x, 1)

    bellhop.for_loop(0, 3)(body)()
    bellhop.cond(x > 0, lambda: qml.X(0) and None, lambda: qml.Z(2) and None)()
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


def record(function: Any, recorder: Recorder, first: Any = None) -> list[str]:
    def trace(x: Any) -> Any:
        once, inputs = CachedFunction(function).bind_arguments((x,), {})
        once.apply_to_circuit(recorder, inputs, first)
        return x

    bellhop.qjit(trace)(jnp.asarray(0.3))
    return recorder.constructs


def test_a_pass_sees_the_gates_of_loops_and_branches() -> None:
    recorder = Recorder()
    kept = ["loop of 3", "RY on [1]", "branch", "PauliZ on [2]"]
    assert record(circuit, recorder, DropWire(recorder)) == kept


def test_a_circuit_without_work_for_passes_meets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a pass with nothing to do")

    monkeypatch.setattr(CircuitPass, "__init__", fail)
    assert len(record(circuit, Recorder())) == 8


def test_allocated_wires_are_spare_wires_for_any_backend() -> None:
    def allocating(x: Any) -> Any:
        def body(i: Any) -> None:
            with qml.allocate(1) as [spare]:
                qml.CNOT([0, spare])

        bellhop.for_loop(0, 3)(body)()
        return qml.expval(qml.Z(1))

    assert record(allocating, Recorder()) == ["loop of 3", "CNOT on [0, 2]", "measure 2"]


def test_an_adjoint_is_expanded_before_the_backend() -> None:
    def inverse(x: Any) -> Any:
        qml.adjoint(lambda: (qml.RX(x, 0), qml.S(1)))()
        return qml.expval(qml.Z(1))

    assert record(inverse, Recorder()) == ["Adjoint(S) on [1]", "Adjoint(RX) on [0]"]


def test_a_backend_alone_rejects_regions() -> None:
    def trace(x: Any) -> Any:
        function = lambda y: [qml.adjoint(lambda: qml.RX(y, 0) and None)(), qml.probs()][1]
        once, inputs = CachedFunction(function).bind_arguments((x,), {})
        with pytest.raises(
            AssertionError, match="an adjoint or controlled function reached Recorder"
        ):
            Recorder().interpret(once.get_traced("test", inputs).closed, *inputs)
        return x

    bellhop.qjit(trace)(jnp.asarray(0.3))
