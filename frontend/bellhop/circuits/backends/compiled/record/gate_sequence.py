"""Sequences of gates: a static table of gates, and their traced parameters and wires."""

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
    """Kinds of derivatives of a circuit with respect to traced parameters of gates.

    Values:
        BY_PARAMETERS: one derivative for each parameter.
        BY_AMPLITUDES: the parameters are the amplitudes of a prepared state.
        NONE: differentiation raises an error.
    """

    BY_PARAMETERS = enum.auto()
    BY_AMPLITUDES = enum.auto()
    NONE = enum.auto()


@dataclass
class GateSequence:
    """A sequence of gates without control flow: a static table, and traced values.

    Attributes:
        derivative: kind of the derivative with respect to its parameters.
        gates: the gates in order; a slot of a gate is an index of a parameter.
        n_params: number of parameters.
        frequencies: for each parameter, the bit set of its frequencies (see ``shift_rules``).
    """

    derivative: DerivativeKind = DerivativeKind.BY_PARAMETERS
    gates: list[Gate] = field(default_factory=list)
    n_params: int = 0
    frequencies: bytearray = field(default_factory=bytearray)
    # Scalars and arrays, by their first slot.
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
        """Append the amplitudes of a state in their own dtype; return their slots.

        Args:
            values: an array of amplitudes, real or complex.  A complex amplitude is two parameters,
                the real and the imaginary part.
            frequencies: bit set of the frequencies of each parameter.
        """
        size = values.size * (2 if jnp.iscomplexobj(values) else 1)
        slots = range(self.n_params, self.n_params + size)
        self._params[slots.start] = values
        self.n_params = slots.stop
        self.frequencies += bytes([frequencies]) * size
        return slots

    def append_param_vector(self, values: Any, frequencies: bytes | bytearray) -> None:
        """Append a vector of parameters whose frequencies may differ.

        Args:
            values: 1-D array of parameters.
            frequencies: for each parameter, a byte with its shift-rule frequencies
                (`FrequencyBits`).
        """
        if values.size:
            self._params[self.n_params] = values
        self.n_params += len(frequencies)
        self.frequencies += frequencies

    def stack_params(self) -> Any:
        """Return the traced parameters as one vector, or the amplitudes of a state."""
        if not self._params:
            return jnp.zeros(0, Precision.real_type())
        pieces: list[Any] = []
        for ndim, group in itertools.groupby(self._params.values(), lambda value: value.ndim):
            values = list(group)
            pieces += [stack_scalars(values)] if ndim == 0 else map(jnp.ravel, values)
        return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)

    def get_param(self, slot: int) -> Any:
        """Return the scalar parameter with a slot."""
        return self._params[slot]

    def copy_empty(self) -> "GateSequence":
        """Return a sequence without gates and parameters, but with the same traced wires."""
        return GateSequence(self.derivative, _wires=self._wires)

    def extend(self, other: "GateSequence") -> None:
        """Append the gates, parameters and traced wires of a sequence."""
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
        """Append a gate of a second sequence, with its parameters.

        Args:
            gate: the gate; its wires refer to wires of this sequence.
            source: the sequence that has its parameters.
        """
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
        """Append a rotation with a traced angle.

        Args:
            gate: a gate with the same name and wires.
            angle: the angle, a scalar.
            frequencies: bit set of the angle's frequencies.
        """
        slots = tuple(self.append_params(angle, frequencies))
        self.gates.append(replace(gate, slots=slots, constants=(), adjoint=False))

    def append_wire(self, wire: Wire) -> int:
        """Append a traced wire; return its negative reference ``-1 - index`` for gates."""
        for index, other in enumerate(self._wires):
            if other is wire:
                return -1 - index
        self._wires.append(wire)
        return -len(self._wires)

    def stack_wires(self) -> Any:
        """Return the traced wires as one int32 vector."""
        if not self._wires:
            return jnp.zeros(0, jnp.int32)
        return jnp.stack([WireMap.as_int32(wire) for wire in self._wires])


def as_numbers(amplitudes: Any) -> Any:
    """Return amplitudes as a vector of real numbers, complex ones as pairs."""
    if jnp.iscomplexobj(amplitudes):
        amplitudes = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)], axis=-1)
    return jnp.ravel(amplitudes).astype(Precision.real_type())


@dataclass(frozen=True)
class RepeatedSequence:
    """A sequence of gates that a loop repeats, with parameters for each iteration.

    Attributes:
        sequence: the gates of an iteration.
        params: parameters of all iterations, ``[n_iterations * sequence.n_params]``.
        wires: traced wires of all iterations, one iteration after another.
        n_iterations: the trip count.
    """

    sequence: GateSequence
    params: Any
    wires: Any
    n_iterations: int

    @staticmethod
    def from_sequence(sequence: GateSequence) -> "RepeatedSequence":
        """Return a sequence that runs once."""
        return RepeatedSequence(sequence, sequence.stack_params(), sequence.stack_wires(), 1)

    def drop_values(self) -> "RepeatedSequence":
        """Return the same gates without traced values."""
        return replace(
            self, sequence=replace(self.sequence, _params={}, _wires=[]), params=None, wires=None
        )
