"""overlap-calls: run independent operations while a region or a callback is running."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._block_partition import (
    OperationGroup,
    compute_inputs_and_outputs,
    keep_in_place,
    outline_group,
)
from bellhop_mlir._outline import MOST_COPIES, inline_containing_functions
from bellhop_mlir._purity import find_impure_functions
from bellhop_mlir._walk import (
    find_functions,
    find_symbols,
    function_type,
    list_blocks,
    replace_operation,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass
from bellhop_mlir.transforms.callbacks._cost import WORTHWHILE, count_elements, make_cost_estimator
from bellhop_mlir.transforms.callbacks._schedule import RunStep, Schedule, StartStep, WaitStep


@dataclass(frozen=True)
class OverlapCalls(Pass):
    """Start pure calls as soon as their operands are known, and wait at the first use.

    Before::

        %a = "callback.call"(%x) {callee = @region, kind = "pure"} ...
        %b = stablehlo.dot_general %m, %m ...
        %c = "callback.call"(%x) {callee = @region_elsewhere, kind = "pure"} ...

    After::

        %s = "callback.call"(%x) {callee = @region, kind = "start"} ...
        %t = "callback.call"(%x) {callee = @region_elsewhere, kind = "start"} ...
        %s1, %t1, %b = func.call @main_beside(%m, %s, %t) {inlineable = "false"} ...
        %a = "callback.call"(%s1, %t1) {callee = @region, kind = "done"} ...
        %c = "callback.call"(%t1, %a) {callee = @region_elsewhere, kind = "done"} ...

    The operations of a block are sorted so that most work runs while calls are in progress
    (``_schedule.py``).  Data dependences enforce the order, since XLA's CPU backend runs the custom
    calls of small programs sequentially and in an arbitrary order.  Operations that run while calls
    are in progress, such as circuits, callbacks, loops or matrix products, are outlined to a
    function that takes and returns the futures of these calls.  A wait takes the future of its
    call, the futures of the calls started since the previous wait, and a result of the previous
    wait.

    Calls of regions, the nested modules that run on other devices, are split, unless the estimated
    cost of the region is low (``_cost.py``).  A call is not split if neither a long computation nor
    another call can run in the meantime.  Functions that contain calls are inlined if they are
    called in few places.

    Args:
        ids: ids of callbacks whose calls may be split like calls of regions, separated by commas.

    Preconditions: convert-accelerate-to-runtime ran before, and the declarations of regions
    still name their modules.
    """

    needs = ("callback.call",)

    ids: str = ""

    def apply(self, module: ir.Module) -> bool:
        """Let calls of callbacks and regions run during independent operations, in place.

        A call is split into its start and a wait for its results if another call or a long
        computation can run in between; long computations are then outlined to functions.

        Returns:
            False if the module has no callback and no region with calls that can be split.
        """
        names = self._find_splittable(module)
        if not names:
            return False
        inline_containing_functions(module, lambda op: _may_split(op, names), max_uses=MOST_COPIES)
        # Innermost blocks first: operations that overlap with a call are outlined to functions.
        for block in reversed(list_blocks(module.operation)):
            places = {i for i, op in enumerate(block.operations) if _may_split(op.operation, names)}
            if places:
                _BlockScheduler(module, block, places).apply()
        return True

    def _find_splittable(self, module: ir.Module) -> set[str]:
        """Return the symbols of functions whose calls may be split into start and wait.

        They are the ``callback.func`` operations whose id is in ``ids``, or whose nested module
        runs long (`_is_long`).
        """
        ids = set(map(int, filter(None, self.ids.split(","))))
        modules = find_symbols(module, "builtin.module")
        return {
            name
            for name, declaration in callback.find_declarations(module).items()
            if declaration.id in ids
            or (declaration.module is not None and _is_long(modules[declaration.module]))
        }


def _is_long(region: ir.Operation) -> bool:
    """Return whether a nested module takes long enough to run other operations meanwhile.

    The number of elements of its arguments and results, which are copied between devices, and the
    estimated number of elementary operations are together at least ``WORTHWHILE``.

    Args:
        region: the module. If it has no ``@main``, the cost is unknown and the result is True.
    """
    by_name = find_functions(region)
    if "main" not in by_name:
        return True
    type_ = function_type(by_name["main"])
    moved = sum(map(count_elements, [*type_.inputs, *type_.results]))
    return moved + make_cost_estimator(by_name)(by_name["main"]) >= WORTHWHILE


def _may_split(op: ir.Operation, names: set[str]) -> bool:
    """Return whether an operation may be split into the start of a call and the wait for it.

    It must be a pure ``callback.call`` with results, without aliases, and with a callee in
    ``names``.
    """
    if op.name != "callback.call" or not len(op.results):
        return False
    call = callback.CallOp(op)
    return call.traits.is_pure and call.callee in names and not call.aliases


class _BlockScheduler:
    """Reorders one block so that its calls overlap with other operations.

    The pass makes an instance for each block with calls that may be split, and calls `apply` once.

    Args:
        module: the module of the block.
        block: the block.
        calls: indices of the block's calls that may be split.
    """

    def __init__(self, module: ir.Module, block: ir.Block, calls: Collection[int]) -> None:
        schedule = Schedule(block, calls, find_impure_functions(module))
        self._module = module
        self._ops = schedule.operations
        self._steps = list(schedule.steps())
        of = make_cost_estimator(find_functions(module))
        self._costs = [
            min(WORTHWHILE, sum(of(self._ops[i]) for i in step.indices))
            if isinstance(step, RunStep)
            else 0
            for step in self._steps
        ]
        self._split = set(self._find_overlapping_calls())
        self._parts: list[OperationGroup] = []
        self._beside: list[OperationGroup] = []
        # Futures of calls in progress, by index of the call.
        self._futures: dict[int, ir.Value] = {}
        self._group: list[ir.Operation] = []
        self._group_cost = 0.0

    def _find_overlapping_calls(self) -> Iterator[int]:
        """Yield the indices of the calls that are worth splitting into start and wait.

        A call is worth it if another call is in progress at the same time, or if a long computation
        runs between its start and its wait. An index may be yielded twice.
        """
        done = 0.0
        begun: dict[int, float] = {}
        for step, cost in zip(self._steps, self._costs, strict=True):
            done += cost
            if isinstance(step, StartStep):
                if begun:
                    done += WORTHWHILE
                    yield step.index
                begun[step.index] = done
            elif isinstance(step, WaitStep) and done - begun.pop(step.index) >= WORTHWHILE:
                yield step.index

    def apply(self) -> None:
        """Reorder the operations of the block, and split its calls into start and wait.

        Long computations between a start and a wait move into functions.
        """
        if not self._split:
            return
        started: list[int] = []
        waited: list[ir.Value] = []
        for step, cost in zip(self._steps, self._costs, strict=True):
            if isinstance(step, RunStep):
                self._append_operations([self._ops[i] for i in step.indices], cost)
            elif step.index not in self._split:
                # The start step of a call that is not split is ignored.
                if isinstance(step, WaitStep):
                    self._append_operations([self._ops[step.index]], 0)
            elif isinstance(step, StartStep):
                self._start_call(step.index)
                started.append(step.index)
            else:
                self._end_group()
                behind = [self._futures[i] for i in started if i in self._futures]
                started = []
                waited = self._wait_for_call(step.index, behind, waited)
        self._end_group(self._ops[-1])
        compute_inputs_and_outputs(self._parts)
        for part in reversed(self._parts):
            if part in self._beside:
                outline_group(self._module, part, "beside")
            else:
                keep_in_place(part)

    def _append_operations(self, ops: Sequence[ir.Operation], cost: float) -> None:
        """Put operations next in the new order of the block.

        They join the group of operations since the last start or wait, which `_end_group`
        ends.

        Args:
            ops: the operations.
            cost: their estimated cost, in elementary operations.
        """
        for op in ops:
            op.move_before(self._ops[-1])
        self._group += ops
        self._group_cost += cost

    def _start_call(self, index: int) -> None:
        """Insert the start of a call next in the block, and record its future.

        ``index`` is the call's index in the block.
        """
        self._end_group()
        op = self._ops[index]
        with ir.InsertionPoint(self._ops[-1]), op.location:
            future = ir.Type.parse(callback.FUTURE)
            call = callback.build_call(symbol_attribute(op), "start", list(op.operands), [future])
        self._futures[index] = call.operation.results[0]
        self._parts.append(OperationGroup([call.operation]))

    def _wait_for_call(
        self, index: int, behind: list[ir.Value], waited: list[ir.Value]
    ) -> list[ir.Value]:
        """Replace a call by a wait for its future, next in the block.

        Args:
            index: index of the call in the block.
            behind: futures of the calls that must start before the wait.
            waited: a result of the previous wait, which must end before this wait; empty for the
                first wait.

        Returns:
            a list with one result of the wait, the next call's ``waited``.
        """
        op = self._ops[index]
        future = self._futures.pop(index)
        operands = [future, *(other for other in behind if other != future), *waited]
        with ir.InsertionPoint(self._ops[-1]), op.location:
            call = callback.build_call(
                symbol_attribute(op), "done", operands, types_of_values(op.results)
            )
        replace_operation(op, list(call.results))
        self._parts.append(OperationGroup([call.operation]))
        return [call.operation.results[0]]

    def _end_group(self, *terminator: ir.Operation) -> None:
        """End the current group: the operations since the last start or wait.

        If its cost is high and calls are in progress, `apply` outlines it to a function, and the
        futures of these calls pass through it.

        Args:
            *terminator: the block's terminator, which ends the last group; empty for other groups.
        """
        is_beside = self._futures and self._group_cost >= WORTHWHILE
        if is_beside:
            self._thread_futures()
        part = OperationGroup([*self._group, *terminator])
        if part.operations:
            self._parts.append(part)
        if is_beside:
            self._beside.append(part)
        self._group, self._group_cost = [], 0.0

    def _thread_futures(self) -> None:
        """Pass the futures of calls in progress through the current group of operations.

        The waits for these calls then depend on the group, and the group on their starts.
        """
        with ir.InsertionPoint(self._ops[-1]), self._group[0].location:
            zero = stablehlo.constant(ir.Attribute.parse(f"dense<0> : {callback.FUTURE}"))
            self._group.append(zero.owner)
            for place, future in self._futures.items():
                passed = stablehlo.or_(future, zero)
                self._group.append(passed.owner)
                self._futures[place] = passed
