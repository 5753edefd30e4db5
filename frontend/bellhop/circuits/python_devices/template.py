"""Tapes without the numbers that the program computes, and with them.

For ``qml.RX(x, 0)`` a template has a copy of the operation whose parameter is an operand's number;
a tape of it has an operation with a number.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pennylane as qml
from pennylane.devices.preprocess import device_resolve_dynamic_wires
from pennylane.ops.functions import bind_new_parameters
from pennylane.wires import DynamicWire

from bellhop.circuits.recording.allocation import is_allocation, number_needed


@dataclass(frozen=True, eq=False)
class Part:
    """An operation, or an observable.

    Attributes:
        made: with placeholders for the parameters that the program computes.
        operands: for each of its parameters the number of the operand that it is; None for a
            constant.
    """

    made: Any
    operands: tuple[int | None, ...] = ()

    def of(self, values: Sequence[Any]) -> Any:
        """Return it with the values of operands."""
        if all(number is None for number in self.operands):
            return self.made
        data = [
            constant if number is None else values[number]
            for constant, number in zip(self.made.data, self.operands, strict=True)
        ]
        made = bind_new_parameters(self.made, data)
        if isinstance(made, qml.ops.Conditional):
            return Conditional(made.meas_val, made.base)
        return made


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several branches.

    Attributes:
        index: the operand that is the number of the branch.
        branches: the steps of each.
    """

    index: int
    branches: tuple[tuple["Step", ...], ...]


Step = Part | Choice


@dataclass(frozen=True, eq=False)
class Measured:
    """A measurement process, and its observable if it has one."""

    process: Any
    observable: Part | None

    def of(self, values: Sequence[Any]) -> Any:
        """Return the process with the values of operands."""
        if self.observable is None:
            return self.process
        process = copy.copy(self.process)
        process.obs = self.observable.of(values)
        return process


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
    measured: tuple[Measured, ...]
    shots: Any
    device_wires: Any = None

    def tape(self, values: Sequence[Any]) -> qml.tape.QuantumScript:
        """Return a tape with the values of operands."""
        measurements = [each.of(values) for each in self.measured]
        tape = qml.tape.QuantumScript(_chosen(self.steps, values), measurements, shots=self.shots)
        if not any(map(is_allocation, tape.operations)):
            return tape
        # Resets are the last resort, where the device has no wire left that nobody has used.
        (resolved,), _ = device_resolve_dynamic_wires(
            tape, wires=self.device_wires, allow_resets=bool(self.device_wires)
        )
        return resolved

    @property
    def parts(self) -> list[Part]:
        """The operations, those of all branches."""
        return _parts(self.steps)

    @property
    def n_wires(self) -> int:
        """How many wires there are: the device's, or those that may be used."""
        if self.device_wires:
            return len(self.device_wires)
        operations = [part.made for part in self.parts]
        used = [*operations, *(each.process for each in self.measured)]
        named = {wire for each in used for wire in each.wires if not isinstance(wire, DynamicWire)}
        return len(named) + number_needed(operations)


class Conditional(qml.ops.Conditional):
    """An operation on a condition of outcomes, whose shift rules are those of the operation.

    PennyLane has none for it, and would take finite differences.  But a rule of the operation holds
    for each outcome, none of which depends on what comes after it.
    """

    grad_method = property(lambda self: self.base.grad_method)
    parameter_frequencies = property(lambda self: self.base.parameter_frequencies)


def part_of(made: Any, operand: Callable[[Any], int]) -> Part:
    """Return the part of a template for an operation or observable.

    Args:
        made: it, with tracers for what the program computes.
        operand: takes a tracer, and returns the number of the operand that it becomes.
    """
    if not any(isinstance(value, jax.Array) for value in made.data):
        return Part(made)
    operands = tuple(
        operand(value) if isinstance(value, jax.core.Tracer) else None for value in made.data
    )
    with qml.QueuingManager.stop_recording():
        copied = copy.deepcopy(made)
        copied.data = tuple(map(_without_tracer, made.data))
    return Part(copied, operands)


def _without_tracer(value: Any) -> Any:
    if isinstance(value, jax.core.Tracer):
        return np.zeros(value.shape, value.dtype)
    return np.asarray(value) if isinstance(value, jax.Array) else value


def _chosen(steps: Sequence[Step], values: Sequence[Any]) -> list[Any]:
    operations = []
    for step in steps:
        if isinstance(step, Choice):
            # As a conditional of JAX's does with a number out of range.
            number = min(max(int(values[step.index]), 0), len(step.branches) - 1)
            operations += _chosen(step.branches[number], values)
        else:
            operations.append(step.of(values))
    return operations


def _parts(steps: Sequence[Step]) -> list[Part]:
    parts = []
    for step in steps:
        if isinstance(step, Choice):
            parts += [part for branch in step.branches for part in _parts(branch)]
        else:
            parts.append(step)
    return parts
