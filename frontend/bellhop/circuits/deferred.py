"""Control flow on a tape of the user's, which becomes part of the circuit with the tape.

A decomposition is a list of operations, and what stands in a ``QuantumTape`` in it is collected
by that.  So a loop or conditional there is an operation until the circuit applies it.  What it
returns is needed before: it is traced for its values first, and for its gates then.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pennylane as qml

from bellhop.circuits.nested import ValuesAlone, control, invert
from bellhop.circuits.queue import QueuedCircuit
from bellhop.tracing import circuit_scope, current_circuit

_AROUND = (qml.ops.Adjoint, qml.ops.Controlled)

# Applies control flow to a circuit.
Play = Callable[[Any], Any]


class ControlFlow(qml.operation.Operation):
    """A loop or conditional, as an operation."""

    num_params = 0

    def __init__(self, play: Play, wires: Any) -> None:
        self._hyperparameters = {"play": play}
        super().__init__(wires=wires)


def as_control_flow(op: Any) -> Play | None:
    """Return what applies an operation that is control flow, inverted and controlled as it is."""
    if isinstance(op, ControlFlow):
        play: Play = op.hyperparameters["play"]
        return play
    base = as_control_flow(op.base) if isinstance(op, _AROUND) else None
    if base is None:
        return None
    here = lambda: base(current_circuit())
    if isinstance(op, qml.ops.Adjoint):
        return lambda circuit: invert(circuit, here)
    return lambda circuit: control(circuit, op.control_wires, op.control_values, here)


def apply_control_flow(circuit: QueuedCircuit, play: Play) -> None:
    """Apply it to a circuit that is applying operations."""
    with circuit_scope(circuit), circuit.queue():
        play(circuit)


class Deferred:
    """Takes control flow for a circuit while operations are collected by something else."""

    def __init__(self, circuit: QueuedCircuit) -> None:
        self._circuit = circuit

    def for_loop(self, trips: Any, iteration: Callable[..., Any], carried: Any) -> Any:
        """Defer a loop; return the carried values."""
        return self._defer(lambda circuit: circuit.for_loop(trips, iteration, carried))

    def while_loop(self, condition: Any, iteration: Callable[..., Any], carried: Any) -> Any:
        """Defer a loop; return the carried values."""
        return self._defer(lambda circuit: circuit.while_loop(condition, iteration, carried))

    def branch(self, construct: str, index: Any, names: Any, branches: Sequence[Any]) -> Any:
        """Defer a conditional; return its result."""
        return self._defer(lambda circuit: circuit.branch(construct, index, names, branches))

    def _defer(self, play: Play) -> Any:
        values = ValuesAlone(self._circuit)
        result = values.run(lambda: play(values))
        ControlFlow(play, values.applied.wires)
        return result
