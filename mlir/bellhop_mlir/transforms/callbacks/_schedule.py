"""The order of a block in which what can be under way at once is."""

import heapq
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import find_reachable
from bellhop_mlir._dependence import DependenceGraph
from bellhop_mlir._purity import is_pure


@dataclass(frozen=True)
class StartStep:
    """The call of a place begins."""

    index: int


@dataclass(frozen=True)
class WaitStep:
    """The results of the call of a place are waited for."""

    index: int


@dataclass(frozen=True)
class RunStep:
    """The operations of some places are done."""

    indices: tuple[int, ...]


Step = StartStep | WaitStep | RunStep


class Schedule:
    """Starts calls as early as possible, and waits for them as late as possible.

    Whatever can be done comes before any wait, what a start needs before the rest, and of waits
    that for the call which was started first.  What has side effects keeps its order.  A circuit
    is one operation, with all that stands between its beginning and its end.

    Args:
        block: the block; it must not change while this is used.
        calls: the places of pure calls that may be split into a start and a wait.
        impure: functions with side effects.
    """

    def __init__(self, block: ir.Block, calls: Collection[int], impure: set[str]) -> None:
        dependence = DependenceGraph(block)
        self.operations = dependence.operations
        uses = {i: set(found) for i, found in dependence.uses.items()}
        latest = None
        for i, op in enumerate(self.operations):
            if not is_pure(op, impure):
                if latest is not None:
                    uses[i].add(latest)
                latest = i
        self._members, home = _group_circuits(self.operations, uses)
        self._calls = frozenset(i for i in calls if self._members[home[i]] == [i])
        self._users: dict[int, set[int]] = {i: set() for i in self._members}
        for i, found in uses.items():
            for j in found:
                if home[i] != home[j]:
                    self._users[home[j]].add(home[i])
        self._needed = dict.fromkeys(self._members, 0)
        for users in self._users.values():
            for i in users:
                self._needed[i] += 1
        used: dict[int, set[int]] = {i: set() for i in self._members}
        for i, users in self._users.items():
            for j in users:
                used[j].add(i)
        self._feeding = find_reachable(used, self._calls)

    def steps(self) -> Iterator[Step]:
        """Yield what to do, in order, but for the last operation of the block, which ends it."""
        end = len(self.operations) - 1
        needed = dict(self._needed)
        ready: list[tuple[bool, bool, int]] = []
        under_way: deque[int] = deque()

        def free(place: int) -> None:
            for user in self._users[place]:
                needed[user] -= 1
                if needed[user] == 0:
                    add(user)

        def add(place: int) -> None:
            if place != end:
                key = (place not in self._calls, place not in self._feeding, place)
                heapq.heappush(ready, key)

        for place in sorted(needed):
            if needed[place] == 0:
                add(place)
        while ready or under_way:
            if not ready:
                place = under_way.popleft()
                yield WaitStep(place)
                free(place)
                continue
            *_, place = heapq.heappop(ready)
            if place in self._calls:
                yield StartStep(place)
                under_way.append(place)
            else:
                yield RunStep(tuple(self._members[place]))
                free(place)


def _group_circuits(
    ops: list[ir.Operation], uses: dict[int, set[int]]
) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return groups of operations, by their first, and the group that each is in.

    What stands between the beginning and the end of a circuit is a group, any other operation one
    of itself.
    """
    begins = [i for i, op in enumerate(ops) if op.name == "quantum.begin"]
    home = {i: i for i in range(len(ops))}
    members = {i: [i] for i in home}
    if not begins:
        return members, home
    users: dict[int, set[int]] = {i: set() for i in home}
    for i, found in uses.items():
        for j in found:
            users[j].add(i)
    for begin in begins:
        after: set[int] = find_reachable(users, [begin])
        ends = [i for i in after if ops[i].name == "quantum.end"]
        if not ends:
            continue
        before: set[int] = find_reachable(uses, [min(ends)])
        circuit = {home[i] for i in after & before}
        first = min(circuit)
        together = sorted(i for other in circuit for i in members[other])
        for other in circuit:
            del members[other]
        members[first] = together
        home.update(dict.fromkeys(together, first))
    return members, home
