"""Outlining operations into a region, and inlining functions into their callers."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._call_graph import drop_unused_functions, functions_here, references
from bellhop_mlir._parts import OperationGroup, is_kept_apart, move_out
from bellhop_mlir._walk import (
    blocks_in,
    functions,
    named,
    operations,
    replace,
    symbol,
    tree,
    types,
)
from bellhop_mlir.dialects import callback

FUSED = "fused__"
_NUMBER = re.compile(r"(_\d+)+$")

# Functions that are called in more places stay functions, for passes that look into those of few.
MOST_COPIES = 32


def outline(module: ir.Module, members: Sequence[ir.Operation], device: str) -> None:
    """Make operations of a block into a function of their own that runs on a device.

    Args:
        module: the module.
        members: pure operations of one block, in order; regions among them or in them are
            those of ``device``.  Nothing between them uses their results, except they.
        device: where the function runs.

    The region stands where the last of them stood.
    """
    inside = [each for op in members for each in tree(op)]
    first = next(op for op in inside if op.name == "callback.accelerate")
    name = FUSED + _NUMBER.sub("", symbol(first).partition("__")[2] or symbol(first))
    with ir.Location.fused([op.location for op in members]):
        move_to_region(module, members, device, name)
    by_name = functions(module)
    for op in inside:
        if op.name == "callback.accelerate":
            if symbol(op).startswith(FUSED):
                inline(op, by_name[symbol(op)])
            else:
                _call_instead(op)


def without_prefix(symbol: str) -> str:
    """Return what a region that ``outline`` made is called after."""
    return _NUMBER.sub("", symbol.removeprefix(FUSED))


def move_to_region(
    module: ir.Module, members: Sequence[ir.Operation], device: str, name: str
) -> None:
    """Move operations of a block as they are into a function that runs on a device.

    Args:
        module: the module.
        members: as of ``outline``, without regions among them; they may have effects.
        device: where the function runs.
        name: what it is called.
    """
    inside = [each for op in members for each in tree(op)]
    made = {result for op in inside for result in op.results}
    made |= {value for op in members for block in blocks_in(op) for value in block.arguments}
    taken = [value for op in inside for value in op.operands if value not in made]
    given = [
        result
        for op in members
        for result in op.results
        if any(not _stands_in(use.owner, members) for use in result.uses)
    ]
    # A region takes the token first, and returns the next one first.
    inputs, outputs = (
        dict.fromkeys(sorted(values, key=lambda value: not callback.is_token(value.type)))
        for values in (taken, given)
    )
    part = OperationGroup(list(members), inputs=inputs, outputs=outputs)

    def call(symbol: str, operands: list[ir.Value], results: list[ir.Type]) -> list[ir.Value]:
        return list(callback.accelerate(symbol, device, operands, results).results)

    move_out(module, part, name, members[-1], call)


def _stands_in(op: ir.Operation, members: Sequence[ir.Operation]) -> bool:
    op = op.operation
    home = members[0].block
    while op.block != home:
        if op.name == "func.func":
            return False
        op = op.block.owner.operation
    return op in members


def _call_instead(region: ir.Operation) -> None:
    with ir.InsertionPoint(region), region.location:
        call = func.CallOp(types(region.results), symbol(region), list(region.operands))
    replace(region, list(call.results))


def inline(call: ir.Operation, function: ir.Operation) -> list[ir.Operation]:
    """Put the body of a function of one block in the place of a call of it; return the body."""
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(operand)
    *body, terminator = list(block.operations)
    for op in body:
        op.operation.move_before(call)
    replace(call, list(terminator.operands))
    copy.erase()
    return [op.operation for op in body]


def inline_callers(
    module: ir.Module, is_held: Callable[[ir.Operation], bool], *, most: int = 1
) -> None:
    """Inline the functions that are called once, or ``most`` times, and hold some operations.

    JAX makes functions of the bodies of loops, which hide what stands in them.  What a pass of ours
    has moved out, so that it keeps its place, stays a function.
    """
    while True:
        by_name = functions(module)
        uses = Counter(callee for op in operations(module.operation) for callee in references(op))
        calls = [
            op
            for function in functions_here(module)
            for op in named(function, "func.call")
            if uses[symbol(op)] <= most
            and not is_kept_apart(op)
            and any(map(is_held, operations(by_name[symbol(op)])))
        ]
        if not calls:
            return
        inline(calls[0], by_name[symbol(calls[0])])
        drop_unused_functions(module)
