"""Straight runs of gates: the static table, and the parameters and wires known at run time."""

import enum
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp

from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import WireMap
from bellhop_mlir.dialects.gate import Gate, shift_slots


class DerivativeKind(enum.Enum):
    """What a circuit's derivative by the run-time parameters of gates is.

    Values:
        BY_PARAMETERS: one by each of them.
        BY_AMPLITUDES: the gate prepares the state from them.
        NONE: an error.
    """

    BY_PARAMETERS = enum.auto()
    BY_AMPLITUDES = enum.auto()
    NONE = enum.auto()


@dataclass
class GateSequence:
    """A straight run of gates: the static table, and what is known at run time.

    Attributes:
        derivative: by its parameters.
        gates: in order; a slot is an index into the parameters.
        n_params: how many parameters there are.
        frequencies: the bits of the frequencies of each (see ``shift_rules``).
    """

    derivative: DerivativeKind = DerivativeKind.BY_PARAMETERS
    gates: list[Gate] = field(default_factory=list)
    n_params: int = 0
    frequencies: bytearray = field(default_factory=bytearray)
    # By the first slot of each.
    _params: dict[int, Any] = field(default_factory=dict)
    _wires: list[Any] = field(default_factory=list)

    def append_params(self, values: Any, frequencies: int) -> range:
        """Append parameters, a scalar or an array, and return their slots."""
        slots = range(self.n_params, self.n_params + values.size)
        self._params[slots.start] = values
        self.n_params = slots.stop
        self.frequencies += bytes([frequencies]) * len(slots)
        return slots

    def take_amplitudes(self, values: Any, frequencies: int) -> range:
        """Append the amplitudes of a state as they are; return the slots of their numbers.

        Args:
            values: an array of amplitudes, real or complex.  A complex one is two parameters, a
                real and an imaginary part.
            frequencies: the bits of the frequencies of each parameter.
        """
        size = values.size * (2 if jnp.iscomplexobj(values) else 1)
        slots = range(self.n_params, self.n_params + size)
        self._params[slots.start] = values
        self.n_params = slots.stop
        self.frequencies += bytes([frequencies]) * size
        return slots

    def append_param_vector(self, values: Any, frequencies: bytes | bytearray) -> None:
        """Append a vector of parameters, with the bits of the frequencies of each."""
        if values.size:
            self._params[self.n_params] = values
        self.n_params += len(frequencies)
        self.frequencies += frequencies

    def stack_params(self) -> Any:
        """Return the run-time parameters as one vector, or the amplitudes of a state."""
        if not self._params:
            return jnp.zeros(0, Precision.real_type())
        pieces: list[Any] = []
        for ndim, group in itertools.groupby(self._params.values(), lambda value: value.ndim):
            values = list(group)
            pieces += [stack_scalars(values)] if ndim == 0 else map(jnp.ravel, values)
        return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)

    def get_param(self, slot: int) -> Any:
        """Return the parameter of a gate that has only one."""
        return self._params[slot]

    def copy_empty(self) -> "GateSequence":
        """Return a run with the same wires, and nothing in it."""
        return GateSequence(self.derivative, _wires=self._wires)

    def extend(self, other: "GateSequence") -> None:
        """Append another run."""
        before = self.n_params
        self._params |= {before + slot: values for slot, values in other._params.items()}
        self.n_params += other.n_params
        self.frequencies += other.frequencies
        wires = {-1 - index: self.append_wire(wire) for index, wire in enumerate(other._wires)}
        for gate in other.gates:
            moved = replace(gate, slots=shift_slots(gate.slots, before))
            if wires:
                moved = replace(
                    moved,
                    wires=tuple(wires.get(wire, wire) for wire in gate.wires),
                    control_wires=tuple(wires.get(wire, wire) for wire in gate.control_wires),
                )
            self.gates.append(moved)

    def copy_gate(self, gate: Gate, source: "GateSequence") -> None:
        """Append a gate of another run, with its parameters, on wires as this run has them."""
        if isinstance(gate.slots, range):
            first = gate.slots.start
            if first >= 0:
                slots_of_array = self.append_params(
                    source._params[first], source.frequencies[first]
                )
                self.frequencies[slots_of_array.start :] = source.frequencies[
                    first : gate.slots.stop
                ]
                gate = replace(gate, slots=slots_of_array)
            self.gates.append(gate)
            return
        slots: list[int] = []
        for slot in gate.slots:
            if slot < 0:
                slots.append(slot)
            elif slot in source._params:
                slots += self.append_params(source._params[slot], source.frequencies[slot])
        self.gates.append(replace(gate, slots=tuple(slots)))

    def append_rotation(self, gate: Gate, angle: Operand, frequencies: int) -> None:
        """Append a rotation like a gate, by a scalar."""
        slots = tuple(self.append_params(angle, frequencies))
        self.gates.append(replace(gate, slots=slots, constants=(), adjoint=False))

    def append_wire(self, wire: Wire) -> int:
        """Append a wire that the program computes; return its index as gates refer to it."""
        for index, other in enumerate(self._wires):
            if other is wire:
                return -1 - index
        self._wires.append(wire)
        return -len(self._wires)

    def stack_wires(self) -> Any:
        """Return the wires that the program computes as one int32 vector."""
        if not self._wires:
            return jnp.zeros(0, jnp.int32)
        return jnp.stack([WireMap.as_int32(wire) for wire in self._wires])


def as_numbers(amplitudes: Any) -> Any:
    """Return amplitudes as a vector of real numbers: parts of complex ones in turn."""
    if jnp.iscomplexobj(amplitudes):
        amplitudes = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)], axis=-1)
    return jnp.ravel(amplitudes).astype(Precision.real_type())


@dataclass(frozen=True)
class RepeatedSequence:
    """A run of gates once for each iteration of a loop, by parameters of its own.

    Attributes:
        sequence: the gates of an iteration.
        params: of all iterations, one after another ``[n_iterations * run.n_params]``.
        wires: those that the program computes, likewise.
        n_iterations: how many there are.
    """

    sequence: GateSequence
    params: Any
    wires: Any
    n_iterations: int

    @staticmethod
    def from_sequence(sequence: GateSequence) -> "RepeatedSequence":
        """Return a run that is no loop."""
        return RepeatedSequence(sequence, sequence.stack_params(), sequence.stack_wires(), 1)

    def drop_values(self) -> "RepeatedSequence":
        """Return the same gates, without what is traced."""
        return replace(
            self, sequence=replace(self.sequence, _params={}, _wires=[]), params=None, wires=None
        )
