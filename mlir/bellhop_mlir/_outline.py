"""Outlining of operations into regions, and inlining of functions."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._block_partition import OperationGroup, is_outlined_call, move_into_function
from bellhop_mlir._call_graph import drop_unused_functions, find_host_functions, iterate_references
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    list_blocks,
    list_operations,
    replace_operation,
    symbol_attribute,
    types_of_values,
    walk_operations,
)
from bellhop_mlir.dialects import callback

FUSED = "fused__"
_NUMBER = re.compile(r"(_\d+)+$")

# Functions with more call sites than this number are not inlined.
MOST_COPIES = 32


def outline_region(module: ir.Module, members: Sequence[ir.Operation], device: str) -> None:
    """Merge operations of a block into one function that runs on another device.

    At least one of the operations is a region: a ``callback.accelerate``, which runs a function on
    the device. The operations move into a new function ``@fused__<name of the first region>``, and
    a ``callback.accelerate`` of this function replaces the last of them. In the function, a region
    becomes a ``func.call`` of its function, or is inlined if its function comes from an earlier
    merge.

    Args:
        module: the module.
        members: pure operations of one block in program order, with at least one
            ``callback.accelerate`` among them or nested in them, all on ``device``. No other
            operation before the last member may use their results.
        device: device of the regions, as ``platform:id``.
    """
    inside = [each for op in members for each in walk_operations(op)]
    first = next(op for op in inside if op.name == "callback.accelerate")
    name = FUSED + _NUMBER.sub(
        "", symbol_attribute(first).partition("__")[2] or symbol_attribute(first)
    )
    with ir.Location.fused([op.location for op in members]):
        move_to_region(module, members, device, name)
    by_name = find_functions(module)
    for op in inside:
        if op.name == "callback.accelerate":
            if symbol_attribute(op).startswith(FUSED):
                inline_call(op, by_name[symbol_attribute(op)])
            else:
                _replace_by_call(op)


def strip_fused_prefix(symbol: str) -> str:
    """Return a symbol without the prefix ``fused__`` and the final number.

    ``fused__expm_2``, a function that `outline_region` makes, gives ``expm``.
    """
    return _NUMBER.sub("", symbol.removeprefix(FUSED))


def move_to_region(
    module: ir.Module, members: Sequence[ir.Operation], device: str, name: str
) -> None:
    """Move operations of a block into a new function that runs on a device.

    A ``callback.accelerate`` in the place of the last operation calls the function. A token, if
    there is one, comes first among its operands and results, as in every ``callback.accelerate``.

    Args:
        module: the module.
        members: operations of one block in program order; they may have effects. No other operation
            before the last member may use their results. A ``callback.accelerate`` among them stays
            as it is in the new function; `outline_region` replaces it by a call.
        device: device on which the function runs, as ``platform:id``.
        name: symbol of the function, which gets a number if the module has the symbol already.
    """
    inside = [each for op in members for each in walk_operations(op)]
    defined = {result for op in inside for result in op.results}
    defined |= {value for op in members for block in list_blocks(op) for value in block.arguments}
    used = [value for op in inside for value in op.operands if value not in defined]
    returned = [
        result
        for op in members
        for result in op.results
        if any(not _is_inside(use.owner, members) for use in result.uses)
    ]
    # Tokens come first among operands and results.
    inputs, outputs = (
        dict.fromkeys(sorted(values, key=lambda value: not callback.is_token(value.type)))
        for values in (used, returned)
    )
    group = OperationGroup(list(members), inputs=inputs, outputs=outputs)

    def call(symbol: str, operands: list[ir.Value], results: list[ir.Type]) -> list[ir.Value]:
        """Emit a ``callback.accelerate``, which runs a function on the device."""
        return list(callback.build_accelerate(symbol, device, operands, results).results)

    move_into_function(module, group, name, members[-1], call)


def _is_inside(op: ir.Operation, members: Sequence[ir.Operation]) -> bool:
    """Return whether an operation is one of `members` or nested in one of them.

    Args:
        op: the operation, in the same function as the members or nested deeper.
        members: operations of one block.
    """
    op = op.operation
    home = members[0].block
    while op.block != home:
        if op.name == "func.func":
            return False
        op = op.block.owner.operation
    return op in members


def _replace_by_call(region: ir.Operation) -> None:
    """Replace a ``callback.accelerate`` by a ``func.call`` of the same function.

    The function then runs on the device of the code that contains the call.
    """
    with ir.InsertionPoint(region), region.location:
        call = func.CallOp(
            types_of_values(region.results), symbol_attribute(region), list(region.operands)
        )
    replace_operation(region, list(call.results))


def inline_call(call: ir.Operation, function: ir.Operation) -> list[ir.Operation]:
    """Replace a call by a copy of the body of the called function.

    Args:
        call: a ``func.call`` or ``callback.accelerate``, which is erased.
        function: the called ``func.func``, which must have one block. It does not change.

    Returns:
        the copied operations, in the block of the call, without the function's ``return``.
    """
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(operand)
    *body, terminator = list(block.operations)
    for op in body:
        op.operation.move_before(call)
    replace_operation(call, list(terminator.operands))
    copy.erase()
    return [op.operation for op in body]


def inline_containing_functions(
    module: ir.Module, is_selected: Callable[[ir.Operation], bool], *, max_uses: int = 1
) -> bool:
    """Inline functions that contain selected operations and have few call sites.

    JAX creates functions for loop bodies, which hide their operations from passes over one block.
    Functions that `outline_group` made are not inlined. Only calls on the program's own device are
    considered. This repeats until no such call is left, so that callers of inlined functions are
    inlined too. Functions without callers are dropped from the module.

    Args:
        module: the module, which is changed in place.
        is_selected: predicate that selects operations, such as ``callback.accelerate``. A function
            is inlined if the predicate holds for an operation in the function itself.
        max_uses: maximum number of operations in the module that refer to an inlined function.

    Returns:
        whether a function was inlined.
    """
    has_inlined = False
    while True:
        by_name = find_functions(module)
        uses = Counter(
            callee for op in list_operations(module.operation) for callee in iterate_references(op)
        )
        calls = [
            op
            for function in find_host_functions(module)
            for op in find_operations(function, "func.call")
            if uses[symbol_attribute(op)] <= max_uses
            and not is_outlined_call(op)
            and any(map(is_selected, list_operations(by_name[symbol_attribute(op)])))
        ]
        if not calls:
            return has_inlined
        has_inlined = True
        inline_call(calls[0], by_name[symbol_attribute(calls[0])])
        drop_unused_functions(module)
