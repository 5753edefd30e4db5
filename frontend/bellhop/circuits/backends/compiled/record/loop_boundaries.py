"""merge-loop-boundaries: gates at the end of an iteration merge with those that begin the next.

The gate ``A`` that a body begins with is taken out: ``A`` comes before the loop, and each iteration
ends with that of the next one, where it meets what was there.  After the last iteration ``A`` is
one too many, so its inverse comes after the loop.  That holds for any number of iterations, none
included.  In a loop of gates alone whose length Python knows, the angles of all iterations are
known too: there ``A`` may turn by computed angles, and the last iteration ends as it did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from bellhop.base.types import Operand
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.record.gate_sequence import GateRun
from bellhop.circuits.backends.compiled.record.merging import AdjacentGate, Angle
from bellhop.control_flow.trace_body import TracedStep
from bellhop_mlir.dialects.gate import Gate, array_slots


class _Meeting(NamedTuple):
    """Two gates with constant parameters that merge where iterations meet.

    Attributes:
        front: the gate that the body begins with.
        back: the gate that it ends with.
        merged: what stands at its end instead.
        inverse: what comes after the loop.
    """

    front: AdjacentGate
    back: AdjacentGate
    merged: list[AdjacentGate]
    inverse: list[AdjacentGate]


def _boundary(
    first: Sequence[AdjacentGate], last: Sequence[AdjacentGate]
) -> Iterator[tuple[AdjacentGate, AdjacentGate]]:
    """Yield the gates that meet where a loop begins its next iteration.

    Args:
        first: the gates that its body begins with.
        last: those that it ends with, in order; they may be the same.
    """
    for front in _without_others_before(first):
        for back in _without_others_before(last[::-1]):
            if front is not back and front.acts_as(back):
                yield front, back


def _without_others_before(chain: Sequence[AdjacentGate]) -> Iterator[AdjacentGate]:
    """Yield the gates that no other comes before on any of their wires."""
    touched: set[int] = set()
    for gate in chain:
        if any(wire < 0 for wire in gate.wires):
            # It may act on any wire.
            return
        if not touched & gate.wires:
            yield gate
        touched |= gate.wires


def _constants_meet(front: AdjacentGate, back: AdjacentGate) -> _Meeting | None:
    if front.constants is None or back.constants is None:
        return None
    if back.undoes(front):
        return _Meeting(front, back, [], [back])
    if not back.turns_with(front):
        return None
    inverse = front.turned_by(Angle(-front.angle.constant))
    return _Meeting(front, back, back.turned_by(front.angle + back.angle), inverse)


@dataclass
class Ends:
    """Gates with constant parameters that come around a loop, each list in order."""

    before: list[Gate] = field(default_factory=list)
    after: list[Gate] = field(default_factory=list)

    def add(self, meeting: _Meeting) -> None:
        """Take a gate out of the loop."""
        self.before.append(meeting.front.gate)
        self.after[:0] = [gate.gate for gate in meeting.inverse]


def merge_ends(step: TracedStep, place: int) -> tuple[TracedStep, Ends]:
    """Merge the gates with constant parameters at the ends of a loop's body.

    Args:
        step: an iteration, traced.
        place: where the handle of the state is among its operands, and among its results.

    Returns:
        the iteration without them, and what comes around the loop.
    """
    jaxpr, ends = step.closed.jaxpr, Ends()
    start, end = jaxpr.invars[place], jaxpr.outvars[place]
    straight = [eqn for eqn in jaxpr.eqns if CircuitEquation(eqn).is_gates_once]
    first = next((eqn for eqn in straight if eqn.invars[0] is start), None)
    last = next((eqn for eqn in straight if eqn.outvars[0] is end), None)
    if first is None or last is None:
        return step, ends
    runs = {id(eqn): list(map(AdjacentGate, eqn.params["gates"])) for eqn in (first, last)}
    while True:
        pairs = _boundary(runs[id(first)], runs[id(last)])
        meeting = next(filter(None, (_constants_meet(*pair) for pair in pairs)), None)
        if meeting is None:
            break
        ends.add(meeting)
        runs[id(last)] = _with(runs[id(last)], meeting.back, meeting.merged)
        runs[id(first)] = _with(runs[id(first)], meeting.front, [])
    if not ends.before:
        return step, ends

    def without(eqn: JaxprEqn) -> Any:
        if id(eqn) not in runs:
            return eqn
        gates = tuple(gate.gate for gate in runs[id(eqn)])
        return eqn.replace(params={**eqn.params, "gates": gates})

    return step.with_equations(list(map(without, jaxpr.eqns))), ends


def _with(
    gates: Sequence[AdjacentGate], old: AdjacentGate, new: Sequence[AdjacentGate]
) -> list[AdjacentGate]:
    """Return gates with others in the place of one."""
    return [each for gate in gates for each in (new if gate is old else [gate])]


@dataclass(frozen=True)
class MergedLoop:
    """A loop whose iterations are a run of gates each, with what stands around it.

    Attributes:
        before: runs of one gate.
        run: the gates of an iteration.
        params: the parameters of all iterations ``[iterations, run.n_params]``.
        after: runs of one gate.
    """

    before: list[GateRun]
    run: GateRun
    params: Any
    after: list[GateRun]


def merge_iterations(run: GateRun, params: Operand) -> MergedLoop:
    """Merge gates where the iterations of a loop meet that is nothing but gates.

    Args:
        run: the gates of an iteration; wires that the program computes are in a vector of their
            own.
        params: the parameters of all iterations ``[iterations, run.n_params]``, of two iterations
            or more.
    """
    loop = _GateLoop(run, params)
    while loop.merge_once():
        pass
    return loop.result()


class _GateLoop:
    def __init__(self, run: GateRun, params: Operand) -> None:
        self._run = run
        self._params = params
        self._gates = list(map(AdjacentGate, run.gates))
        # Of parameters that are sums: the slots that they get, and their values [iterations].
        self._sums: dict[int, Any] = {}
        self._frequencies = bytearray(run.frequencies)
        self._before: list[GateRun] = []
        self._after: list[GateRun] = []

    def merge_once(self) -> bool:
        for front, back in _boundary(self._gates, self._gates):
            constant = _constants_meet(front, back)
            if constant is not None:
                merged = constant.merged
                before = GateRun(self._run.derivative, [front.gate])
                for inverse in constant.inverse:
                    self._after.insert(0, GateRun(self._run.derivative, [inverse.gate]))
            elif front.turns_with(back):
                before, gate = self._sum(front, back)
                merged = [AdjacentGate(gate)]
            else:
                continue
            self._before.append(before)
            self._gates = _with(_with(self._gates, front, []), back, merged)
            return True
        return False

    def _sum(self, front: AdjacentGate, back: AdjacentGate) -> tuple[GateRun, Gate]:
        """Return the gate in front of the loop, and the one at the end of each iteration."""
        (slot, _), *_ = (front.angle + back.angle).slots
        bits = self._frequencies[slot]
        angles = self._of_iterations(front)
        before = GateRun(self._run.derivative)
        if front.constants is not None:
            before.gates.append(front.gate)
        else:
            before.rotate(front.gate, angles[0], bits)
        following = jnp.concatenate([angles[1:], jnp.zeros(1, angles.dtype)])
        new = len(self._frequencies)
        self._frequencies.append(bits)
        self._sums[new] = self._of_iterations(back) + following
        return before, replace(back.gate, slots=(new,), constants=(), adjoint=False)

    def _of_iterations(self, rotation: AdjacentGate) -> Any:
        """Return the angles that a rotation turns by, in all iterations."""
        angle = rotation.angle
        if not angle.slots:
            return jnp.full(self._params.shape[0], angle.constant)
        ((slot, is_negative),) = angle.slots
        values = self._sums[slot] if slot in self._sums else self._params[:, slot]
        return -values if is_negative else values

    def result(self) -> MergedLoop:
        if not self._before:
            return MergedLoop([], self._run, self._params, [])
        used = [slot for gate in self._gates for slot in gate.gate.slots if slot >= 0]
        kept = [slot for slot in used if slot not in self._sums]
        sums = [slot for slot in used if slot in self._sums]
        place = {slot: number for number, slot in enumerate(kept + sums)}
        run = self._run.without_gates()
        for gate in self._gates:
            run.gates.append(replace(gate.gate, slots=_move_slots(gate.gate.slots, place)))
        run.n_params = len(used)
        run.frequencies = bytearray(self._frequencies[slot] for slot in kept + sums)
        columns = [self._params[:, np.array(kept, np.int32)]]
        columns += [self._sums[slot][:, None] for slot in sums]
        return MergedLoop(self._before, run, jnp.concatenate(columns, axis=1), self._after)


def _move_slots(slots: tuple[int, ...] | range, place: dict[int, int]) -> tuple[int, ...] | range:
    """Return slots at other places; an array stays in one piece."""
    if isinstance(slots, range):
        is_constant = slots.start < 0
        return slots if is_constant else array_slots(place[slots.start], len(slots))
    return tuple(place[slot] if slot >= 0 else slot for slot in slots)
