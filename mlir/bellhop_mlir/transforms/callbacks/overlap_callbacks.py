"""overlap-callbacks: pure calls that do not need each other are under way at once."""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from bellhop_mlir._bindings import ir
from bellhop_mlir._dependence import Dependence
from bellhop_mlir._outline import inline_callers
from bellhop_mlir._purity import impure_functions, is_pure
from bellhop_mlir._walk import blocks_in, replace, types
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass

# Functions that are called in more places stay functions.
_MOST_COPIES = 32


@dataclass(frozen=True)
class OverlapCallbacks(Pass):
    """Start pure calls as soon as their operands are there, and wait at the first use.

    Before::

        %a = "callback.call"(%x) {callee = @f, kind = "pure"} ...
        %b = stablehlo.negate %a
        %c = "callback.call"(%x) {callee = @g, kind = "pure"} ...

    After::

        %s = "callback.call"(%x) {callee = @f, kind = "start"} ...
        %t = "callback.call"(%x) {callee = @g, kind = "start"} ...
        %a = "callback.call"(%s, %t) {callee = @f, kind = "done"} ...
        %b = stablehlo.negate %a
        %c = "callback.call"(%t, %a) {callee = @g, kind = "done"} ...

    A block is put into the order in which one thread gets furthest: whatever can be computed comes
    before any wait, and of waits that for the call which was started first.  Data dependence says
    so to XLA, whose CPU backend runs custom calls of small programs one after another and in an
    order of its own: a wait takes the tickets of the calls that were started since the one before
    it, and a result of that.  What has side effects keeps its order.  A call beside which there is
    no other stays as it is.  Functions that hold calls, which hide them, are inlined where they are
    called in few places.

    Args:
        ids: the numbers of the functions whose calls may be split; None for all.

    Preconditions: regions are split before, since the calls of them are not.
    """

    ids: frozenset[int] | None = None

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        names = {
            name
            for name, declaration in callback.declarations(module).items()
            if self.ids is None or declaration.id in self.ids
        }
        inline_callers(module, "callback.call", most=_MOST_COPIES)
        impure = impure_functions(module)
        # All of them first: splitting erases operations, though none that hold blocks.
        for block in blocks_in(module.operation):
            calls = {i for i, op in enumerate(block.operations) if _may_split(op.operation, names)}
            if len(calls) > 1:
                _Schedule(block, calls, impure).apply()


def _may_split(op: ir.Operation, names: set[str]) -> bool:
    if op.name != "callback.call" or not len(op.results):
        return False
    call = callback.CallOp(op)
    return call.traits.is_pure and call.callee in names and not call.aliases


@dataclass
class _Wait:
    """The end of a call: which calls it stands behind, and whether any other was under way."""

    place: int
    behind: list[int] = field(default_factory=list)
    is_accompanied: bool = False


class _Schedule:
    """The order of the operations of a block, by place, and the waits for its calls.

    Args:
        block: the block.
        calls: the places of the calls that may be split.
        impure: functions with side effects.
    """

    def __init__(self, block: ir.Block, calls: set[int], impure: set[str]) -> None:
        dependence = Dependence(block)
        self._ops = dependence.operations
        self._calls = calls
        self._users: list[list[int]] = [[] for _ in self._ops]
        self._needed = [0] * len(self._ops)
        latest = None
        for i, op in enumerate(self._ops):
            uses = set(dependence.uses[i])
            if not is_pure(op, impure):
                uses |= set() if latest is None else {latest}
                latest = i
            for j in uses:
                self._users[j].append(i)
            self._needed[i] = len(uses)

    def _order(self) -> Iterator[int | _Wait]:
        """Yield the places of operations, those of calls as their starts, and waits."""
        ready = [i for i, needed in enumerate(self._needed[:-1]) if needed == 0]
        under_way: deque[int] = deque()
        waits: dict[int, _Wait] = {}
        started: list[int] = []
        while ready or under_way:
            if ready:
                place = heapq.heappop(ready)
                yield place
                if place in self._calls:
                    waits[place] = _Wait(place, is_accompanied=bool(under_way))
                    if len(under_way) == 1:
                        waits[under_way[0]].is_accompanied = True
                    under_way.append(place)
                    started.append(place)
                    continue
            else:
                place = under_way.popleft()
                wait = waits[place]
                wait.behind = [other for other in started if other != place]
                started = []
                yield wait
            for user in self._users[place]:
                self._needed[user] -= 1
                if self._needed[user] == 0 and user != len(self._ops) - 1:
                    heapq.heappush(ready, user)

    def apply(self) -> None:
        """Put the block into that order."""
        order = list(self._order())
        split = {step.place for step in order if isinstance(step, _Wait) and step.is_accompanied}
        if not split:
            return
        end = self._ops[-1]
        tickets: dict[int, ir.Value] = {}
        previous: list[ir.Value] = []
        for step in order:
            place = step.place if isinstance(step, _Wait) else step
            op = self._ops[place]
            if place not in split:
                # Of a call that is not split, the start says nothing.
                if isinstance(step, _Wait) or place not in self._calls:
                    op.move_before(end)
                continue
            call = callback.CallOp(op)
            with ir.InsertionPoint(end), op.location:
                if not isinstance(step, _Wait):
                    ticket = ir.Type.parse(callback.TICKET)
                    start = callback.call(call.callee, "start", list(op.operands), [ticket])
                    tickets[place] = start.operation.results[0]
                    continue
                anchors = [tickets[other] for other in step.behind if other in tickets]
                operands = [tickets[place], *anchors, *previous]
                done = callback.call(call.callee, "done", operands, types(op.results))
            previous = [done.operation.results[0]]
            replace(op, list(done.operation.results))
