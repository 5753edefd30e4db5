"""Tapes without the numbers that the program computes, and with them.

For ``qml.RX(x, 0)`` a template has what makes the operation of a number, and which operand that is;
a tape of it has an operation with a number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pennylane as qml
from pennylane.devices.preprocess import device_resolve_dynamic_wires
from pennylane.wires import DynamicWire

from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.traced_operators import TracedOperator
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CircuitError


@dataclass(frozen=True)
class WirePlaceholder:
    """A wire that the program computes: the number of an operand."""

    operand: int


@dataclass(frozen=True, eq=False)
class TemplatePart:
    """An operation, or a measurement process.

    Attributes:
        prototype: with zeros in the place of what the program computes.
        operator: what makes it.
        operands: the numbers of those that it is made of, beside wires.
    """

    prototype: Any
    operator: TracedOperator
    operands: tuple[int, ...]

    @classmethod
    def from_object(cls, made: Any, operand: Callable[[Any], int]) -> "TemplatePart":
        """Return the part of a template for an operation or measurement process.

        Args:
            made: it, with tracers for what the program computes, but for wires.
            operand: takes an array, and returns the number of the operand that it becomes.
        """
        operator, values = TracedOperator.partition(made, jax.Array)
        zeros = [np.zeros(value.shape, value.dtype) for value in values]
        return cls(operator.with_values(zeros), operator, tuple(map(operand, values)))

    def with_values(self, values: Sequence[Any], free: Sequence[Any] = ()) -> Any:
        """Return it with the values of operands, on any of the wires ``free`` where there are."""
        if not self.operands:
            return _map_wires(self.prototype, values, free)
        given = self.operator.with_values([values[number] for number in self.operands])
        made = _map_wires(given, values, free)
        if isinstance(made, qml.ops.Conditional):
            return ConditionalOperation(made.meas_val, made.base)
        return made


@dataclass(frozen=True, eq=False)
class BranchChoice:
    """One of several branches.

    Attributes:
        index: the operand that is the number of the branch.
        branches: the steps of each.
    """

    index: int
    branches: tuple[tuple["Step", ...], ...]


Step = TemplatePart | BranchChoice


@dataclass(frozen=True, eq=False)
class Template:
    """A tape without the numbers that the program computes.

    Attributes:
        steps: operations and choices, in order.
        measured: what is measured, in order.
        shots: as PennyLane has them.
        device_wires: those of the device, if it has some of its own.
    """

    steps: tuple[Step, ...]
    measured: tuple[TemplatePart, ...]
    shots: Any
    device_wires: Any = None

    def make_example_tape(self, values: Sequence[Any]) -> qml.tape.QuantumScript:
        """Return a tape with values of operands, on wires that are as good as others."""
        return self.make_tape(values, self.device_wires or ())

    def make_tape(self, values: Sequence[Any], free: Sequence[Any] = ()) -> qml.tape.QuantumScript:
        """Return a tape with the values of operands; computed wires are any of ``free``, if any."""
        operations = _select_operations(self.steps, values, free)
        measurements = [each.with_values(values, free) for each in self.measured]
        tape = qml.tape.QuantumScript(operations, measurements, shots=self.shots)
        if not any(map(Allocations.is_allocation, tape.operations)):
            return tape
        # Resets are the last resort, where the device has no wire left that nobody has used.
        (resolved,), _ = device_resolve_dynamic_wires(
            tape, wires=self.device_wires, allow_resets=bool(self.device_wires)
        )
        return resolved

    @property
    def parts(self) -> list[TemplatePart]:
        """The operations, those of all branches."""
        return _flatten_parts(self.steps)

    @property
    def n_wires(self) -> int:
        """How many wires there are: the device's, or those that may be used."""
        if self.device_wires:
            return len(self.device_wires)
        operations = [part.prototype for part in self.parts]
        used = [*operations, *(each.prototype for each in self.measured)]
        named = {wire for each in used for wire in each.wires if not isinstance(wire, DynamicWire)}
        return len(named) + Allocations.count_needed(operations)


class ConditionalOperation(qml.ops.Conditional):
    """An operation on a condition of outcomes, whose shift rules are those of the operation.

    PennyLane has none for it, and would take finite differences.  But a rule of the operation holds
    for each outcome, none of which depends on what comes after it.
    """

    grad_method = property(lambda self: self.base.grad_method)
    parameter_frequencies = property(lambda self: self.base.parameter_frequencies)


# PennyLane's transforms know a conditional by the name of its class.
ConditionalOperation.__name__ = qml.ops.Conditional.__name__


def _map_wires(made: Any, values: Sequence[Any], free: Sequence[Any]) -> Any:
    """Return an operation or measurement on the wires that operands say, or on free ones."""
    computed = [wire for wire in made.wires if isinstance(wire, WirePlaceholder)]
    if not computed:
        return made
    if free:
        found = dict(zip(computed, (w for w in free if w not in made.wires), strict=False))
        return made.map_wires(found)
    found = {wire: int(values[wire.operand]) for wire in computed}
    wires = [found.get(wire, wire) for wire in made.wires]
    if len(set(wires)) < len(wires) and not isinstance(made, qml.ops.CompositeOp):
        raise CircuitError(
            f"{getattr(made, 'name', type(made).__name__)} on wires {wires}: expected different "
            "wires, got one of them twice."
        )
    return made.map_wires(found)


def replace_dynamic_wires(made: Any, operand: Callable[[Any], int]) -> Any:
    """Return an operation or measurement with placeholders for the wires that are computed.

    Args:
        made: it.
        operand: takes a wire, and returns the number of the operand that it becomes.
    """
    found = {wire: WirePlaceholder(operand(wire)) for wire in made.wires if is_dynamic(wire)}
    if not found:
        return made
    with qml.QueuingManager.stop_recording():
        return made.map_wires(found)


def _select_operations(
    steps: Sequence[Step], values: Sequence[Any], free: Sequence[Any]
) -> list[Any]:
    operations = []
    for step in steps:
        if isinstance(step, BranchChoice):
            # As a conditional of JAX's does with a number out of range.
            number = min(max(int(values[step.index]), 0), len(step.branches) - 1)
            operations += _select_operations(step.branches[number], values, free)
        else:
            operations.append(step.with_values(values, free))
    return operations


def _flatten_parts(steps: Sequence[Step]) -> list[TemplatePart]:
    parts = []
    for step in steps:
        if isinstance(step, BranchChoice):
            parts += [part for branch in step.branches for part in _flatten_parts(branch)]
        else:
            parts.append(step)
    return parts
