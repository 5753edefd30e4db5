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
    """How a gate sequence can be differentiated with respect to its traced parameters.

    All gates of a sequence have the same kind.

    Values:
        BY_PARAMETERS: by the circuit's method, such as the adjoint method, parameter shifts or
            finite differences.
        BY_AMPLITUDES: the parameters are the amplitudes of a prepared state.
        NONE: differentiation raises an error.
    """

    BY_PARAMETERS = enum.auto()
    BY_AMPLITUDES = enum.auto()
    NONE = enum.auto()


@dataclass
class GateSequence:
    """Gates without control flow: static gates, and their traced parameters and wires.

    A sequence becomes one equation of the program. A *slot* says where a gate finds a parameter:
    ``RX(x, 0)`` has the slots ``(0,)``, the sequence's parameter 0; ``RY(0.5, 0)`` has the slots
    ``(-1,)``, the gate's constant 0.

    Attributes:
        derivative: how the sequence is differentiated with respect to its parameters.
        gates: the gates in order. A slot of a gate is the index of a traced parameter or, if
            negative, ``-1 - i`` for the gate's constant ``i``; a negative wire ``-1 - i`` is traced
            wire ``i``.
        n_params: the number of traced parameters; each element of an array is one.
        frequencies: one byte for each parameter, the bits of its shift-rule frequencies: bit ``k``
            is the frequency ``(k + 1) / 2`` (`FrequencyBits`).
    """

    derivative: DerivativeKind = DerivativeKind.BY_PARAMETERS
    gates: list[Gate] = field(default_factory=list)
    n_params: int = 0
    frequencies: bytearray = field(default_factory=bytearray)
    # Scalars and arrays, by their first slot.
    _params: dict[int, Any] = field(default_factory=dict)
    _wires: list[Any] = field(default_factory=list)

    def append_params(self, values: Any, frequencies: int) -> range:
        """Append traced parameters, and return their slots.

        Args:
            values: a real scalar or array, each element of which is a parameter.
            frequencies: the bits of each parameter's shift-rule frequencies (`FrequencyBits`).

        Returns:
            the slots of the parameters: their indices in this sequence, by which gates refer to
            them.
        """
        slots = range(self.n_params, self.n_params + values.size)
        self._params[slots.start] = values
        self.n_params = slots.stop
        self.frequencies += bytes([frequencies]) * len(slots)
        return slots

    def append_amplitudes(self, values: Any, frequencies: int) -> range:
        """Append the amplitudes of a prepared state as parameters, in their own dtype.

        Args:
            values: real or complex array. A complex amplitude is two parameters, the real and the
                imaginary part.
            frequencies: the bits of each parameter's shift-rule frequencies (`FrequencyBits`).

        Returns:
            the slots of the parameters: their indices in this sequence, by which gates refer to
            them.
        """
        size = values.size * (2 if jnp.iscomplexobj(values) else 1)
        slots = range(self.n_params, self.n_params + size)
        self._params[slots.start] = values
        self.n_params = slots.stop
        self.frequencies += bytes([frequencies]) * size
        return slots

    def append_param_vector(self, values: Any, frequencies: bytes | bytearray) -> None:
        """Append a vector of parameters whose shift-rule frequencies may differ.

        Args:
            values: real array ``[n]`` of traced parameters.
            frequencies: n bytes, for each parameter the bits of its frequencies (`FrequencyBits`).
        """
        if values.size:
            self._params[self.n_params] = values
        self.n_params += len(frequencies)
        self.frequencies += frequencies

    def stack_params(self) -> Any:
        """Return all traced parameters as one vector, which the sequence's equation takes.

        It is a real array ``[n_params]``; for a prepared state, its amplitudes in their own dtype,
        which may be complex (then two parameters each).
        """
        if not self._params:
            return jnp.zeros(0, Precision.real_type())
        pieces: list[Any] = []
        for ndim, group in itertools.groupby(self._params.values(), lambda value: value.ndim):
            values = list(group)
            pieces += [stack_scalars(values)] if ndim == 0 else map(jnp.ravel, values)
        return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)

    def get_param(self, slot: int) -> Any:
        """Return the traced scalar parameter with the index ``slot``."""
        return self._params[slot]

    def copy_empty(self) -> "GateSequence":
        """Return a sequence with the same derivative, without gates and parameters.

        The list of traced wires is shared, so a wire that is appended to one sequence is in both.
        """
        return GateSequence(self.derivative, _wires=self._wires)

    def extend(self, other: "GateSequence") -> None:
        """Append the gates, parameters and traced wires of another sequence.

        Args:
            other: a sequence that is differentiated in the same way (`derivative`); it is not
                changed.
        """
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
        """Append a gate of another sequence, with its parameters.

        Args:
            gate: the gate. Its parameters are indices into ``source`` (negative for constants), but
                negative wires are traced wires of this sequence.
            source: the sequence that has the gate's parameters; it is not changed.
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
        """Append a copy of a rotation, with a new traced angle.

        Args:
            gate: the rotation, with its name, wires and controls; its parameters and its inversion
                are ignored.
            angle: real scalar.
            frequencies: the bits of the angle's shift-rule frequencies (`FrequencyBits`).
        """
        slots = tuple(self.append_params(angle, frequencies))
        self.gates.append(replace(gate, slots=slots, constants=(), adjoint=False))

    def append_wire(self, wire: Wire) -> int:
        """Append a traced wire, unless the sequence has the same object already.

        Args:
            wire: traced integer scalar, a qubit index.

        Returns:
            the negative number ``-1 - index`` by which gates refer to the wire.
        """
        for index, other in enumerate(self._wires):
            if other is wire:
                return -1 - index
        self._wires.append(wire)
        return -len(self._wires)

    def stack_wires(self) -> Any:
        """Return the traced wires as one int32 vector."""
        if not self._wires:
            return jnp.zeros(0, jnp.int32)
        return jnp.stack([WireMap.clip_to_int32(wire) for wire in self._wires])


def as_numbers(amplitudes: Any) -> Any:
    """Return amplitudes as a vector of real numbers, complex ones as pairs."""
    if jnp.iscomplexobj(amplitudes):
        amplitudes = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)], axis=-1)
    return jnp.ravel(amplitudes).astype(Precision.real_type())


@dataclass(frozen=True)
class RepeatedSequence:
    """A gate sequence that a loop repeats, with the traced values of all iterations.

    Attributes:
        sequence: the gates of one iteration; of the innermost loop, if loops are nested.
        params: the traced parameters of all iterations, ``[n_iterations * sequence.n_params]``;
            None in a copy without traced values.
        wires: int32 array, the traced wires of all iterations, one iteration after another; None in
            a copy without traced values.
        n_iterations: the number of iterations; of nested loops, the product of their trip counts; 1
            for gates outside of loops.
    """

    sequence: GateSequence
    params: Any
    wires: Any
    n_iterations: int

    @staticmethod
    def from_sequence(sequence: GateSequence) -> "RepeatedSequence":
        """Wrap a gate sequence outside of loops, as one iteration with its traced values."""
        return RepeatedSequence(sequence, sequence.stack_params(), sequence.stack_wires(), 1)

    def drop_values(self) -> "RepeatedSequence":
        """Return a copy with the same gates, but without traced values.

        The copy outlives the trace of a loop's body, and must not hold tracers of the body.
        """
        return replace(
            self, sequence=replace(self.sequence, _params={}, _wires=[]), params=None, wires=None
        )
