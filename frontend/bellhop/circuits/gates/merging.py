"""Merges rotations by traced angles, while a circuit is traced.

``RX(a) RX(b)`` becomes ``RX(a + b)``.  JAX differentiates the sum, and what differentiates the
circuit sees one gate with one parameter; so this comes before differentiation.  A QNode asks for it
with ``passes``.  Gates with constant parameters are left to the compiler's passes of those names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.gates.gate_run import GateRun
from bellhop_mlir.adjacent_gates import AdjacentGate, boundary, simplify, with_angle
from bellhop_mlir.dialects.gate import Gate
from bellhop_mlir.transforms.circuits.cancel_inverses import CancelInverses, cancel
from bellhop_mlir.transforms.circuits.merge_loop_boundaries import (
    MergeLoopBoundaries,
    meet_at_boundary,
)
from bellhop_mlir.transforms.circuits.merge_rotations import MergeRotations, are_alike


@dataclass(frozen=True)
class _Sum:
    """An angle: a constant, and slots of which some are subtracted."""

    constant: float
    slots: tuple[tuple[int, bool], ...]

    def __add__(self, other: "_Sum") -> "_Sum":
        return _Sum(self.constant + other.constant, self.slots + other.slots)


@dataclass(frozen=True)
class _MergedGate(AdjacentGate):
    """A gate, and what it turns by where it stands for several."""

    total: _Sum | None = None

    @property
    def angles(self) -> tuple[int | float, ...]:
        """The parameters; one that is a sum is none of the run's."""
        return super().angles if self.total is None else (-1,)


def _angle(rotation: _MergedGate) -> _Sum:
    """Return what a rotation turns by."""
    if rotation.total is not None:
        return rotation.total
    (angle,) = rotation.angles
    is_negative = rotation.gate.adjoint
    if isinstance(angle, float):
        return _Sum(-angle if is_negative else angle, ())
    return _Sum(0.0, ((angle, is_negative),))


def _merge(earlier: _MergedGate, later: _MergedGate) -> list[_MergedGate] | None:
    if not are_alike(earlier, later):
        return None
    total = _angle(earlier) + _angle(later)
    if total.slots:
        return [_MergedGate(later.gate, total)]
    return [_MergedGate(with_angle(later.gate, total.constant))] if total.constant != 0.0 else []


_MEETINGS: dict[str, Callable[[_MergedGate, _MergedGate], list[_MergedGate] | None]] = {
    CancelInverses.name: cancel,
    MergeRotations.name: _merge,
}


def merged(run: GateRun, passes: Sequence[str], *, is_last_sight: bool = False) -> GateRun:
    """Return a run of gates in which those that meet are merged.

    Args:
        run: the run; it stays as it is.
        passes: what is asked for, in order.
        is_last_sight: whether the compiler's passes do not see the gates.  Where they do, a run
            in which only constants meet is left to them.
    """
    gates = [_MergedGate(gate) for gate in run.gates]
    for name in passes:
        if name in _MEETINGS:
            gates = simplify(gates, _MEETINGS[name])
    if len(gates) == len(run.gates):
        return run
    if not is_last_sight and all(gate.total is None for gate in gates):
        return run
    result = run.without_gates()
    for gate in gates:
        if gate.total is None:
            result.copy(gate.gate, run)
        else:
            slot = gate.total.slots[0][0]
            result.rotate(gate.gate, _value(gate.total, run), run.frequencies[slot])
    return result


def _value(total: _Sum, run: GateRun) -> Any:
    (first, is_negative), *others = total.slots
    value = -run.value(first) if is_negative else run.value(first)
    for slot, is_negative in others:
        value = value - run.value(slot) if is_negative else value + run.value(slot)
    return value + total.constant if total.constant != 0.0 else value


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


def merge_iterations(run: GateRun, params: Any, passes: Sequence[str]) -> MergedLoop:
    """Merge the gates at the end of each iteration with those at the beginning of the next.

    A gate that the iterations begin with comes before the loop.  Each iteration but the last ends
    with that of the next one, whose angle is known, as the parameters of all iterations are.
    Constants take the way of the compiler's pass: there each iteration ends with it, and its
    inverse comes after the loop.

    Args:
        run: the gates of an iteration; wires that the program computes are in a vector of their
            own.
        params: the parameters of all iterations ``[iterations, run.n_params]``, of two iterations
            or more.
        passes: what is asked for; without this pass, nothing changes.
    """
    loop = _GateLoop(run, params)
    if MergeLoopBoundaries.name in passes:
        while loop.merge_once():
            pass
    return loop.result()


class _GateLoop:
    def __init__(self, run: GateRun, params: Any) -> None:
        self._run = run
        self._params = params
        self._gates = [AdjacentGate(gate) for gate in run.gates]
        # Of parameters that are sums: the slots that they get, and their values [iterations].
        self._sums: dict[int, Any] = {}
        self._frequencies = list(run.frequencies)
        self._before: list[GateRun] = []
        self._after: list[GateRun] = []

    def merge_once(self) -> bool:
        for front, back in boundary(self._gates, self._gates):
            constant = meet_at_boundary(front, back)
            if constant is not None:
                inverse, gate = constant
                before = GateRun(self._run.derivative, [front.gate])
                self._after.insert(0, GateRun(self._run.derivative, [inverse]))
            elif are_alike(front, back):
                before, gate = self._sum(front, back)
            else:
                continue
            self._before.append(before)
            self._gates = [
                AdjacentGate(gate) if other is back and gate is not None else other
                for other in self._gates
                if other is not front and (other is not back or gate is not None)
            ]
            return True
        return False

    def _sum(self, front: AdjacentGate, back: AdjacentGate) -> tuple[GateRun, Gate]:
        """Return the gate in front of the loop, and the one at the end of each iteration."""
        (slot,) = front.gate.slots if not front.is_constant() else back.gate.slots
        bits = self._frequencies[slot]
        angles = self._of_iterations(front)
        before = GateRun(self._run.derivative)
        if front.is_constant():
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
        (angle,) = rotation.angles
        if isinstance(angle, float):
            values: Any = jnp.full(self._params.shape[0], angle)
        else:
            values = self._sums[angle] if angle in self._sums else self._params[:, angle]
        return -values if rotation.gate.adjoint else values

    def result(self) -> MergedLoop:
        if not self._before:
            return MergedLoop([], self._run, self._params, [])
        used = [slot for gate in self._gates for slot in gate.gate.slots if slot >= 0]
        kept = [slot for slot in used if slot not in self._sums]
        sums = [slot for slot in used if slot in self._sums]
        place = {slot: number for number, slot in enumerate(kept + sums)}
        run = self._run.without_gates()
        for gate in self._gates:
            slots = tuple(place[slot] if slot >= 0 else slot for slot in gate.gate.slots)
            run.gates.append(replace(gate.gate, slots=slots))
        run.n_params = len(used)
        run.frequencies = [self._frequencies[slot] for slot in kept + sums]
        columns = [self._params[:, np.array(kept, np.int32)]]
        columns += [self._sums[slot][:, None] for slot in sums]
        return MergedLoop(self._before, run, jnp.concatenate(columns, axis=1), self._after)
