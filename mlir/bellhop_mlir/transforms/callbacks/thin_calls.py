"""thin-calls: make every n-th of the calls that are marked with an interval."""

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._call_graph import drop_unused_functions, find_functions_containing
from bellhop_mlir._outline import inline_call
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    list_operations,
    replace_operation,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects.callback import clear_call_interval, find_call_interval
from bellhop_mlir.passes import Pass

_COUNT = "tensor<i64>"
_CONDITIONALS = ("stablehlo.if", "stablehlo.case")


class ThinCalls(Pass):
    """Make calls with the attribute ``bellhop.every`` only every n-th time.

    The attribute is n. Of each n executions, the first makes the call.

    Before::

        %0:2 = stablehlo.while(%t = %token, %v = %x) : !stablehlo.token, tensor<f64>
          cond { ... }
          do {
            %1 = "callback.call"(%t, %v) {callee = @log, kind = "debug", bellhop.every = 100 : i64}
            stablehlo.return %1, %w
          }

    After::

        %zero = stablehlo.constant dense<0> : tensor<i64>
        %0:3 = stablehlo.while(%t = %token, %v = %x, %count = %zero)
            : !stablehlo.token, tensor<f64>, tensor<i64>
          cond { ... }
          do {
            %is_due = stablehlo.compare EQ, %count, %zero
            %1 = "stablehlo.if"(%is_due) ({
              %2 = "callback.call"(%t, %v) {callee = @log, kind = "debug"}
              stablehlo.return %2
            }, {
              stablehlo.return %t
            })
            %next = ...  // 99 after a call, otherwise %count - 1
            stablehlo.return %1, %w, %next
          }

    The count is the number of executions of the call to skip before the next call is made. Each
    enclosing loop carries the count, each enclosing conditional returns it, and the function begins
    with zero. In the condition of a loop, which returns only a boolean, the count starts at zero in
    each iteration. A conditional that contains only the call, such as the conditional of a log
    statement's ``when``, and the conditional of the count become one. Functions that hold marked
    calls are inlined.

    Preconditions: marked calls take and return a token.
    """

    needs = ("callback.call",)

    def apply(self, module: ir.Module) -> bool:
        """Put marked calls into conditionals, in place; return False if there are none."""
        if not _find_marked(module.operation):
            return False
        _inline_holders(module)
        while marked := _find_marked(module.operation):
            _count_call(marked[0])
        return True


def _find_marked(op: ir.Operation) -> list[ir.Operation]:
    """Return the calls nested in ``op`` that have an interval, ``bellhop.every``."""
    return [
        call
        for call in find_operations(op, "callback.call")
        if find_call_interval(call) is not None
    ]


def _inline_holders(module: ir.Module) -> None:
    """Inline the functions that contain calls with ``bellhop.every``, also in callees.

    The caller of a function can carry a call's count only if the call is in a block of the caller.
    """
    holders = find_functions_containing(module, lambda op: find_call_interval(op) is not None)
    functions = find_functions(module)
    is_changed = False
    while calls := [
        op
        for op in list_operations(module.operation)
        if op.name == "func.call" and symbol_attribute(op) in holders
    ]:
        is_changed = True
        inline_call(calls[0], functions[symbol_attribute(calls[0])])
    if is_changed:
        drop_unused_functions(module)


def _count_call(call: ir.Operation) -> None:
    """Put a call into a conditional that runs it in every n-th execution only.

    The number n is the call's attribute ``bellhop.every``, which is removed. Loops and conditionals
    around the call are rebuilt to carry a count: the number of executions of the call to skip
    before the next call is made.

    Args:
        call: the ``callback.call``.
    """
    every = find_call_interval(call) or 1
    clear_call_interval(call)
    # A conditional costs more than a comparison: one for both decisions, where that is possible.
    replaced = call.parent.operation if _is_alone_in_conditional(call) else call
    with ir.InsertionPoint(replaced), replaced.location:
        # The count of the block is not known before the regions around it are changed.
        start = _constant(0)
        is_due = _compare_equal(start, _constant(0))
        following = stablehlo.select(
            is_due, _constant(every - 1), stablehlo.subtract(start, _constant(1))
        )
        if replaced is not call:
            is_taken = _is_branch_taken(replaced, call.block)
            is_due = stablehlo.and_(is_taken, is_due)
            following = stablehlo.select(is_taken, following, start)
        guard = stablehlo.IfOp(types_of_values(call.results), is_due).operation
    token = call.operands[0]
    made, skipped = (region.blocks.append() for region in guard.regions)
    with ir.InsertionPoint(skipped), call.location:
        stablehlo.return_([token])
    if replaced is call:
        for old, new in zip(call.results, guard.results, strict=True):
            old.replace_all_uses_with(new)
    with ir.InsertionPoint(made), call.location:
        call.move_before(stablehlo.return_(list(call.results)))
    if replaced is not call:
        replace_operation(replaced, list(guard.results))
    _carry(guard, start, following)


def _is_alone_in_conditional(call: ir.Operation) -> bool:
    """Return whether a call is the only operation of a conditional with two branches.

    One branch then makes the call and returns its token, the other returns the call's token
    operand.
    """
    parent = call.parent.operation
    if parent.name not in _CONDITIONALS or len(parent.regions) != 2:
        return False
    other = next(region.blocks[0] for region in parent.regions if region.blocks[0] != call.block)
    returns = [list(block.operations)[-1].operation.operands for block in (call.block, other)]
    return (
        len(list(call.block.operations)) == 2
        and len(list(other.operations)) == 1
        and list(returns[0]) == list(call.results)
        and list(returns[1]) == [call.operands[0]]
    )


def _is_branch_taken(conditional: ir.Operation, block: ir.Block) -> ir.Value:
    """Build a boolean: whether a conditional of two branches takes ``block``."""
    (selector,) = conditional.operands
    is_first = conditional.regions[0].blocks[0] == block
    if conditional.name == "stablehlo.if":
        return selector if is_first else stablehlo.not_(selector)
    # An index out of range selects the last branch.
    zero = stablehlo.constant(ir.Attribute.parse(f"dense<0> : {selector.type}"))
    is_zero = _compare_equal(selector, zero)
    return is_zero if is_first else stablehlo.not_(is_zero)


def _compare_equal(left: ir.Value, right: ir.Value) -> ir.Value:
    """Build the comparison of two integer values for equality; return the boolean value."""
    return stablehlo.compare(
        left,
        right,
        stablehlo.ComparisonDirectionAttr.get("EQ"),
        compare_type=stablehlo.ComparisonTypeAttr.get("SIGNED"),
    )


def _carry(op: ir.Operation, start: ir.Value, end: ir.Value) -> None:
    """Carry a call's count through the loops and conditionals around the call.

    The count is the number of executions of the call to skip before the next call is made. It is
    carried from the call's block outwards to the function, or to the condition of a loop, where it
    starts at zero.

    Args:
        op: the conditional around the call, which `_count_call` made.
        start: placeholder for the count at the beginning of the block of ``op``, a constant, whose
            uses are replaced by the count.
        end: the count at the end of this block.
    """
    while True:
        parent = op.parent.operation
        block = op.block
        if parent.name == "stablehlo.while" and block == parent.regions[1].blocks[0]:
            op, start, end = _carry_through_loop(parent, start, end)
        elif parent.name in _CONDITIONALS:
            op, start, end = _carry_through_conditional(parent, block, start, end)
        else:
            return


def _carry_through_loop(
    loop: ir.Operation, start: ir.Value, end: ir.Value
) -> tuple[ir.Operation, ir.Value, ir.Value]:
    """Rebuild a loop around a counted call so that its last carried value is the call's count.

    The count is the number of executions of the call to skip before the next call is made.

    Args:
        loop: the ``stablehlo.while``, which is erased.
        start: placeholder for the count at the beginning of the body, a constant, whose uses are
            replaced by the count.
        end: the count at the end of the body.

    Returns:
        the new loop; the count before it, a constant zero that is the placeholder for an outer
        block's count; and the count after it.
    """
    with ir.InsertionPoint(loop), loop.location:
        first = _constant(0)
        counting = stablehlo.WhileOp(
            [*types_of_values(loop.results), first.type], [*loop.operands, first]
        ).operation
    for old, new in zip(loop.regions, counting.regions, strict=True):
        block = old.blocks[0]
        block.append_to(new)
        count = block.add_argument(first.type, loop.location)
    start.replace_all_uses_with(count)
    _return_also(counting.regions[1].blocks[0], end)
    replace_operation(loop, list(counting.results)[:-1])
    return counting, first, counting.results[len(counting.results) - 1]


def _carry_through_conditional(
    conditional: ir.Operation, block: ir.Block, start: ir.Value, end: ir.Value
) -> tuple[ir.Operation, ir.Value, ir.Value]:
    """Rebuild a conditional around a counted call so that its last result is the call's count.

    The count is the number of executions of the call to skip before the next call is made.

    Args:
        conditional: the ``stablehlo.if`` or ``stablehlo.case``, which is erased.
        block: the branch that changes the count; other branches return it unchanged.
        start: placeholder for the count at the beginning of the branch, a constant, whose uses are
            replaced by the count.
        end: the count at the end of the branch.

    Returns:
        the new conditional; the count before it, a constant zero that is the placeholder for an
        outer block's count; and the count after it.
    """
    (selector,) = conditional.operands
    held = [region.blocks[0] == block for region in conditional.regions]
    with ir.InsertionPoint(conditional), conditional.location:
        first = _constant(0)
        types = [*types_of_values(conditional.results), first.type]
        if conditional.name == "stablehlo.if":
            counting = stablehlo.IfOp(types, selector).operation
        else:
            counting = stablehlo.CaseOp(types, selector, len(held)).operation
    for old, new, holds in zip(conditional.regions, counting.regions, held, strict=True):
        branch = old.blocks[0]
        branch.append_to(new)
        _return_also(branch, end if holds else first)
    # A branch sees the values of the block around it.
    start.replace_all_uses_with(first)
    replace_operation(conditional, list(counting.results)[:-1])
    return counting, first, counting.results[len(counting.results) - 1]


def _return_also(block: ir.Block, value: ir.Value) -> None:
    """Append a value to the operands of a block's terminator, a ``stablehlo.return``."""
    *_, terminator = (op.operation for op in block.operations)
    with ir.InsertionPoint(terminator), terminator.location:
        stablehlo.return_([*terminator.operands, value])
    terminator.erase()


def _constant(value: int) -> ir.Value:
    """Build a constant of type ``tensor<i64>`` at the current insertion point."""
    return stablehlo.constant(ir.Attribute.parse(f"dense<{value}> : {_COUNT}"))
