"""hoist-callbacks: hoist loop-invariant pure calls, or keep XLA from hoisting them."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from bellhop_mlir._bindings import ir, stablehlo
from bellhop_mlir._call_graph import drop_unused_functions, find_functions_containing
from bellhop_mlir._outline import inline_call
from bellhop_mlir._purity import find_impure_functions, is_pure
from bellhop_mlir._walk import (
    constant_integer,
    find_functions,
    find_operations,
    find_producer,
    list_operations,
    replace_operands,
    symbol_attribute,
    types_of_values,
    walk_operations,
)
from bellhop_mlir._zeros import build_zeros
from bellhop_mlir.dialects.callback import STAYS, CallOp
from bellhop_mlir.passes import Pass


class HoistCallbacks(Pass):
    """Hoist loop-invariant pure calls out of loops that have an iteration.

    Before::

        %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i64>, tensor<f64>
          cond { %c = stablehlo.compare LT, %i, %n ... }
          do {
            %1 = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
            ...
          }

    After::

        %c = stablehlo.compare LT, %zero, %n ...
        %1 = "stablehlo.if"(%c) ({
          %2 = "callback.call"(%y) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
          stablehlo.return %2 : tensor<f64>
        }, { ... zero ... })
        %0:2 = stablehlo.while(...) ... do { ... %1 ... }

    If the bounds are constants and there is an iteration, the call is hoisted without a
    conditional. Calls that cannot be hoisted, such as calls in a conditional of a loop, are marked
    ``bellhop.stays`` if the loop may have no iteration: otherwise XLA would hoist them, and a call
    that the program never reaches could raise.  Functions that call Python are inlined into loops
    first.

    Preconditions: regions are ``callback.accelerate``.
    """

    needs = ("callback.call", "stablehlo.while")

    def apply(self, module: ir.Module) -> bool:
        """Hoist loop-invariant pure calls, in place; return False if nothing changes."""
        loops = find_operations(module.operation, "stablehlo.while")
        changed = _inline_calling_functions(module, loops)
        if changed:
            drop_unused_functions(module)
        impure = find_impure_functions(module)
        # Inner loops come last in the list: calls hoisted out of them may leave outer loops too.
        for op in reversed(find_operations(module.operation, "stablehlo.while")):
            changed |= _HoistingLoop(op, impure).hoist()
        return changed


def _inline_calling_functions(module: ir.Module, loops: list[ir.Operation]) -> bool:
    """Inline calls in loops of functions that call Python, directly or in callees.

    Args:
        module: the module.
        loops: the ``stablehlo.while`` operations in which calls are inlined.

    Returns:
        whether a function was inlined.
    """
    by_name = find_functions(module)
    calling = find_functions_containing(module, lambda op: op.name == "callback.call")
    changed = False
    for loop in loops:
        while calls := [
            op for op in find_operations(loop, "func.call") if symbol_attribute(op) in calling
        ]:
            changed = True
            for call in calls:
                inline_call(call, by_name[symbol_attribute(call)])
    return changed


@dataclass
class _HoistingLoop:
    """A loop whose invariant pure calls are hoisted, with facts about its values.

    The pass makes an instance for each loop and calls `hoist` once.

    Attributes:
        op: the ``stablehlo.while``.
        impure: symbols of functions with side effects.
        inside: values that are defined in the loop and have not been hoisted.
        outside: arguments of the body that do not change, with their values before the loop.
        producers: loop-invariant results of operations without calls that can be hoisted, with
            these operations; they are hoisted when a hoisted call needs them.
        fixed: loop-invariant results of operations that cannot be hoisted.
    """

    op: ir.Operation
    impure: set[str]
    inside: set[ir.Value] = field(default_factory=set)
    outside: dict[ir.Value, ir.Value] = field(default_factory=dict)
    producers: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    fixed: set[ir.Value] = field(default_factory=set)

    def hoist(self) -> bool:
        """Hoist the loop's invariant pure calls, or mark them ``bellhop.stays``.

        If the loop is known to have an iteration, a call is put before the loop, else into a
        conditional before the loop, on the loop's condition for its first iteration. A call that
        cannot move is marked if the loop may have no iteration, and otherwise stays as it is.

        Returns:
            whether a call was hoisted or marked.
        """
        if not any(map(_is_pure_call, list_operations(self.op))):
            return False
        body = self.op.regions[1].blocks[0]
        *inner, end = (op.operation for op in body.operations)
        self.inside = {
            value for region in self.op.regions for value in _defined_values(region.blocks[0])
        }
        for argument, start, last in zip(
            body.arguments, self.op.operands, end.operands, strict=True
        ):
            if argument == last:
                self.outside[argument] = start
        has_iteration = _has_iteration(self.op)
        changed = False
        for op in inner:
            if not self._is_invariant(op) or not is_pure(op, self.impure):
                continue
            calls = [each for each in walk_operations(op) if _is_pure_call(each)]
            is_movable = not len(op.regions) and self.fixed.isdisjoint(op.operands)
            if not calls and is_movable:
                self.producers.update(dict.fromkeys(op.results, op))
            elif calls and is_movable and (has_iteration or self.first_condition is not None):
                self._hoist_call(op, None if has_iteration else self.first_condition)
                changed = True
            elif calls and not has_iteration:
                for call in calls:
                    call.attributes[STAYS] = ir.UnitAttr.get()
                changed = True
            else:
                # XLA may hoist these operations; they have no effects that a user could observe.
                self.fixed.update(op.results)
        return changed

    def _is_invariant(self, op: ir.Operation) -> bool:
        """Return whether an operation, with nested ones, uses only invariant values."""
        return all(
            value not in self.inside
            or value in self.outside
            or value in self.producers
            or value in self.fixed
            for each in walk_operations(op)
            for value in each.operands
        )

    @functools.cached_property
    def first_condition(self) -> ir.Value | None:
        """The loop's condition for its first iteration, a boolean value before the loop.

        The first access copies the operations of the loop's condition to before the loop. None if
        the condition has effects or calls Python: then nothing is copied.
        """
        block = self.op.regions[0].blocks[0]
        *inner, end = (op.operation for op in block.operations)
        # Functions that call Python have been inlined, so only operations need to be checked.
        if any(
            each.name.startswith("callback.") or not is_pure(each, self.impure)
            for op in inner
            for each in walk_operations(op)
        ):
            return None
        known = dict(zip(block.arguments, self.op.operands, strict=True))
        for op in inner:
            copy = op.clone(ip=ir.InsertionPoint(self.op))
            replace_operands(copy, known)
            known.update(zip(op.results, copy.results, strict=True))
        return known.get(end.operands[0], end.operands[0])

    def _hoist_call(self, op: ir.Operation, condition: ir.Value | None) -> None:
        """Move a call, and the operations that compute its operands, to before the loop.

        Args:
            op: the loop-invariant ``callback.call``.
            condition: boolean value; the call runs only if it is true, otherwise its results are
                zeros. None to run it always.
        """
        for value in op.operands:
            self._move_producer(value)
        replace_operands(op, self.outside)
        if condition is None:
            op.move_before(self.op)
            results = list(op.results)
        else:
            results = _build_guarded_call(op, condition, self.op)
        # The results are now defined outside of the loop.
        for result in results:
            self.inside.discard(result)

    def _move_producer(self, value: ir.Value) -> None:
        """Move the operation that computes a value to before the loop.

        The operations that compute its operands come first. Nothing happens if the value is
        defined outside of the loop already.
        """
        op = self.producers.pop(value, None)
        if op is None:
            return
        for operand in op.operands:
            self._move_producer(operand)
        for result in op.results:
            self.producers.pop(result, None)
            self.inside.discard(result)
        replace_operands(op, self.outside)
        op.move_before(self.op)


def _build_guarded_call(
    op: ir.Operation, condition: ir.Value, loop: ir.Operation
) -> list[ir.Value]:
    """Move a call into a conditional before a loop, and replace its results.

    Args:
        op: the call.
        condition: boolean value; the call runs only if it is true.
        loop: the loop before which the conditional is inserted.

    Returns:
        the results of the conditional: the call's results, or zeros if ``condition`` is false.
    """
    with ir.InsertionPoint(loop), op.location:
        guard = stablehlo.IfOp(types_of_values(op.results), condition).operation
        call, otherwise = (region.blocks.append() for region in guard.regions)
        results = list(guard.results)
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        with ir.InsertionPoint(call):
            end = stablehlo.return_(list(op.results))
        op.move_before(end.operation)
        with ir.InsertionPoint(otherwise):
            stablehlo.return_(list(map(build_zeros, types_of_values(results))))
    return results


def _is_pure_call(op: ir.Operation) -> bool:
    """Return whether an operation is a ``callback.call`` of a kind without side effects."""
    return op.name == "callback.call" and CallOp(op).traits.is_pure


def _defined_values(block: ir.Block) -> Iterable[ir.Value]:
    """Yield the arguments of a block and the results of its operations."""
    yield from block.arguments
    for op in block.operations:
        yield from op.operation.results


def _has_iteration(loop: ir.Operation) -> bool:
    """Return whether a loop is known to have an iteration.

    This is the case if the loop's condition is "counter less than bound", as in JAX's loops, and if
    the counter starts at a constant that is less than the constant bound.
    """
    block = loop.regions[0].blocks[0]
    *_, end = (op.operation for op in block.operations)
    compare = find_producer(end.operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return False
    left, right = compare.operands
    starts = dict(zip(block.arguments, loop.operands, strict=True))
    first, bound = constant_integer(starts.get(left, left)), constant_integer(right)
    less = "LT>" in str(compare.attributes["comparison_direction"])
    return less and first is not None and bound is not None and first < bound
