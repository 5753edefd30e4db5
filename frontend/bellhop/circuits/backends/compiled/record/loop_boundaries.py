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
    """Two gates with constant parameters that are adjacent across a loop's boundary.

    ``back`` ends the loop's body and ``front`` begins it, so the next iteration's ``front`` follows
    ``back``.

    Attributes:
        front: the first gate of the body. It is applied before the loop instead.
        back: the last gate of the body.
        merged: the gates that replace ``back``: it is merged with the next iteration's ``front``.
        inverse: the gates after the loop, which undo the ``front`` that the last iteration adds.
    """

    front: AdjacentGate
    back: AdjacentGate
    merged: list[AdjacentGate]
    inverse: list[AdjacentGate]


def _iterate_boundary_pairs(
    first: Sequence[AdjacentGate], last: Sequence[AdjacentGate]
) -> Iterator[tuple[AdjacentGate, AdjacentGate]]:
    """Yield pairs of gates of the same kind that are adjacent across a loop's boundary.

    The kind is name, wires and controls. In the body RX on wire 0, H on wire 1, RX on wire 0, the
    pair is the first and the last gate.

    Args:
        first: the gates at the beginning of the body, in order.
        last: the gates at its end, in order; may be the same list.

    Yields:
        a gate of ``first``, and the gate of ``last`` that precedes it in the previous iteration.
    """
    for front in _iterate_first_gates(first):
        for back in _iterate_first_gates(last[::-1]):
            if front is not back and front.is_same_kind(back):
                yield front, back


def _iterate_first_gates(chain: Sequence[AdjacentGate]) -> Iterator[AdjacentGate]:
    """Yield the gates that have no earlier gate on any of their wires.

    Args:
        chain: the gates in order. A gate on a traced wire ends the search: it may act on any wire.
    """
    touched: set[int] = set()
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire.
            return
        if not touched & gate.wires:
            yield gate
        touched |= gate.wires


def _merge_constants(front: AdjacentGate, back: AdjacentGate) -> _MergeablePair | None:
    """Merge two gates with constant parameters across a loop boundary.

    Args:
        front: a gate at the beginning of the loop's body.
        back: a gate at its end, on the same wires.

    Returns:
        the pair, with the gates that replace it; None if a parameter is traced, or if the gates
        neither cancel nor are rotations about the same axis.
    """
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
    """Gates to apply once before and once after a loop, instead of in its body.

    Merging gates across iterations makes them. Their parameters are constant.

    Attributes:
        before: the gates to apply before the loop, in order.
        after: the gates to apply after the loop, in order.
    """

    before: list[Gate] = field(default_factory=list)
    after: list[Gate] = field(default_factory=list)

    def add_pair(self, pair: _MergeablePair) -> None:
        """Append the pair's first gate to `before`; prepend the inverse of this gate to `after`."""
        self.before.append(pair.front.gate)
        self.after[:0] = [gate.gate for gate in pair.inverse]


def merge_loop_ends(step: TracedStep, handle_index: int) -> tuple[TracedStep, LoopEnds]:
    """Merge the last gate of a loop's body with the first gate of the next iteration.

    Only gates with constant parameters are merged. The first gate is applied before the loop
    instead, and its inverse after the loop.

    Args:
        step: the traced iteration; it is not changed.
        handle_index: the index of the circuit's state handle among the inputs of its jaxpr, and
            among the outputs.

    Returns:
        the iteration with merged gates, and the gates to apply before and after the loop. If
        nothing was merged, `step` itself and no gates.
    """
    jaxpr, ends = step.closed.jaxpr, LoopEnds()
    start, end = jaxpr.invars[handle_index], jaxpr.outvars[handle_index]
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
        """Return the equation of the first or last gates without the gates merged away.

        Any other equation is returned unchanged.
        """
        if id(eqn) not in runs:
            return eqn
        gates = tuple(gate.gate for gate in runs[id(eqn)])
        return eqn.replace(params={**eqn.params, "gates": gates})

    return step.with_equations(list(map(remove_merged, jaxpr.eqns))), ends


def _replace_gate(
    gates: Sequence[AdjacentGate], old: AdjacentGate, new: Sequence[AdjacentGate]
) -> list[AdjacentGate]:
    """Return a list of gates in which one gate is replaced by zero or more gates."""
    return [each for gate in gates for each in (new if gate is old else [gate])]


@dataclass(frozen=True)
class MergedLoop:
    """A loop of gates after merging across iterations, with the gates around it.

    Attributes:
        before: the sequences to apply before the loop, of one gate each.
        sequence: the gates of one iteration.
        params: the traced parameters of all iterations, ``[iterations, sequence.n_params]``.
        after: the sequences to apply after the loop, of one gate each.
    """

    before: list[GateSequence]
    sequence: GateSequence
    params: Any
    after: list[GateSequence]


def merge_iterations(sequence: GateSequence, params: Operand) -> MergedLoop:
    """Merge the last gates of a loop's body with the first gates of the next iteration.

    The loop contains only gates. Unlike `merge_loop_ends`, it merges rotations with traced angles
    too, since the angles of all iterations are given.

    Args:
        sequence: the gates of one iteration; its traced wires are not in ``params``.
        params: the traced parameters of all iterations, ``[iterations, sequence.n_params]``, with
            at least two iterations.

    Returns:
        the loop with merged gates, and the gates around it.
    """
    loop = _GateLoop(sequence, params)
    while loop.merge_next():
        pass
    return loop.build_result()


class _GateLoop:
    """A loop that contains only gates, while `merge_iterations` merges its gates.

    It also has the gates that are applied before and after the loop instead.

    Args:
        sequence: the gates of one iteration; it is not changed.
        params: the traced parameters of all iterations, ``[iterations, sequence.n_params]``.
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
        """Merge one pair of gates that are adjacent across iterations, if there is one.

        The first gate of the body is applied before the loop instead, and the last gate is replaced
        by the merged gates. For constant parameters, the inverse of the first gate is added after
        the loop. For traced angles nothing is added, as the last iteration keeps its own angle.

        Returns:
            whether a pair was merged.
        """
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
        """Merge two rotations across the loop's boundary, at least one of traced angle.

        ``RX(a[i]) ... RX(b[i])`` becomes ``RX(a[0])`` before the loop, and ``... RX(b[i] + a[i +
        1])`` in iteration ``i``; the last iteration has ``RX(b[i])``.

        Args:
            front: a rotation at the beginning of the body.
            back: the same kind of rotation at the end of the body.

        Returns:
            a sequence of one gate, ``front`` in the first iteration, to apply before the loop; and
            the gate that replaces ``back``.
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
        """Return a rotation's angles in all iterations, a real array ``[iterations]``."""
        angle = rotation.angle
        if not angle.slots:
            return jnp.full(self._params.shape[0], angle.constant)
        ((slot, is_negative),) = angle.slots
        values = self._sums[slot] if slot in self._sums else self._params[:, slot]
        return -values if is_negative else values

    def build_result(self) -> MergedLoop:
        """Return the loop with the remaining gates, and the gates around it.

        The parameters of the remaining gates are renumbered: first the used parameters of the
        original loop, then the sums of angles.
        """
        if not self._before:
            return MergedLoop([], self._sequence, self._params, [])
        used = [slot for gate in self._gates for slot in gate.gate.slots if slot >= 0]
        kept = [slot for slot in used if slot not in self._sums]
        sums = [slot for slot in used if slot in self._sums]
        new_index = {slot: number for number, slot in enumerate(kept + sums)}
        run = self._sequence.copy_empty()
        for gate in self._gates:
            run.gates.append(replace(gate.gate, slots=_renumber_slots(gate.gate.slots, new_index)))
        run.n_params = len(used)
        run.frequencies = bytearray(self._frequencies[slot] for slot in kept + sums)
        columns = [self._params[:, np.array(kept, np.int32)]]
        columns += [self._sums[slot][:, None] for slot in sums]
        return MergedLoop(self._before, run, jnp.concatenate(columns, axis=1), self._after)


def _renumber_slots(
    slots: tuple[int, ...] | range, new_index: dict[int, int]
) -> tuple[int, ...] | range:
    """Renumber a gate's parameters.

    Args:
        slots: for each parameter of a gate, its index, or a negative number for a constant.
        new_index: the new index of each old index.

    Returns:
        the new slots; negative numbers are unchanged. A range, the slots of an array, stays a
        range.
    """
    if isinstance(slots, range):
        is_constant = slots.start < 0
        return slots if is_constant else array_slots(new_index[slots.start], len(slots))
    return tuple(new_index[slot] if slot >= 0 else slot for slot in slots)
