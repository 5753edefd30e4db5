"""cancel-inverses and merge-rotations: simplify gates while a circuit is traced.

``X X`` is dropped, and ``RX(a) RX(b)`` becomes ``RX(a + b)``, for static and traced ``a``.  This is
done before differentiation: JAX differentiates the sum, and the circuit has one gate with one
parameter.
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
# Gates with one parameter that merge by adding their angles.
_ROTATIONS = frozenset(
    {
        *("RX", "RY", "RZ", "PhaseShift", "CRX", "CRY", "CRZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ", "PauliRot"),
    }
)
# Gates whose wires may be permuted, from the wire with this index on.
_SYMMETRIC_FROM = dict.fromkeys(
    (
        *("SWAP", "ISWAP", "CZ", "CCZ", "ControlledPhaseShift"),
        *("MultiRZ", "IsingXX", "IsingYY", "IsingZZ"),
    ),
    0,
) | {"CSWAP": 1}
# Gates whose first wires, the controls, may be permuted, up to the wire with this index.
_SYMMETRIC_UNTIL = {"Toffoli": 2}


@dataclass(frozen=True)
class Angle:
    """The angle of a merged rotation: a constant plus or minus traced parameters.

    Attributes:
        constant: the constant part.
        slots: for each traced parameter, a pair: its index in the gate sequence, and whether it is
            subtracted.
    """

    constant: float
    slots: tuple[tuple[int, bool], ...] = ()

    def __add__(self, other: "Angle") -> "Angle":
        return Angle(self.constant + other.constant, self.slots + other.slots)


@dataclass(frozen=True)
class AdjacentGate:
    """A gate of a sequence, with methods to merge it with an adjacent gate.

    Attributes:
        gate: the gate, whose ``slots`` are indices of the sequence's traced parameters or, if
            negative, of the gate's constants.
        total_angle: the angle of a rotation that was merged and whose angle is traced. It replaces
            the parameters of ``gate``. None for all other gates.
    """

    gate: Gate
    total_angle: Angle | None = None

    @property
    def wires(self) -> frozenset[int]:
        """The qubits of targets and controls; negative for traced wires."""
        return frozenset(self.gate.wires + self.gate.control_wires)

    @property
    def constants(self) -> tuple[float, ...] | None:
        """The parameters in order as static numbers; None if one of them is traced."""
        if self.total_angle is not None or any(slot >= 0 for slot in self.gate.slots):
            return None
        return tuple(float(self.gate.constants[-1 - slot]) for slot in self.gate.slots)

    @property
    def angle(self) -> Angle:
        """The angle of a rotation, negated if the gate is inverted.

        Only for rotations, the gates with one parameter whose angles add up when they are merged.
        """
        if self.total_angle is not None:
            return self.total_angle
        (slot,) = self.gate.slots
        if slot >= 0:
            return Angle(0.0, ((slot, self.gate.adjoint),))
        constant = float(self.gate.constants[-1 - slot])
        return Angle(-constant if self.gate.adjoint else constant)

    def is_same_kind(self, other: "AdjacentGate") -> bool:
        """Return whether both gates have the same name, wires and controls.

        Wires that may be permuted, as of CZ, may differ in order. Parameters do not matter, nor
        whether a gate is inverted.
        """
        return _find_kind(self.gate) == _find_kind(other.gate)

    def is_inverse(self, other: "AdjacentGate") -> bool:
        """Return whether this gate is known to be the inverse of ``other``.

        True for gates of the same kind and with equal constant parameters, if they are self-inverse
        or one of them is inverted. False if a parameter is traced, and for rotations by opposite
        angles.
        """
        if (
            self.constants is None
            or self.constants != other.constants
            or not self.is_same_kind(other)
        ):
            return False
        return self.gate.name in _SELF_INVERSE or self.gate.adjoint != other.gate.adjoint

    def is_same_rotation(self, other: "AdjacentGate") -> bool:
        """Return whether both gates are rotations about the same axis on the same wires."""
        return self.gate.name.partition(":")[0] in _ROTATIONS and self.is_same_kind(other)

    def make_rotation(self, angle: Angle) -> list["AdjacentGate"]:
        """Return this rotation with another angle, as a list of one gate.

        The list is empty if the angle is the constant zero.
        """
        if angle.slots:
            return [AdjacentGate(self.gate, angle)]
        gate = replace(self.gate, slots=(-1,), constants=(angle.constant,), adjoint=False)
        return [AdjacentGate(gate)] if angle.constant != 0.0 else []


def _find_kind(gate: Gate) -> tuple[object, ...]:
    """Return a hashable key that is equal for gates that may be merged.

    It is made from name, wires and controls; parameters and inversion do not matter. Wires that may
    be permuted, as of CZ, are a set.
    """
    name = gate.name.partition("@")[0]
    controls = frozenset(zip(gate.control_wires, gate.control_values, strict=True))
    name, _, word = name.partition(":")
    if word:
        # A Pauli word assigns a letter to each wire, in any order.
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
    """Return an empty list if two adjacent gates are inverse; None to keep both."""
    return [] if later.is_inverse(earlier) else None


def _merge_pair(earlier: AdjacentGate, later: AdjacentGate) -> list[AdjacentGate] | None:
    """Merge two adjacent rotations: ``RX(a) RX(b)`` becomes ``RX(a + b)``.

    This is the rule of the pass merge-rotations.

    Returns:
        a list of one rotation, empty if the angles cancel; None to keep both gates.
    """
    return (
        later.make_rotation(earlier.angle + later.angle)
        if later.is_same_rotation(earlier)
        else None
    )


# Functions of two adjacent gates: return the gates that replace both, or None to keep them.
_COMBINERS = {CANCEL_INVERSES: _cancel_pair, MERGE_ROTATIONS: _merge_pair}


def merge_gates(sequence: GateSequence, passes: Sequence[str]) -> GateSequence:
    """Merge adjacent gates of a sequence.

    This implements the passes cancel-inverses and merge-rotations.

    Args:
        sequence: the gates and their parameters; it is not changed.
        passes: names of the circuit's passes, in order; others have no effect here.

    Returns:
        a new sequence, or ``sequence`` itself if no gates were merged.
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
    """Replace adjacent gates on the same wires by fewer gates, where possible.

    Gates on other wires may be between the two gates. A gate on a traced wire may act on any wire,
    so gates are not combined across it.

    Args:
        chain: the gates in order.
        combine: ``(earlier, later) -> list of gates`` that replace two adjacent gates; None to keep
            both.

    Returns:
        the remaining gates, in an equivalent order.
    """
    kept: list[AdjacentGate | None] = []
    # Indices in `kept` of the gates on each wire.
    on_wire: dict[int, list[int]] = {}
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # A traced wire may be any wire, so gates are not merged across this gate.
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


def _compute_angle(angle: Angle, sequence: GateSequence) -> Any:
    """Return the traced value of an angle: the constant, plus or minus each parameter.

    Args:
        angle: an angle with at least one traced parameter.
        sequence: the gate sequence whose parameters the angle's slots index.
    """
    (first, is_negative), *others = angle.slots
    value = -sequence.get_param(first) if is_negative else sequence.get_param(first)
    for slot, is_negative in others:
        value = (
            value - sequence.get_param(slot) if is_negative else value + sequence.get_param(slot)
        )
    return value + angle.constant if angle.constant != 0.0 else value
