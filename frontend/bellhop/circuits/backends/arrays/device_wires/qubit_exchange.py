"""Which wires stand for devices while which gates are applied, for fewest exchanges.

A state of ``n`` wires over ``2**k`` devices has ``k`` wires whose values are the number of the
device; the others are local.  A gate is local where it is a matrix on local wires, however it
depends on the others: as their control, or by being diagonal.  For all other gates wires change
places, several in one all-to-all::

    wires of devices    0 1                 0 1 -> 4 5          4 5
    gates               H 2, H 3, CNOT 0 2  (an exchange)       H 0, H 1, CZ 0 4

Gates that commute with those that wait go first.  Where some gates cannot be applied, wires become
those of devices one after another, each time that for which the fewest gates have to wait.
"""

import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from bellhop.base.types import Operand

if TYPE_CHECKING:  # That imports PennyLane, and regions without circuits come by here.
    from bellhop.circuits.backends.arrays.device_wires.diagonal_wires import GateWires

Wires = tuple[int, ...]


@dataclass(frozen=True)
class Exchange:
    """Wires that stand for devices, before and after an exchange.

    Some become local and others come in their places, in an all-to-all; or all stay and change
    their axes, as whole parts move.

    Attributes:
        before: the wire of each axis of the devices.
        after: the same, afterwards.
    """

    before: Wires
    after: Wires

    @property
    def sent_fraction(self) -> float:
        """The share of its part that a device sends."""
        if outgoing := frozenset(self.before) - frozenset(self.after):
            return 1 - 0.5 ** len(outgoing)
        # A device keeps its part where the wires of each cycle are equal.
        changed = sum(map(operator.ne, self.before, self.after))
        return 1 - 2.0 ** (_count_cycles(self.before, self.after) - changed)


def plan_exchanges(before: Wires, after: Wires) -> list[Exchange]:
    """Return what takes wires to their axes: an all-to-all, then a move of parts, or one of both.

    Args:
        before: the wire of each axis of the devices.
        after: the same, afterwards.
    """
    pairs = list(zip(before, after, strict=True))
    elsewhere = iter([new for old, new in pairs if new not in before and old in after])
    between = tuple(
        old if old in after else new if new not in before else next(elsewhere) for old, new in pairs
    )
    steps = itertools.pairwise((before, between, after))
    return [Exchange(*step) for step in steps if step[0] != step[1]]


@dataclass(frozen=True)
class ExchangePlacement:
    """Where qubits are exchanged with those of devices.

    Attributes:
        exchange: of which qubits.
        initial_order: the order of the qubits of each device's part before it.
    """

    exchange: Exchange
    initial_order: Wires

    @property
    def positions(self) -> Wires:
        """Where in each part qubits come in the places of others, in order."""
        return tuple(
            n for n, qubit in enumerate(self.initial_order) if qubit in self.exchange.after
        )

    @property
    def axes(self) -> Wires:
        """The axes of the devices that each of these qubits is exchanged with."""
        return tuple(
            self.exchange.after.index(self.initial_order[place]) for place in self.positions
        )

    @property
    def resulting_order(self) -> Wires:
        """The order of the qubits of each device's part behind it."""
        outgoing = dict(zip(self.exchange.after, self.exchange.before, strict=True))
        return tuple(outgoing.get(qubit, qubit) for qubit in self.initial_order)

    @property
    def inverse(self) -> "ExchangePlacement":
        """The exchange back."""
        return ExchangePlacement(
            Exchange(self.exchange.after, self.exchange.before), self.resulting_order
        )


@dataclass(frozen=True)
class Segment:
    """Gates that are applied without an exchange.

    Attributes:
        devices: the wire of each axis of the devices.
        gates: the numbers of the gates, in order.
    """

    devices: Wires
    gates: tuple[int, ...]


@dataclass(frozen=True)
class ExchangePlan:
    """All gates of a sequence, in segments with an exchange between them.

    Attributes:
        start: the wire of each axis before the first segment.
        segments: at least one.
        end: the wire of each axis after the last.
    """

    start: Wires
    segments: tuple[Segment, ...]
    end: Wires

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What is exchanged, in order."""
        devices = [self.start, *(segment.devices for segment in self.segments), self.end]
        steps = itertools.starmap(plan_exchanges, itertools.pairwise(devices))
        return tuple(itertools.chain.from_iterable(steps))

    @property
    def sent_fraction(self) -> float:
        """How many times over a device sends its part, altogether."""
        return sum(exchange.sent_fraction for exchange in self.exchanges)


def plan_single_device(n_gates: int) -> ExchangePlan:
    """Return the plan of one device."""
    return ExchangePlan((), (Segment((), tuple(range(n_gates))),), ())


def plan_segments(
    gates: Sequence["GateWires"],
    n_wires: int,
    start: Wires,
    end: Wires | None,
    *,
    can_choose_start: bool,
) -> ExchangePlan:
    """Plan where gates are applied.

    Args:
        gates: in order; each has at most as many local wires as there are.
        n_wires: those of the state.
        start: the wire of each axis of the devices before the first gate.
        end: the same after the last one; None if any will do.
        can_choose_start: whether the wires may be exchanged at the start for nothing, as in a
            state of zeros.
    """
    assert all(len(gate.nondiagonal) <= n_wires - len(start) for gate in gates)
    waiting, devices, segments = _PendingGates.from_gates(gates), start, list[Segment]()
    while waiting.gates or not segments:
        if segments or can_choose_start:
            chosen = waiting.choose_device_wires(n_wires, devices)
            # As few wires are exchanged as these gates need.
            applied = waiting.find_applicable(chosen)
            needed = frozenset[int]().union(*(gates[number].nondiagonal for number in applied))
            kept = [wire for wire in devices if segments and wire not in needed]
            few = tuple(dict.fromkeys([*kept, *chosen]))[: len(start)]
            devices = _assign_axes(few, devices, end or start)
        segments.append(Segment(devices, waiting.find_applicable(devices)))
        waiting = waiting.remove_applicable(devices)
    first = segments[0].devices if can_choose_start else start
    return ExchangePlan(first, tuple(segments), devices if end is None else end)


@dataclass(frozen=True)
class _PendingGates:
    """Gates that wait, in sets of bits: of gates by their numbers, and of wires.

    Attributes:
        gates: those that wait.
        nondiagonal: for each gate, waiting or not, the wires that must be local.
        dependencies: the same, the gates before it that it does not commute with.
        wires: all that gates act on.
    """

    gates: int
    nondiagonal: tuple[int, ...]
    dependencies: tuple[int, ...]
    wires: int

    @classmethod
    def from_gates(cls, gates: Sequence["GateWires"]) -> "_PendingGates":
        """Return all gates, in order."""
        before: list[int] = []
        # The gates on each wire, and those of them that are not diagonal there.
        on, local_on = defaultdict[int, int](int), defaultdict[int, int](int)
        for number, gate in enumerate(gates):
            diagonal = gate.wires - gate.nondiagonal
            others = [
                *(on[wire] for wire in gate.nondiagonal),
                *(local_on[wire] for wire in diagonal),
            ]
            before.append(reduce(operator.or_, others, 0))
            for some, wires in ((on, gate.wires), (local_on, gate.nondiagonal)):
                for wire in wires:
                    some[wire] |= 1 << number
        local = tuple(_to_bitmask(gate.nondiagonal) for gate in gates)
        return cls((1 << len(gates)) - 1, local, tuple(before), _to_bitmask(on))

    def find_applicable(self, devices: Iterable[int]) -> tuple[int, ...]:
        """Return the gates that can be applied while some wires stand for devices."""
        done = self.gates ^ self._find_remaining(_to_bitmask(devices))
        return tuple(number for number in range(len(self.nondiagonal)) if done >> number & 1)

    def remove_applicable(self, devices: Iterable[int]) -> "_PendingGates":
        """Return what waits once these are applied."""
        return replace(self, gates=self._find_remaining(_to_bitmask(devices)))

    def choose_device_wires(self, n_wires: int, before: Wires) -> Wires:
        """Choose wires to stand for devices, of equally good ones those that do already."""
        chosen: Wires = ()
        while len(chosen) < len(before):
            others = [wire for wire in range(n_wires) if wire not in chosen]
            rests = {
                wire: self._find_remaining(_to_bitmask((*chosen, wire))).bit_count()
                for wire in others
            }
            chosen += (min(others, key=lambda wire: (rests[wire], wire not in before, -wire)),)
        return chosen

    def _find_remaining(self, devices: int) -> int:
        """Return the gates that wait once those are applied that can be."""
        waiting = rest = self.gates
        stopped = 0
        while waiting and stopped != self.wires:
            first = waiting & -waiting
            waiting ^= first
            number = first.bit_length() - 1
            if self.nondiagonal[number] & devices or self.dependencies[number] & rest:
                stopped |= self.nondiagonal[number]
            else:
                rest ^= first
        return rest


def _to_bitmask(numbers: Iterable[int]) -> int:
    return reduce(operator.or_, (1 << number for number in numbers), 0)


def _assign_axes(chosen: Wires, before: Wires, end: Wires) -> Wires:
    """Return wires of devices, each on its axis of before or of the end where that is free."""
    placed = {axis: wire for axis, wire in enumerate(before) if wire in chosen}
    rest = [wire for wire in chosen if wire not in placed.values()]
    for wire in [wire for wire in rest if wire in end]:
        axis = end.index(wire)
        if axis not in placed:
            placed[axis] = wire
            rest.remove(wire)
    free = [axis for axis in range(len(before)) if axis not in placed]
    placed |= dict(zip(free, rest, strict=True))
    return tuple(placed[axis] for axis in range(len(before)))


def _count_cycles(before: Wires, after: Wires) -> int:
    """Return how many cycles the wires that change their axes are in."""
    seen, cycles = set[int](), 0
    for axis, wire in enumerate(before):
        if wire in seen or after[axis] == wire:
            continue
        cycles += 1
        while wire not in seen:
            seen.add(wire)
            wire = before[after.index(wire)]
    return cycles


def permute_qubits(state: Operand, before: Sequence[int], after: Sequence[int], base: int) -> Any:
    """Return a state whose qubits are in another order, moving those together that stay so."""
    places = [before.index(qubit) for qubit in after]
    starts = [n for n, place in enumerate(places) if not n or place != places[n - 1] + 1]
    if len(starts) == 1:
        return state
    ends = [*starts[1:], len(places)]
    first = [places[start] for start in starts]
    length = dict(zip(first, (b - a for a, b in zip(starts, ends, strict=True)), strict=True))
    in_order = sorted(first)
    groups = state.reshape(len(state), *(base ** length[place] for place in in_order))
    return groups.transpose(0, *(1 + in_order.index(place) for place in first)).reshape(state.shape)
