"""Straight runs of gates: the static table, and the parameters and wires known at run time."""

import enum
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp

from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.vectorize.stack_scalars import pack
from bellhop.circuits.ir.wires import WireMap
from bellhop_mlir.dialects.gate import Gate, shift_slots


class Derivative(enum.Enum):
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
class GateRun:
    """A straight run of gates: the static table, and what is known at run time.

    Attributes:
        derivative: by its parameters.
        gates: in order; a slot is an index into the parameters.
        n_params: how many parameters there are.
        frequencies: the bits of the frequencies of each (see ``shift_rules``).
    """

    derivative: Derivative = Derivative.BY_PARAMETERS
    gates: list[Gate] = field(default_factory=list)
    n_params: int = 0
    frequencies: bytearray = field(default_factory=bytearray)
    # By the first slot of each.
    _params: dict[int, Any] = field(default_factory=dict)
    _wires: list[Any] = field(default_factory=list)

    def take(self, values: Any, frequencies: int) -> range:
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

    def take_all(self, values: Any, frequencies: bytes | bytearray) -> None:
        """Append a vector of parameters, with the bits of the frequencies of each."""
        if values.size:
            self._params[self.n_params] = values
        self.n_params += len(frequencies)
        self.frequencies += frequencies

    def params_vector(self) -> Any:
        """Return the run-time parameters as one vector, or the amplitudes of a state."""
        if not self._params:
            return jnp.zeros(0, real_type())
        pieces: list[Any] = []
        for ndim, group in itertools.groupby(self._params.values(), lambda value: value.ndim):
            values = list(group)
            pieces += [pack(values)] if ndim == 0 else map(jnp.ravel, values)
        return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)

    def value(self, slot: int) -> Any:
        """Return the parameter of a gate that has only one."""
        return self._params[slot]

    def without_gates(self) -> "GateRun":
        """Return a run with the same wires, and nothing in it."""
        return GateRun(self.derivative, _wires=self._wires)

    def extend(self, run: "GateRun") -> None:
        """Append another run."""
        before = self.n_params
        self._params |= {before + slot: values for slot, values in run._params.items()}
        self.n_params += run.n_params
        self.frequencies += run.frequencies
        wires = {-1 - index: self.take_wire(wire) for index, wire in enumerate(run._wires)}
        for gate in run.gates:
            moved = replace(gate, slots=shift_slots(gate.slots, before))
            if wires:
                moved = replace(
                    moved,
                    wires=tuple(wires.get(wire, wire) for wire in gate.wires),
                    control_wires=tuple(wires.get(wire, wire) for wire in gate.control_wires),
                )
            self.gates.append(moved)

    def copy(self, gate: Gate, run: "GateRun") -> None:
        """Append a gate of another run, with its parameters, on wires as this run has them."""
        if isinstance(gate.slots, range):
            first = gate.slots.start
            if first >= 0:
                slots_of_array = self.take(run._params[first], run.frequencies[first])
                self.frequencies[slots_of_array.start :] = run.frequencies[first : gate.slots.stop]
                gate = replace(gate, slots=slots_of_array)
            self.gates.append(gate)
            return
        slots: list[int] = []
        for slot in gate.slots:
            if slot < 0:
                slots.append(slot)
            elif slot in run._params:
                slots += self.take(run._params[slot], run.frequencies[slot])
        self.gates.append(replace(gate, slots=tuple(slots)))

    def rotate(self, gate: Gate, angle: Operand, frequencies: int) -> None:
        """Append a rotation like a gate, by a scalar."""
        slots = tuple(self.take(angle, frequencies))
        self.gates.append(replace(gate, slots=slots, constants=(), adjoint=False))

    def take_wire(self, wire: Wire) -> int:
        """Append a wire that the program computes; return its index as gates refer to it."""
        for index, other in enumerate(self._wires):
            if other is wire:
                return -1 - index
        self._wires.append(wire)
        return -len(self._wires)

    def wires_vector(self) -> Any:
        """Return the wires that the program computes as one int32 vector."""
        if not self._wires:
            return jnp.zeros(0, jnp.int32)
        return jnp.stack([WireMap.as_int32(wire) for wire in self._wires])


def as_numbers(amplitudes: Any) -> Any:
    """Return amplitudes as a vector of real numbers: parts of complex ones in turn."""
    if jnp.iscomplexobj(amplitudes):
        amplitudes = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)], axis=-1)
    return jnp.ravel(amplitudes).astype(real_type())


@dataclass(frozen=True)
class RepeatedRun:
    """A run of gates once for each iteration of a loop, by parameters of its own.

    Attributes:
        run: the gates of an iteration.
        params: of all iterations, one after another ``[n_iterations * run.n_params]``.
        wires: those that the program computes, likewise.
        n_iterations: how many there are.
    """

    run: GateRun
    params: Any
    wires: Any
    n_iterations: int

    @staticmethod
    def once(run: GateRun) -> "RepeatedRun":
        """Return a run that is no loop."""
        return RepeatedRun(run, run.params_vector(), run.wires_vector(), 1)

    def without_values(self) -> "RepeatedRun":
        """Return the same gates, without what is traced."""
        return replace(self, run=replace(self.run, _params={}, _wires=[]), params=None, wires=None)
