"""coalesce-progress: report several iterations of a loop in one call."""

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._walk import (
    constant_integer,
    find_operations,
    replace_operation,
    string_attribute,
    types_of_values,
)
from bellhop_mlir.dialects.callback import UNKNOWN_TOTAL, is_token
from bellhop_mlir.passes import Pass


class CoalesceProgress(Pass):
    """Report the progress of loops only in iterations that the runtime requests.

    Before::

        %0:2 = stablehlo.while(%t = %token, %v = %x) : !stablehlo.token, tensor<f64>
          cond { ... }
          do {
            %1 = stablehlo.sine %v
            %2:2 = "callback.call"(%t, %one, %total, %1) {callee = @f, kind = "progress"}
            stablehlo.return %2#0, %1
          }

    After::

        %0:3 = stablehlo.while(%t = %token, %v = %x, %count = dense<[1, 1]>)
            : !stablehlo.token, tensor<f64>, tensor<2xi64>
          cond { ... }
          do {
            %1 = stablehlo.sine %v
            %2 = stablehlo.compare GE, %count[0], %count[1]
            %3:2 = "stablehlo.if"(%2) ({
              %4:2 = "callback.call"(%t, %count[0], %total, %1) {callee = @f, kind = "progress"}
              stablehlo.return %4#0, [%one, %4#1]
            }, {
              %4 = stablehlo.add %count, dense<[1, 0]>
              stablehlo.return %t, %4
            })
            stablehlo.return %3#0, %1, %3#1
          }
        %5 = stablehlo.subtract %0#2[0], %one
        %6:2 = "callback.call"(%0#0, %5, %unknown) {callee = @f, kind = "progress"}

    ``%count`` holds the number of iterations since the last call, this one included, and the
    number at which the next call is due: one carried value costs less than two. The second operand
    of a call is the number of iterations that it reports, and the call returns the next due
    number. The call after the loop reports the remaining iterations.

    A call that is not in every iteration, such as in a conditional, stays; so do the calls of a
    loop that does not carry exactly one token.

    Preconditions: functions that call Python are inlined into loops, as hoist-callbacks does.
    """

    needs = ("callback.call", "stablehlo.while")

    def apply(self, module: ir.Module) -> bool:
        """Move progress calls into conditionals, in place; return False if none can move."""
        if not any(map(_is_progress_call, find_operations(module.operation, "callback.call"))):
            return False
        found = False
        # Coalescing replaces the loop operation.
        for loop in reversed(find_operations(module.operation, "stablehlo.while")):
            while loop is not None:
                loop = _coalesce(loop)
                found = found or loop is not None
        return found


def _is_progress_call(op: ir.Operation) -> bool:
    """Return whether an operation is a ``callback.call`` that reports one loop iteration.

    It is of kind ``progress`` and takes a token, and its operand with the number of iterations is
    the constant 1. Such calls are in the loop's body; calls with another number begin or end a
    loop.
    """
    if op.name != "callback.call" or string_attribute(op, "kind") != "progress":
        return False
    return is_token(op.operands[0].type) and constant_integer(op.operands[1]) == 1


def _coalesce(loop: ir.Operation) -> ir.Operation | None:
    """Move the first progress call in the body of a loop into a conditional.

    The call must be an operation of the body itself, not of a nested block.

    Returns:
        the loop that replaces ``loop``, and may have further calls. None if nothing changes, since
        ``loop`` has no such call or does not carry exactly one token.
    """
    tokens = [index for index, value in enumerate(loop.operands) if is_token(value.type)]
    body = [op.operation for op in loop.regions[1].blocks[0].operations]
    calls = list(filter(_is_progress_call, body))
    if not calls or len(tokens) != 1:
        return None
    return _add_count(loop, calls[0], tokens[0])


def _add_count(loop: ir.Operation, call: ir.Operation, token: int) -> ir.Operation:
    """Replace a loop by one that counts iterations and reports progress only when due.

    The iterations after the last report are reported after the loop.

    Args:
        loop: the ``stablehlo.while``, which is erased.
        call: the progress call in its body, which is put into a conditional.
        token: index of the token among the loop's operands.

    Returns:
        the new loop, whose last result is the counter: a pair of the number of iterations since the
        last call, and the number at which the next call is due.
    """
    number = ir.RankedTensorType(call.operands[1].type)
    pair = ir.RankedTensorType.get([2], number.element_type)
    with ir.InsertionPoint(loop), loop.location:
        counting = stablehlo.WhileOp(
            [*types_of_values(loop.results), pair], [*loop.operands, _build_constant(pair, [1, 1])]
        ).operation
    for old, new in zip(loop.regions, counting.regions, strict=True):
        block = old.blocks[0]
        block.append_to(new)
        count = block.add_argument(pair, loop.location)
    _call_if_due(call, count)
    with ir.InsertionPoint.after(counting), call.location:
        going = _extract_element(counting.results[-1], 0)
        done = stablehlo.subtract(going, _build_constant(number, 1))
        report = ir.Operation.create(
            "callback.call",
            results=types_of_values(call.results),
            operands=[counting.results[token], done, _build_constant(number, UNKNOWN_TOTAL)],
            attributes={name: call.attributes[name] for name in ("callee", "kind")},
        )
    results = list(counting.results)[:-1]
    results[token] = report.results[0]
    replace_operation(loop, results)
    return counting


def _call_if_due(call: ir.Operation, count: ir.Value) -> None:
    """Move a progress call into a conditional on a counter, and update the counter.

    Args:
        call: the call in the body of a loop, whose ``return`` gets the next counter as last
            operand.
        count: the counter, the last argument of the body: the number of iterations since the last
            call, counting this one, and the number at which the next call is due.
    """
    token, one, *_ = call.operands
    with ir.InsertionPoint(call), call.location:
        is_due = stablehlo.compare(
            _extract_element(count, 0),
            _extract_element(count, 1),
            stablehlo.ComparisonDirectionAttr.get("GE"),
            compare_type=stablehlo.ComparisonTypeAttr.get("SIGNED"),
        )
        guard = stablehlo.IfOp([token.type, count.type], is_due).operation
    call.results[0].replace_all_uses_with(guard.results[0])
    telling, silent = (region.blocks.append() for region in guard.regions)
    with ir.InsertionPoint(telling), call.location:
        done = _extract_element(count, 0)
        call.move_after(done.owner)
        call.operands[1] = done
        numbers = [_reshape(number, [1]) for number in (one, call.results[1])]
        stablehlo.return_([call.results[0], stablehlo.concatenate(numbers, 0)])
    with ir.InsertionPoint(silent), call.location:
        step = _build_constant(count.type, [1, 0])
        stablehlo.return_([token, stablehlo.add(count, step)])
    *_, end = (op.operation for op in guard.block.operations)
    with ir.InsertionPoint(end), end.location:
        stablehlo.return_([*end.operands, guard.results[1]])
    end.erase()


def _extract_element(pair: ir.Value, index: int) -> ir.Value:
    """Build the scalar at an index of a one-dimensional tensor."""
    return _reshape(stablehlo.slice(pair, [index], [index + 1], [1]), [])


def _reshape(value: ir.Value, shape: list[int]) -> ir.Value:
    """Build a reshape of a tensor to a shape, which is [] for a scalar."""
    element = ir.RankedTensorType(value.type).element_type
    return stablehlo.reshape(ir.RankedTensorType.get(shape, element), value)


def _build_constant(type_: ir.Type, value: int | list[int]) -> ir.Value:
    """Build a constant tensor of integers from one value, or from a list of all values."""
    return stablehlo.constant(ir.Attribute.parse(f"dense<{value}> : {type_}"))
