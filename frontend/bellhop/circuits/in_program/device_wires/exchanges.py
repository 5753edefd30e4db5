"""Which wires stand for devices while which gates are applied, for fewest exchanges.

A state of ``n`` wires over ``2**k`` devices has ``k`` wires whose values are the number of the
device; the others are local.  A gate is local where it is a matrix on local wires, however it
depends on the others: as their control, or by being diagonal.  For all other gates wires change
places, several in one all-to-all::

    wires of devices    0 1                 0 1 -> 4 5          4 5
    gates               H 2, H 3, CNOT 0 2  (an exchange)       H 0, H 1, CZ 0 4

Gates that commute with those that wait go first.  Of the gates in order, it is optimal to exchange
when one cannot be applied, for the wires that are used latest (Belady's rule); what may go first is
found by another search, and the better of both plans is taken.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

Wires = tuple[int, ...]


@dataclass(frozen=True)
class Footprint:
    """Where a gate acts.

    Attributes:
        wires: all of its wires.
        local: those that must be local: on the others its matrix is diagonal.
    """

    wires: frozenset[int]
    local: frozenset[int]

    @classmethod
    def of(cls, wires: Iterable[int], diagonal: Iterable[int] = ()) -> "Footprint":
        """Return that of a gate whose matrix is diagonal on some of its wires."""
        return cls(frozenset(wires), frozenset(wires) - frozenset(diagonal))


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
    def moved(self) -> float:
        """The share of its part that a device sends."""
        if outgoing := frozenset(self.before) - frozenset(self.after):
            return 1 - 0.5 ** len(outgoing)
        # A device keeps its part where the wires of each cycle are equal.
        changed = sum(map(operator.ne, self.before, self.after))
        return 1 - 2.0 ** (_cycles(self.before, self.after) - changed)


def exchanges_between(before: Wires, after: Wires) -> list[Exchange]:
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
class PlacedExchange:
    """Where qubits are exchanged with those of devices.

    Attributes:
        exchange: of which qubits.
        before: the order of the qubits of each device's part before it.
    """

    exchange: Exchange
    before: Wires

    @property
    def places(self) -> Wires:
        """Where in each part qubits come in the places of others, in order."""
        return tuple(n for n, qubit in enumerate(self.before) if qubit in self.exchange.after)

    @property
    def axes(self) -> Wires:
        """The axes of the devices that each of these qubits is exchanged with."""
        return tuple(self.exchange.after.index(self.before[place]) for place in self.places)

    @property
    def after(self) -> Wires:
        """The order of the qubits of each device's part behind it."""
        outgoing = dict(zip(self.exchange.after, self.exchange.before, strict=True))
        return tuple(outgoing.get(qubit, qubit) for qubit in self.before)

    @property
    def reversed(self) -> "PlacedExchange":
        """The exchange back."""
        return PlacedExchange(Exchange(self.exchange.after, self.exchange.before), self.after)


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
        steps = itertools.starmap(exchanges_between, itertools.pairwise(devices))
        return tuple(itertools.chain.from_iterable(steps))

    @property
    def moved(self) -> float:
        """How many times over a device sends its part, altogether."""
        return sum(exchange.moved for exchange in self.exchanges)


def whole(n_gates: int) -> ExchangePlan:
    """Return the plan of one device."""
    return ExchangePlan((), (Segment((), tuple(range(n_gates))),), ())


def planned(
    gates: Sequence[Footprint], n_wires: int, start: Wires, end: Wires | None, *, is_free: bool
) -> ExchangePlan:
    """Plan where gates are applied.

    Args:
        gates: in order; each has at most as many local wires as there are.
        n_wires: those of the state.
        start: the wire of each axis of the devices before the first gate.
        end: the same after the last one; None if any will do.
        is_free: whether the wires may be exchanged at the start for nothing, as in a state of
            zeros.
    """
    assert all(len(gate.local) <= n_wires - len(start) for gate in gates)
    plans = [
        _by(search, gates, n_wires, start, end, is_free=is_free)
        for search in ((_soonest,), (_most,), (_soonest, _most))
    ]
    return min(plans, key=lambda plan: (len(plan.exchanges), plan.moved))


# Takes gates, the number of wires and of local ones; returns wires to be local, those first that
# are needed most.
_Search = Callable[[Sequence[Footprint], int, int], list[int]]


def _by(
    searches: Sequence[_Search],
    gates: Sequence[Footprint],
    n_wires: int,
    start: Wires,
    end: Wires | None,
    *,
    is_free: bool,
) -> ExchangePlan:
    waiting = list(range(len(gates)))
    devices, segments = start, list[Segment]()
    if not is_free:
        done = _applied(gates, waiting, devices)
        segments.append(Segment(devices, tuple(done)))
        waiting = _without(waiting, done)
    while waiting or not segments:
        rest = [gates[number] for number in waiting]
        found: list[tuple[list[int], Wires]] = []
        for search in searches:
            order = search(rest, n_wires, n_wires - len(start))
            chosen = frozenset(order[n_wires - len(start) :])
            done = _applied(gates, waiting, chosen)
            # As few wires as these gates need.
            needed = frozenset[int]().union(*(gates[number].local for number in done))
            later = [wire for wire in reversed(order) if wire not in needed]
            kept = [] if is_free and not segments else [w for w in devices if w not in needed]
            some = dict.fromkeys([*kept, *later])
            found.append((done, _placed(tuple(some)[: len(start)], devices, end or start)))
        done, devices = max(found, key=lambda each: len(each[0]))
        done = _applied(gates, waiting, devices)
        segments.append(Segment(devices, tuple(done)))
        waiting = _without(waiting, done)
    first = segments[0].devices if is_free else start
    return ExchangePlan(first, tuple(segments), devices if end is None else end)


def _without(numbers: Sequence[int], done: Iterable[int]) -> list[int]:
    gone = frozenset(done)
    return [number for number in numbers if number not in gone]


def _applied(
    gates: Sequence[Footprint], waiting: Sequence[int], devices: Iterable[int]
) -> list[int]:
    """Return the gates that can be applied, of those that wait, where they commute with these."""
    devices = frozenset(devices)
    done: list[int] = []
    # Wires that a gate waits for, and those on which all that wait are diagonal.
    stopped, diagonal = set[int](), set[int]()
    for number in waiting:
        gate = gates[number]
        is_stopped = not (
            devices.isdisjoint(gate.local)
            and stopped.isdisjoint(gate.wires)
            and diagonal.isdisjoint(gate.local)
        )
        if is_stopped:
            stopped |= gate.local
            diagonal |= gate.wires - gate.local
        else:
            done.append(number)
    return done


def _soonest(gates: Sequence[Footprint], n_wires: int, n_local: int) -> list[int]:
    """Return the wires in the order in which gates need them."""
    del n_local
    order = dict.fromkeys(wire for gate in gates for wire in sorted(gate.local))
    return list(order | dict.fromkeys(range(n_wires)))


def _most(gates: Sequence[Footprint], n_wires: int, n_local: int) -> list[int]:
    """Return the wires in the order in which gates need them that take few new ones."""
    local = dict[int, None]()
    waiting = list(range(len(gates)))
    while True:
        outside = [wire for wire in range(n_wires) if wire not in local]
        waiting = _without(waiting, _applied(gates, waiting, outside))
        ready = _ready([gates[number] for number in waiting])
        new = [tuple(wire for wire in sorted(gate.local) if wire not in local) for gate in ready]
        fitting = [wires for wires in new if len(local) + len(wires) <= n_local]
        if not fitting:
            break
        _, fewest = min((len(wires), wires) for wires in fitting)
        local |= dict.fromkeys(fewest)
    rest = [gates[number] for number in waiting]
    return list(local | dict.fromkeys(_soonest(rest, n_wires, n_local)))


def _ready(gates: Sequence[Footprint]) -> list[Footprint]:
    """Return the gates that commute with all before them."""
    ready: list[Footprint] = []
    stopped, diagonal = set[int](), set[int]()
    for gate in gates:
        if stopped.isdisjoint(gate.wires) and diagonal.isdisjoint(gate.local):
            ready.append(gate)
        stopped |= gate.local
        diagonal |= gate.wires - gate.local
    return ready


def _placed(chosen: Wires, before: Wires, end: Wires) -> Wires:
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


def _cycles(before: Wires, after: Wires) -> int:
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
