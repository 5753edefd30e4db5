"""Plan which wires are device wires during which gates, with few exchanges.

A state of ``n`` wires over ``2**k`` devices has ``k`` device wires, whose values are the bits of
the device's index; the remaining wires are local.  A gate can be applied if it is diagonal on its
device wires, for instance if they are its controls.  For all other gates, device wires are
exchanged with local wires, several in one all-to-all::

    device wires        0 1                 0 1 -> 4 5          4 5
    gates               H 2, H 3, CNOT 0 2  (an exchange)       H 0, H 1, CZ 0 4

Gates that commute with all pending gates before them are applied first.  For an exchange, device
wires are chosen one after another, each such that the fewest gates remain pending.
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
    """One communication step that changes which wires are bits of the device's index.

    The bits of the device's index are the values of the *device wires*, one for each mesh axis (of
    size two); the remaining wires are local. Either local wires take the place of device wires, in
    an all-to-all; or the same device wires change their axes, by sending whole shards. For instance
    ``Exchange((0, 1), (4, 1))`` replaces wire 0 by wire 4 on the first axis.

    Attributes:
        before: the device wire of each mesh axis before the exchange.
        after: the device wire of each mesh axis after the exchange.
    """

    before: Wires
    after: Wires

    @property
    def sent_fraction(self) -> float:
        """The average fraction of its shard that a device sends to other devices."""
        if outgoing := frozenset(self.before) - frozenset(self.after):
            return 1 - 0.5 ** len(outgoing)
        # A device keeps its shard if the wires of each cycle have equal values.
        changed = sum(map(operator.ne, self.before, self.after))
        return 1 - 2.0 ** (_count_cycles(self.before, self.after) - changed)


def plan_exchanges(before: Wires, after: Wires) -> list[Exchange]:
    """Return the exchanges that lead from one assignment of device wires to another.

    The device wires are the wires whose values are the bits of the device's index.

    Args:
        before: the device wire of each mesh axis before the exchanges.
        after: the device wire of each mesh axis after the exchanges.

    Returns:
        at most two exchanges: an all-to-all with local wires, then a permutation of whole shards.
        An exchange that would change nothing is left out, so equal arguments give an empty list.
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
    """An exchange of qubits between devices, and the order of the qubits in each shard.

    Attributes:
        exchange: for each mesh axis, the qubit that is this bit of the device's index (the device
            qubit), before and after the exchange.
        initial_order: the local qubits, which are the axes of each shard, before the exchange.
    """

    exchange: Exchange
    initial_order: Wires

    @property
    def positions(self) -> Wires:
        """Positions in `initial_order` of the qubits that become device qubits, ascending."""
        return tuple(
            n for n, qubit in enumerate(self.initial_order) if qubit in self.exchange.after
        )

    @property
    def axes(self) -> Wires:
        """For each of `positions`, the index of the mesh axis that its qubit gets."""
        return tuple(
            self.exchange.after.index(self.initial_order[place]) for place in self.positions
        )

    @property
    def resulting_order(self) -> Wires:
        """The local qubits after the exchange, in the order of a shard's axes.

        Each former device qubit takes the position of the qubit that replaces it.
        """
        outgoing = dict(zip(self.exchange.after, self.exchange.before, strict=True))
        return tuple(outgoing.get(qubit, qubit) for qubit in self.initial_order)

    @property
    def inverse(self) -> "ExchangePlacement":
        """The exchange back, from `resulting_order` to `initial_order`."""
        return ExchangePlacement(
            Exchange(self.exchange.after, self.exchange.before), self.resulting_order
        )


@dataclass(frozen=True)
class Segment:
    """Gates that are applied to a partitioned state without communication between them.

    Attributes:
        devices: for each mesh axis, the wire that is this bit of the device's index.
        gates: indices of the gates in the planned sequence, in order of application.
    """

    devices: Wires
    gates: tuple[int, ...]


@dataclass(frozen=True)
class ExchangePlan:
    """The order in which gates are applied to a state that is partitioned over devices.

    Between segments of gates, exchanges change the device wires: the wires whose values are the
    bits of the device's index, one for each mesh axis. `plan_segments` makes a plan.

    Attributes:
        start: the device wire of each mesh axis before the first segment.
        segments: at least one segment. Each gate is in one segment.
        end: the device wire of each mesh axis after the last segment.
    """

    start: Wires
    segments: tuple[Segment, ...]
    end: Wires

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All exchanges in order: before, between and after the segments."""
        devices = [self.start, *(segment.devices for segment in self.segments), self.end]
        steps = itertools.starmap(plan_exchanges, itertools.pairwise(devices))
        return tuple(itertools.chain.from_iterable(steps))

    @property
    def sent_fraction(self) -> float:
        """The sum of `Exchange.sent_fraction` over all exchanges, the cost of the plan."""
        return sum(exchange.sent_fraction for exchange in self.exchanges)


def plan_single_device(n_gates: int) -> ExchangePlan:
    """Return the plan for one device: all gates in their order, without exchanges."""
    return ExchangePlan((), (Segment((), tuple(range(n_gates))),), ())


def plan_segments(
    gates: Sequence["GateWires"],
    n_wires: int,
    start: Wires,
    end: Wires | None,
    *,
    can_choose_start: bool,
) -> ExchangePlan:
    """Choose in which order to apply gates to a partitioned state, and when to communicate.

    A gate can be applied if it is diagonal on the device wires, whose values are the bits of the
    device's index. For all other gates, exchanges make device wires local. Gates are only reordered
    if they commute. The choice is greedy: each exchange is chosen so that few gates remain.

    Args:
        gates: wires of the gates, in order; each gate's nondiagonal wires must fit into a shard.
        n_wires: number of wires of the state.
        start: the device wire of each mesh axis before the first gate.
        end: the device wire of each mesh axis after the last gate; None for any: the plan then ends
            with the device wires of its last segment.
        can_choose_start: whether the plan may start with other device wires than `start` at no
            cost, as for the state ``|0...0>``. The plan's `start` lists them.

    Returns:
        a plan whose segments hold all gates.
    """
    assert all(len(gate.nondiagonal) <= n_wires - len(start) for gate in gates)
    waiting, devices, segments = _PendingGates.from_gates(gates), start, list[Segment]()
    while waiting.gates or not segments:
        if segments or can_choose_start:
            chosen = waiting.choose_device_wires(n_wires, devices)
            # Keep device wires that these gates do not need to be local.
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
    """The gates that are not yet in a segment, during `plan_segments`.

    Sets are bit masks: bit ``n`` is gate ``n``, or wire ``n``.

    Attributes:
        gates: the set of pending gates.
        nondiagonal: for each gate, pending or not, the set of wires that must be local.
        dependencies: for each gate, the set of earlier gates with which it does not commute.
        wires: the set of all wires on which gates act.
    """

    gates: int
    nondiagonal: tuple[int, ...]
    dependencies: tuple[int, ...]
    wires: int

    @classmethod
    def from_gates(cls, gates: Sequence["GateWires"]) -> "_PendingGates":
        """Return all gates as pending, with their dependencies.

        Two gates count as commuting if both are diagonal on each wire that they share.

        Args:
            gates: wires of the gates, in order of application.
        """
        before: list[int] = []
        # The gates on each wire, and the gates that are not diagonal on the wire.
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
        """Return the indices of the pending gates that can be applied now, in order.

        A gate can be applied if it is diagonal on the wires `devices`, and all pending gates on
        which it depends can be applied before it.

        Args:
            devices: the wires that index devices.
        """
        done = self.gates ^ self._find_remaining(_to_bitmask(devices))
        return tuple(number for number in range(len(self.nondiagonal)) if done >> number & 1)

    def remove_applicable(self, devices: Iterable[int]) -> "_PendingGates":
        """Return a copy without the gates that can be applied now (`find_applicable`)."""
        return replace(self, gates=self._find_remaining(_to_bitmask(devices)))

    def choose_device_wires(self, n_wires: int, before: Wires) -> Wires:
        """Choose greedily which wires index devices, so that few gates remain pending.

        A gate remains pending if it is not diagonal on a chosen wire, or depends on a gate that
        remains pending. No gate is removed.

        Args:
            n_wires: number of wires of the state.
            before: the current device wires, which are preferred among equally good wires.

        Returns:
            one wire for each of `before`. `_assign_axes` assigns them to device axes later.
        """
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
        """Return the pending gates that cannot be applied, as a bit mask.

        A gate cannot be applied if it is not diagonal on a wire that indexes devices (the bit mask
        `devices`), or if it depends on such a gate.
        """
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
    """Assign device wires to mesh axes, so that few wires change their axis.

    A wire keeps its axis in `before` if it has one; otherwise it gets its axis in `end`, if that is
    free, or any free axis.

    Args:
        chosen: the wires to assign, one for each axis.
        before: the wire of each axis at present.
        end: the wire of each axis at the end of the circuit.

    Returns:
        the wire of each axis, a permutation of `chosen`.
    """
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
    """Return the number of cycles of a wire permutation, without fixed points.

    Args:
        before: the wire of each device axis before the permutation.
        after: the same wires, in their order after the permutation.
    """
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
    """Transpose the qubits of a state.

    For instance ``permute_qubits(state, [0, 1, 2], [2, 0, 1], 2)`` brings the last qubit to the
    front.

    Args:
        state: array ``[components, base**qubits]``.
        before: the qubits in their order in `state`, first axis first.
        after: the same qubits in their order in the result.
        base: number of entries per qubit: 2 for amplitudes, 4 for Pauli expectation values.

    Returns:
        array of the shape of `state`.
    """
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
