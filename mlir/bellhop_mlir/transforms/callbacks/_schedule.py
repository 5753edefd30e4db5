"""Order of a block's operations that maximizes concurrency."""

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
    """Start one call, without waiting for its results.

    ``index`` is the index of the call in its block.
    """

    index: int


@dataclass(frozen=True)
class WaitStep:
    """Wait for the results of a call that has been started.

    ``index`` is the index of the call in its block.
    """

    index: int


@dataclass(frozen=True)
class RunStep:
    """Run operations one after another.

    ``indices`` are the indices of the operations in their block, in the order of execution.
    """

    indices: tuple[int, ...]


Step = StartStep | WaitStep | RunStep


class Schedule:
    """An order of a block's operations: calls start early and are awaited late.

    The pass overlap-calls makes a schedule for a block and then reorders the block. All operations
    whose operands are known run before any wait; first the calls, then the operations on which
    other calls depend. Waits are in the order of the starts. Operations with side effects keep
    their order. The operations of a circuit, from ``quantum.begin`` to ``quantum.end``, stay
    together.

    Args:
        block: the block, which must not change while the schedule is used.
        calls: indices in the block of pure calls that may be split into start and wait; calls
            between the operations of a circuit are not split.
        impure: symbols of functions with side effects.

    Attributes:
        operations: the operations of the block, by index.
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
        """Yield the steps of the schedule in order.

        Each operation of the block is in one `RunStep`, or is a call with a `StartStep` and a later
        `WaitStep`; the terminator of the block is in no step.
        """
        end = len(self.operations) - 1
        needed = dict(self._needed)
        ready: list[tuple[bool, bool, int]] = []
        in_progress: deque[int] = deque()

        def free(index: int) -> None:
            """Add the users of a finished operation that can run now to the ready operations.

            A user can run when all operations on which it depends have finished. ``index`` is the
            index of the finished operation.
            """
            for user in self._users[index]:
                needed[user] -= 1
                if needed[user] == 0:
                    add(user)

        def add(index: int) -> None:
            """Add an operation to the heap of ready operations, by its priority."""
            if index != end:
                key = (index not in self._calls, index not in self._feeding, index)
                heapq.heappush(ready, key)

        for index in sorted(needed):
            if needed[index] == 0:
                add(index)
        while ready or in_progress:
            if not ready:
                index = in_progress.popleft()
                yield WaitStep(index)
                free(index)
                continue
            *_, index = heapq.heappop(ready)
            if index in self._calls:
                yield StartStep(index)
                in_progress.append(index)
            else:
                yield RunStep(tuple(self._members[index]))
                free(index)


def _group_circuits(
    ops: list[ir.Operation], uses: dict[int, set[int]]
) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Group the operations of a block so that each circuit is one group.

    A circuit's group has all operations on paths from its ``quantum.begin`` to its ``quantum.end``;
    every other operation is a group by itself.

    Args:
        ops: operations of a block.
        uses: for each index, the indices of the operations that must run before.

    Returns:
        two dictionaries: the indices in each group, in order, by the first index of the group; and
        for each index, the first index of its group.
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
