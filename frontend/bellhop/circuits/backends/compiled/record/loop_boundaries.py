"""merge-loop-boundaries: merge gates across the boundary between loop iterations.

The first gate ``A`` of a body is removed: ``A`` is applied before the loop, and each iteration ends
with the ``A`` of the next iteration, where it is merged with the last gate.  As the last iteration
applies one ``A`` too many, the inverse of ``A`` is applied after the loop.  This is correct for any
trip count, including zero.  In a loop that contains only gates, with a static trip count, the
angles of all iterations are known: there ``A`` may have traced angles, and no inverse is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from bellhop.base.types import Operand
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.record.gate_sequence import GateSequence
from bellhop.circuits.backends.compiled.record.merging import AdjacentGate, Angle
from bellhop.control_flow.trace_body import TracedStep
from bellhop_mlir.dialects.gate import Gate, array_slots


class _MergeablePair(NamedTuple):
    """Two gates with constant parameters that can be merged across a loop boundary.

    Attributes:
        front: the first gate of the body.
        back: the last gate of the body.
        merged: gates that replace `back`.
        inverse: gates that are applied after the loop.
    """

    front: AdjacentGate
    back: AdjacentGate
    merged: list[AdjacentGate]
    inverse: list[AdjacentGate]


def _iterate_boundary_pairs(
    first: Sequence[AdjacentGate], last: Sequence[AdjacentGate]
) -> Iterator[tuple[AdjacentGate, AdjacentGate]]:
    """Yield pairs of gates of the same kind that are adjacent across a loop boundary.

    Args:
        first: the gates at the beginning of the body.
        last: the gates at its end, in order; they may be the same.
    """
    for front in _iterate_first_gates(first):
        for back in _iterate_first_gates(last[::-1]):
            if front is not back and front.is_same_kind(back):
                yield front, back


def _iterate_first_gates(chain: Sequence[AdjacentGate]) -> Iterator[AdjacentGate]:
    """Yield the gates that no earlier gate precedes on any of their wires."""
    touched: set[int] = set()
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire.
            return
        if not touched & gate.wires:
            yield gate
        touched |= gate.wires


def _merge_constants(front: AdjacentGate, back: AdjacentGate) -> _MergeablePair | None:
    """Merge two gates with constant parameters; None if they cannot be merged."""
    if front.constants is None or back.constants is None:
        return None
    if back.is_inverse(front):
        return _MergeablePair(front, back, [], [back])
    if not back.is_same_rotation(front):
        return None
    inverse = front.make_rotation(Angle(-front.angle.constant))
    return _MergeablePair(front, back, back.make_rotation(front.angle + back.angle), inverse)


@dataclass
class LoopEnds:
    """Gates with constant parameters that are applied before and after a loop."""

    before: list[Gate] = field(default_factory=list)
    after: list[Gate] = field(default_factory=list)

    def add_pair(self, pair: _MergeablePair) -> None:
        """Add the gates for a merged pair."""
        self.before.append(pair.front.gate)
        self.after[:0] = [gate.gate for gate in pair.inverse]


def merge_loop_ends(step: TracedStep, place: int) -> tuple[TracedStep, LoopEnds]:
    """Merge the gates with constant parameters at the boundary of a loop's iterations.

    Args:
        step: the traced iteration.
        place: index of the state's handle among its operands, and among its results.

    Returns:
        the iteration with merged gates, and the gates before and after the loop.
    """
    jaxpr, ends = step.closed.jaxpr, LoopEnds()
    start, end = jaxpr.invars[place], jaxpr.outvars[place]
    straight = [eqn for eqn in jaxpr.eqns if CircuitEquation(eqn).is_gates_once]
    first = next((eqn for eqn in straight if eqn.invars[0] is start), None)
    last = next((eqn for eqn in straight if eqn.outvars[0] is end), None)
    if first is None or last is None:
        return step, ends
    runs = {id(eqn): list(map(AdjacentGate, eqn.params["gates"])) for eqn in (first, last)}
    while True:
        pairs = _iterate_boundary_pairs(runs[id(first)], runs[id(last)])
        meeting = next(filter(None, (_merge_constants(*pair) for pair in pairs)), None)
        if meeting is None:
            break
        ends.add_pair(meeting)
        runs[id(last)] = _replace_gate(runs[id(last)], meeting.back, meeting.merged)
        runs[id(first)] = _replace_gate(runs[id(first)], meeting.front, [])
    if not ends.before:
        return step, ends

    def remove_merged(eqn: JaxprEqn) -> Any:
        if id(eqn) not in runs:
            return eqn
        gates = tuple(gate.gate for gate in runs[id(eqn)])
        return eqn.replace(params={**eqn.params, "gates": gates})

    return step.with_equations(list(map(remove_merged, jaxpr.eqns))), ends


def _replace_gate(
    gates: Sequence[AdjacentGate], old: AdjacentGate, new: Sequence[AdjacentGate]
) -> list[AdjacentGate]:
    """Return the gates with one gate replaced by others."""
    return [each for gate in gates for each in (new if gate is old else [gate])]


@dataclass(frozen=True)
class MergedLoop:
    """A loop whose iterations are sequences of gates, with gates before and after.

    Attributes:
        before: sequences of one gate.
        sequence: the gates of an iteration.
        params: the parameters of all iterations, ``[iterations, sequence.n_params]``.
        after: sequences of one gate.
    """

    before: list[GateSequence]
    sequence: GateSequence
    params: Any
    after: list[GateSequence]


def merge_iterations(sequence: GateSequence, params: Operand) -> MergedLoop:
    """Merge gates across the iterations of a loop that contains only gates.

    Args:
        sequence: the gates of an iteration; its traced wires are not in ``params``.
        params: the parameters of all iterations, ``[iterations, sequence.n_params]``, with at least
            two iterations.
    """
    loop = _GateLoop(sequence, params)
    while loop.merge_next():
        pass
    return loop.build_result()


class _GateLoop:
    """A loop of gates while its boundary gates are being merged.

    Args:
        sequence: the gates of an iteration.
        params: the parameters of all iterations, ``[iterations, sequence.n_params]``.
    """

    def __init__(self, sequence: GateSequence, params: Operand) -> None:
        self._sequence = sequence
        self._params = params
        self._gates = list(map(AdjacentGate, sequence.gates))
        # Values ``[iterations]`` of new parameters that are sums, by their slots.
        self._sums: dict[int, Any] = {}
        self._frequencies = bytearray(sequence.frequencies)
        self._before: list[GateSequence] = []
        self._after: list[GateSequence] = []

    def merge_next(self) -> bool:
        """Merge one pair of gates; return whether there was one."""
        for front, back in _iterate_boundary_pairs(self._gates, self._gates):
            constant = _merge_constants(front, back)
            if constant is not None:
                merged = constant.merged
                before = GateSequence(self._sequence.derivative, [front.gate])
                for inverse in constant.inverse:
                    self._after.insert(0, GateSequence(self._sequence.derivative, [inverse.gate]))
            elif front.is_same_rotation(back):
                before, gate = self._merge_rotations(front, back)
                merged = [AdjacentGate(gate)]
            else:
                continue
            self._before.append(before)
            self._gates = _replace_gate(_replace_gate(self._gates, front, []), back, merged)
            return True
        return False

    def _merge_rotations(
        self, front: AdjacentGate, back: AdjacentGate
    ) -> tuple[GateSequence, Gate]:
        """Merge two rotations with traced angles.

        Args:
            front: the first gate of the body.
            back: the last gate of the body.

        Returns:
            the gate before the loop, and the gate that replaces `back`.
        """
        (slot, _), *_ = (front.angle + back.angle).slots
        bits = self._frequencies[slot]
        angles = self._get_iteration_angles(front)
        before = GateSequence(self._sequence.derivative)
        if front.constants is not None:
            before.gates.append(front.gate)
        else:
            before.append_rotation(front.gate, angles[0], bits)
        following = jnp.concatenate([angles[1:], jnp.zeros(1, angles.dtype)])
        new = len(self._frequencies)
        self._frequencies.append(bits)
        self._sums[new] = self._get_iteration_angles(back) + following
        return before, replace(back.gate, slots=(new,), constants=(), adjoint=False)

    def _get_iteration_angles(self, rotation: AdjacentGate) -> Any:
        """Return the angles of a rotation in all iterations."""
        angle = rotation.angle
        if not angle.slots:
            return jnp.full(self._params.shape[0], angle.constant)
        ((slot, is_negative),) = angle.slots
        values = self._sums[slot] if slot in self._sums else self._params[:, slot]
        return -values if is_negative else values

    def build_result(self) -> MergedLoop:
        """Return the loop with the remaining gates and their parameters."""
        if not self._before:
            return MergedLoop([], self._sequence, self._params, [])
        used = [slot for gate in self._gates for slot in gate.gate.slots if slot >= 0]
        kept = [slot for slot in used if slot not in self._sums]
        sums = [slot for slot in used if slot in self._sums]
        place = {slot: number for number, slot in enumerate(kept + sums)}
        run = self._sequence.copy_empty()
        for gate in self._gates:
            run.gates.append(replace(gate.gate, slots=_move_slots(gate.gate.slots, place)))
        run.n_params = len(used)
        run.frequencies = bytearray(self._frequencies[slot] for slot in kept + sums)
        columns = [self._params[:, np.array(kept, np.int32)]]
        columns += [self._sums[slot][:, None] for slot in sums]
        return MergedLoop(self._before, run, jnp.concatenate(columns, axis=1), self._after)


def _move_slots(slots: tuple[int, ...] | range, place: dict[int, int]) -> tuple[int, ...] | range:
    """Renumber slots; an array stays in one piece.

    Args:
        slots: slots of a gate.
        place: new slot of each slot.
    """
    if isinstance(slots, range):
        is_constant = slots.start < 0
        return slots if is_constant else array_slots(place[slots.start], len(slots))
    return tuple(place[slot] if slot >= 0 else slot for slot in slots)
