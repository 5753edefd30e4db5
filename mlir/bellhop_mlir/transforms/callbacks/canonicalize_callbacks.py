"""canonicalize-callbacks: remove dead and duplicate pure calls."""

from collections import defaultdict
from collections.abc import Hashable

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import drop_unused_functions, find_functions_containing
from bellhop_mlir._purity import find_impure_functions, is_pure
from bellhop_mlir._walk import (
    find_operations,
    find_symbols,
    list_operations,
    replace_operation,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.passes import Pass

_CALLS = ("callback.call", "callback.accelerate", "func.call")

# Regions of these operations may use outer values; XLA does not allow it for others, such as
# reduce.
_CAPTURING = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


class CanonicalizeCallbacks(Pass):
    """Merge equal pure calls, and drop dead calls and unused functions.

    Before::

        %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %2 = "callback.call"(%x) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %3 = stablehlo.add %0, %1 : tensor<f64>

    After::

        %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %1 = stablehlo.add %0, %0 : tensor<f64>

    A call inside a loop or a conditional merges with an equal earlier call outside; equal calls in
    two branches stay.  Calls of functions on other devices (``callback.accelerate``), and of
    functions that call Python, are treated like pure calls if they are pure.  Other calls stay.

    Preconditions: none.
    """

    needs = ("callback",)

    def apply(self, module: ir.Module) -> bool:
        """Merge equal pure calls, and erase dead pure operations of any kind, in place.

        Unused functions and unused declarations are erased too.

        Returns:
            False if the module is unchanged.
        """
        impure = find_impure_functions(module)
        calling = find_functions_containing(module, lambda op: op.name.startswith("callback."))
        merged = _merge_equal(
            [
                op
                for op in list_operations(module.operation)
                if op.name in _CALLS
                and (op.name != "func.call" or symbol_attribute(op) in calling)
                and is_pure(op, impure)
            ]
        )
        dropped = _drop_dead(module, impure)
        forgotten = drop_unused_functions(module) + _drop_unused_declarations(module)
        return bool(merged + dropped + forgotten)


def _merge_equal(calls: list[ir.Operation]) -> int:
    """Replace pure calls by equal earlier calls that dominate them.

    Two calls are equal if operands, result types and attributes are.

    Args:
        calls: pure calls of the module, in program order. Merged calls are erased.

    Returns:
        the number of erased calls.
    """
    merged = 0
    earlier_calls: dict[Hashable, list[ir.Operation]] = defaultdict(list)
    for op in calls:
        key = (
            op.name,
            tuple(op.operands),
            tuple(types_of_values(op.results)),
            tuple(op.attributes.items()),
        )
        earlier = next((call for call in earlier_calls[key] if _dominates(call, op)), None)
        if earlier is None:
            earlier_calls[key].append(op)
        else:
            replace_operation(op, list(earlier.results))
            merged += 1
    return merged


def _dominates(earlier: ir.Operation, op: ir.Operation) -> bool:
    """Return whether results of ``earlier`` are visible at ``op``, which comes later.

    They are if ``op`` is in the same block, or in loops or conditionals of that block, nested at
    any depth.
    """
    home = earlier.block
    while op.block != home:
        op = op.block.owner.operation
        if op.name not in _CAPTURING:
            return False
    return True


def _drop_dead(module: ir.Module, impure: set[str]) -> int:
    """Erase pure operations with unused results; return their number.

    ``impure`` has the symbols of functions with side effects.
    """
    dropped = 0
    # Uses follow definitions, so a pass from the end erases whole dead chains.
    for op in reversed(list_operations(module.operation)):
        results = list(op.results)
        if results and not any(list(result.uses) for result in results) and is_pure(op, impure):
            op.erase()
            dropped += 1
    return dropped


def _drop_unused_declarations(module: ir.Module) -> int:
    """Erase each ``callback.func`` without a ``callback.call``; return their number.

    The nested module of an erased declaration, if it has one, is erased too.
    """
    dropped = 0
    used = {symbol_attribute(op) for op in find_operations(module.operation, "callback.call")}
    for name, declaration in callback.find_declarations(module).items():
        if name not in used:
            if declaration.module is not None:
                find_symbols(module)[declaration.module].erase()
            declaration.operation.erase()
            dropped += 1
    return dropped
