"""Simplifies runs of gates while a circuit is traced: the passes that a QNode asks for.

``X X`` goes, and ``RX(a) RX(b)`` becomes ``RX(a + b)``, whether ``a`` is known or the program
computes it.  JAX differentiates the sum, and what differentiates the circuit sees one gate with one
parameter; so this comes before differentiation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bellhop.circuits.backends.compiled.record.gate_sequence import GateSequence
from bellhop.passes import CANCEL_INVERSES, MERGE_ROTATIONS
from bellhop_mlir.dialects.gate import Gate

_SELF_INVERSE = frozenset(
    {
        *("Hadamard", "PauliX", "PauliY", "PauliZ", "CNOT", "CY", "CZ", "CH", "SWAP"),
        *("Toffoli", "CSWAP", "CCZ"),
    }
)
# Of one parameter, and angles add up.
_ROTATIONS = frozenset(
    {
        *("RX", "RY", "RZ", "PhaseShift", "CRX", "CRY", "CRZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ", "PauliRot"),
    }
)
# Gates whose wires, beginning with the numbered one, may stand in any order.
_SYMMETRIC_FROM = dict.fromkeys(
    (
        *("SWAP", "ISWAP", "CZ", "CCZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ"),
    ),
    0,
) | {"CSWAP": 1}
# And those of which the first wires may: the controls.
_SYMMETRIC_UNTIL = {"Toffoli": 2}


@dataclass(frozen=True)
class Angle:
    """What a rotation turns by: a constant, and slots of which some are subtracted."""

    constant: float
    slots: tuple[tuple[int, bool], ...] = ()

    def __add__(self, other: "Angle") -> "Angle":
        return Angle(self.constant + other.constant, self.slots + other.slots)


@dataclass(frozen=True)
class AdjacentGate:
    """A gate, as its neighbours see it.

    Attributes:
        gate: the gate.
        total_angle: what it turns by, where it stands for several of which some are computed.
    """

    gate: Gate
    total_angle: Angle | None = None

    @property
    def wires(self) -> frozenset[int]:
        """All wires, controls too."""
        return frozenset(self.gate.wires + self.gate.control_wires)

    @property
    def constants(self) -> tuple[float, ...] | None:
        """The parameters in the order of their slots, where all are known."""
        if self.total_angle is not None or any(slot >= 0 for slot in self.gate.slots):
            return None
        return tuple(float(self.gate.constants[-1 - slot]) for slot in self.gate.slots)

    @property
    def angle(self) -> Angle:
        """What a rotation turns by."""
        if self.total_angle is not None:
            return self.total_angle
        (slot,) = self.gate.slots
        if slot >= 0:
            return Angle(0.0, ((slot, self.gate.adjoint),))
        constant = float(self.gate.constants[-1 - slot])
        return Angle(-constant if self.gate.adjoint else constant)

    def is_same_kind(self, other: "AdjacentGate") -> bool:
        """Tell whether both are one kind of gate, on the same wires with the same controls."""
        return _find_kind(self.gate) == _find_kind(other.gate)

    def is_inverse(self, other: "AdjacentGate") -> bool:
        """Tell whether a gate is known to be the inverse of another on the same wires."""
        if (
            self.constants is None
            or self.constants != other.constants
            or not self.is_same_kind(other)
        ):
            return False
        return self.gate.name in _SELF_INVERSE or self.gate.adjoint != other.gate.adjoint

    def is_same_rotation(self, other: "AdjacentGate") -> bool:
        """Tell whether both are rotations about the same axis of the same wires."""
        return self.gate.name.partition(":")[0] in _ROTATIONS and self.is_same_kind(other)

    def make_rotation(self, angle: Angle) -> list["AdjacentGate"]:
        """Return the rotation like this by an angle; no gate where that is zero."""
        if angle.slots:
            return [AdjacentGate(self.gate, angle)]
        gate = replace(self.gate, slots=(-1,), constants=(angle.constant,), adjoint=False)
        return [AdjacentGate(gate)] if angle.constant != 0.0 else []


def _find_kind(gate: Gate) -> tuple[object, ...]:
    name = gate.name.partition("@")[0]
    controls = frozenset(zip(gate.control_wires, gate.control_values, strict=True))
    name, _, word = name.partition(":")
    if word:
        # Each wire has its letter, in whatever order they are written.
        return name, frozenset(zip(gate.wires, word, strict=True)), controls
    first = _SYMMETRIC_FROM.get(name, len(gate.wires))
    until = _SYMMETRIC_UNTIL.get(name, 0)
    wires = (
        frozenset(gate.wires[:until]),
        gate.wires[until:first],
        frozenset(gate.wires[first:]),
    )
    return name, wires, controls


def _cancel_pair(earlier: AdjacentGate, later: AdjacentGate) -> list[AdjacentGate] | None:
    return [] if later.is_inverse(earlier) else None


def _merge_pair(earlier: AdjacentGate, later: AdjacentGate) -> list[AdjacentGate] | None:
    return (
        later.make_rotation(earlier.angle + later.angle)
        if later.is_same_rotation(earlier)
        else None
    )


# What two gates that meet become: both stay (None), both go, or one stands for both.
_COMBINERS = {CANCEL_INVERSES: _cancel_pair, MERGE_ROTATIONS: _merge_pair}


def merge_gates(sequence: GateSequence, passes: Sequence[str]) -> GateSequence:
    """Return a run of gates in which those that meet are merged.

    Args:
        sequence: the run; it stays as it is.
        passes: what is asked for, in order.
    """
    meetings = [_COMBINERS[name] for name in passes if name in _COMBINERS]
    if not meetings:
        return sequence
    gates = list(map(AdjacentGate, sequence.gates))
    for meet in meetings:
        gates = _combine_neighbors(gates, meet)
    if len(gates) == len(sequence.gates):
        return sequence
    result = sequence.copy_empty()
    for gate in gates:
        if gate.total_angle is None:
            result.copy_gate(gate.gate, sequence)
        else:
            slot = gate.total_angle.slots[0][0]
            result.append_rotation(
                gate.gate, _compute_angle(gate.total_angle, sequence), sequence.frequencies[slot]
            )
    return result


def _combine_neighbors(chain: Iterable[AdjacentGate], combine: Any) -> list[AdjacentGate]:
    """Let each gate meet the one before it on its wires, where that is on the same wires.

    The gates that are left are in an order in which they act as before.
    """
    kept: list[AdjacentGate | None] = []
    # For each wire the gates that act on it, by their places.
    on_wire: dict[int, list[int]] = {}
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire, so nothing meets across it.
            on_wire = {}
            kept.append(gate)
            continue
        pending = [gate]
        while pending:
            gate = pending.pop()
            previous = {on_wire[wire][-1] if on_wire.get(wire) else -1 for wire in gate.wires}
            place = previous.pop() if len(previous) == 1 else -1
            earlier = kept[place] if place >= 0 else None
            result = None
            if earlier is not None and earlier.wires == gate.wires:
                result = combine(earlier, gate)
            if result is None:
                for wire in gate.wires:
                    on_wire.setdefault(wire, []).append(len(kept))
                kept.append(gate)
                continue
            kept[place] = None
            for wire in gate.wires:
                on_wire[wire].pop()
            pending += result
    return [gate for gate in kept if gate is not None]


def _compute_angle(total: Angle, sequence: GateSequence) -> Any:
    (first, is_negative), *others = total.slots
    value = -sequence.get_param(first) if is_negative else sequence.get_param(first)
    for slot, is_negative in others:
        value = (
            value - sequence.get_param(slot) if is_negative else value + sequence.get_param(slot)
        )
    return value + total.constant if total.constant != 0.0 else value
