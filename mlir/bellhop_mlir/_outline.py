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
    """Move operations of a block into one function that runs on a device.

    The region replaces the last of the operations.

    Args:
        module: the module.
        members: pure operations of one block, in order; regions among them or nested in them must
            be on ``device``. Only members use their results before the last member.
        device: device of the region.
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


def remove_prefix(symbol: str) -> str:
    """Return the base name of a region from ``outline_region``."""
    return _NUMBER.sub("", symbol.removeprefix(FUSED))


def move_to_region(
    module: ir.Module, members: Sequence[ir.Operation], device: str, name: str
) -> None:
    """Move operations of a block into a function that runs on a device.

    Args:
        module: the module.
        members: operations as for ``outline_region``, without regions; they may have effects.
        device: device of the region.
        name: name of the function.
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
        return list(callback.build_accelerate(symbol, device, operands, results).results)

    move_into_function(module, group, name, members[-1], call)


def _is_inside(op: ir.Operation, members: Sequence[ir.Operation]) -> bool:
    """Return whether an operation is one of `members` or nested in them."""
    op = op.operation
    home = members[0].block
    while op.block != home:
        if op.name == "func.func":
            return False
        op = op.block.owner.operation
    return op in members


def _replace_by_call(region: ir.Operation) -> None:
    """Replace a ``callback.accelerate`` by a call of its function."""
    with ir.InsertionPoint(region), region.location:
        call = func.CallOp(
            types_of_values(region.results), symbol_attribute(region), list(region.operands)
        )
    replace_operation(region, list(call.results))


def inline_call(call: ir.Operation, function: ir.Operation) -> list[ir.Operation]:
    """Replace a call by the body of a function with one block; return the body."""
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


def inline_callers(
    module: ir.Module, is_held: Callable[[ir.Operation], bool], *, most: int = 1
) -> None:
    """Inline functions with few call sites that contain selected operations.

    JAX creates functions for loop bodies, which hide their operations. Functions that Bellhop's
    passes outlined are not inlined.

    Args:
        module: the module.
        is_held: selects operations.
        most: maximum number of call sites of an inlined function.
    """
    while True:
        by_name = find_functions(module)
        uses = Counter(
            callee for op in list_operations(module.operation) for callee in iterate_references(op)
        )
        calls = [
            op
            for function in find_host_functions(module)
            for op in find_operations(function, "func.call")
            if uses[symbol_attribute(op)] <= most
            and not is_outlined_call(op)
            and any(map(is_held, list_operations(by_name[symbol_attribute(op)])))
        ]
        if not calls:
            return
        inline_call(calls[0], by_name[symbol_attribute(calls[0])])
        drop_unused_functions(module)
