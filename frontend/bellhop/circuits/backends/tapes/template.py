"""Tape templates: PennyLane tapes with placeholders for traced values.

For ``qml.RX(x, 0)`` a template stores how to build the operation from a value, and the index of the
operand that has the value.  `Template.make_tape` fills in the values when the program runs.
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
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CircuitError


@dataclass(frozen=True)
class WirePlaceholder:
    """A wire label in a template in place of a traced wire.

    Attributes:
        operand: the index of the template's operand whose value is the wire.
    """

    operand: int


@dataclass(frozen=True, eq=False)
class TemplatePart:
    """An operation or measurement process of a template, without traced values.

    Attributes:
        prototype: the object with zeros in place of traced values, and placeholders for traced
            wires.
        operator: builds the object from concrete values, which replace the zeros.
        operands: for each of these values, the index of the template's operand that has it. Wires
            are not included.
    """

    prototype: Any
    operator: TracedOperator
    operands: tuple[int, ...]

    @classmethod
    def from_object(cls, op_or_process: Any, operand: Callable[[Any], int]) -> "TemplatePart":
        """Convert an operation or measurement process to a part of a template.

        Args:
            op_or_process: the object, with `WirePlaceholder` labels for traced wires.
            operand: adds a traced array to the template's operands, and returns the operand's
                index.
        """
        operator, values = TracedOperator.partition(op_or_process, jax.Array)
        zeros = [np.zeros(value.shape, value.dtype) for value in values]
        return cls(operator.with_values(zeros), operator, tuple(map(operand, values)))

    def with_values(self, values: Sequence[Any], example_wires: Sequence[Any] = ()) -> Any:
        """Build the operation or measurement process from concrete values.

        A conditional with traced values becomes a `ConditionalOperation`.

        Args:
            values: the value of each operand of the template.
            example_wires: wire labels to use for traced wires, for an example tape; empty to use
                their values.

        Raises:
            CircuitError: if the values of an operation's wires are not distinct.
        """
        if not self.operands:
            return _map_wires(self.prototype, values, example_wires)
        filled = self.operator.with_values([values[number] for number in self.operands])
        result = _map_wires(filled, values, example_wires)
        if isinstance(result, qml.ops.Conditional):
            return ConditionalOperation(result.meas_val, result.base)
        return result


@dataclass(frozen=True, eq=False)
class BranchChoice:
    """A conditional in a template; the program chooses the branch that a tape gets.

    Attributes:
        index: the index of the template's operand whose value is the index of the chosen branch.
        branches: for each branch, its steps in order.
    """

    index: int
    branches: tuple[tuple["Step", ...], ...]


Step = TemplatePart | BranchChoice


@dataclass(frozen=True, eq=False)
class Template:
    """A PennyLane tape with placeholders for traced values, made once per trace.

    Attributes:
        steps: operations and conditionals, in order.
        measured: the final measurement processes, in order.
        shots: the number of shots, or the shot vector.
        device_wires: the wire labels of the device; None for a device without wires.
    """

    steps: tuple[Step, ...]
    measured: tuple[TemplatePart, ...]
    shots: Shots
    device_wires: Any = None

    def make_example_tape(self, values: Sequence[Any]) -> qml.tape.QuantumScript:
        """Build a tape on some device wires, to query what the device supports.

        Any device wires take the places of traced wires.

        Args:
            values: the value of each operand; the values of wires are ignored.
        """
        return self.make_tape(values, self.device_wires or ())

    def make_tape(
        self, values: Sequence[Any], example_wires: Sequence[Any] = ()
    ) -> qml.tape.QuantumScript:
        """Build a tape from concrete values; map allocated wires to device wires.

        Args:
            values: the value of each operand.
            example_wires: wire labels to use for traced wires, for an example tape; empty to use
                their values.

        Raises:
            CircuitError: if the values of an operation's wires are not distinct.
        """
        operations = _select_operations(self.steps, values, example_wires)
        measurements = [each.with_values(values, example_wires) for each in self.measured]
        shots = self.shots.shot_vector if self.shots.is_vector else self.shots.total or None
        tape = qml.tape.QuantumScript(operations, measurements, shots=shots)
        if not any(map(Allocations.is_allocation, tape.operations)):
            return tape
        # PennyLane resets a wire only if no unused device wire is left.
        (resolved,), _ = device_resolve_dynamic_wires(
            tape, wires=self.device_wires, allow_resets=bool(self.device_wires)
        )
        return resolved

    @property
    def parts(self) -> list[TemplatePart]:
        """The operations of the template, in order, including all branches of conditionals."""
        return _flatten_parts(self.steps)

    @property
    def n_wires(self) -> int:
        """The number of wires of the device.

        Without device wires, the number of wires of all parts, with the wires that they allocate.
        """
        if self.device_wires:
            return len(self.device_wires)
        operations = [part.prototype for part in self.parts]
        used = [*operations, *(each.prototype for each in self.measured)]
        named = {wire for each in used for wire in each.wires if not isinstance(wire, DynamicWire)}
        return len(named) + Allocations.count_needed(operations)


class ConditionalOperation(qml.ops.Conditional):
    """A PennyLane ``Conditional`` that has the shift rules of its base operation.

    PennyLane's ``Conditional`` has no shift rule and is differentiated by finite differences. But
    the base operation's rule holds for each outcome, because an earlier outcome does not depend on
    the operation's parameters.
    """

    grad_method = property(lambda self: self.base.grad_method)
    parameter_frequencies = property(lambda self: self.base.parameter_frequencies)


# PennyLane's transforms recognize a conditional by the name of its class.
ConditionalOperation.__name__ = qml.ops.Conditional.__name__


def _map_wires(op_or_process: Any, values: Sequence[Any], example_wires: Sequence[Any]) -> Any:
    """Replace the wire placeholders of an operation or measurement process by wire labels.

    Args:
        op_or_process: the operation or measurement process; returned itself if it has no
            placeholders.
        values: the value of each operand of the template; a placeholder has the index of its
            operand.
        example_wires: wire labels to use instead of these values; empty to use the values.

    Raises:
        CircuitError: if the wires of an operation are not distinct.
    """
    placeholders = [wire for wire in op_or_process.wires if isinstance(wire, WirePlaceholder)]
    if not placeholders:
        return op_or_process
    if example_wires:
        wire_map = dict(
            zip(
                placeholders,
                (w for w in example_wires if w not in op_or_process.wires),
                strict=False,
            )
        )
        return op_or_process.map_wires(wire_map)
    wire_map = {wire: int(values[wire.operand]) for wire in placeholders}
    wires = [wire_map.get(wire, wire) for wire in op_or_process.wires]
    if len(set(wires)) < len(wires) and not isinstance(op_or_process, qml.ops.CompositeOp):
        raise CircuitError(
            f"{getattr(op_or_process, 'name', type(op_or_process).__name__)} on wires {wires}: "
            "expected different wires, got one of them twice. Pass different values for the traced "
            "wires."
        )
    return op_or_process.map_wires(wire_map)


def replace_dynamic_wires(op_or_process: Any, operand: Callable[[Any], int]) -> Any:
    """Replace the traced wires of an operation or measurement process by placeholders.

    Args:
        op_or_process: the operation or measurement process; returned itself if it has no traced
            wires.
        operand: adds a traced wire to the template's operands, and returns the operand's index.

    Returns:
        a copy whose traced wires are `WirePlaceholder` objects.
    """
    wire_map = {
        wire: WirePlaceholder(operand(wire)) for wire in op_or_process.wires if is_dynamic(wire)
    }
    if not wire_map:
        return op_or_process
    with qml.QueuingManager.stop_recording():
        return op_or_process.map_wires(wire_map)


def _select_operations(
    steps: Sequence[Step], values: Sequence[Any], example_wires: Sequence[Any]
) -> list[Any]:
    """Build the operations of a template from concrete values.

    Args:
        steps: operations and conditionals. Of a conditional, only the chosen branch is built.
        values: the value of each operand of the template.
        example_wires: wire labels to use for traced wires; empty to use their values.
    """
    operations = []
    for step in steps:
        if isinstance(step, BranchChoice):
            # An index out of range is clamped, as by ``jax.lax.switch``.
            number = min(max(int(values[step.index]), 0), len(step.branches) - 1)
            operations += _select_operations(step.branches[number], values, example_wires)
        else:
            operations.append(step.with_values(values, example_wires))
    return operations


def _flatten_parts(steps: Sequence[Step]) -> list[TemplatePart]:
    """Return the operations in steps, including all branches of conditionals."""
    parts = []
    for step in steps:
        if isinstance(step, BranchChoice):
            parts += [part for branch in step.branches for part in _flatten_parts(branch)]
        else:
            parts.append(step)
    return parts
