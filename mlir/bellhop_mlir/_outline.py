"""Outlining operations into a region, and inlining functions into their callers."""

import re
from collections import Counter
from collections.abc import Sequence

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import (
    call_graph,
    drop_unused_functions,
    entry_points,
    reachable,
    references,
)
from bellhop_mlir._functions import call_function, private_function
from bellhop_mlir._walk import fresh_symbol, functions, named, operations, replace, symbol, types
from bellhop_mlir.dialects import callback

FUSED = "fused__"
_NUMBER = re.compile(r"(_\d+)+$")


def outline(module: ir.Module, members: Sequence[ir.Operation], device: str) -> None:
    """Make operations of a block into a function of their own that runs on a device.

    Args:
        module: the module.
        members: pure operations of one block, in order; regions among them or in them are
            those of ``device``.  Nothing between them uses their results, except they.
        device: where the function runs.

    The region stands where the last of them stood.
    """
    inside = [each for op in members for each in (op, *operations(op))]
    inner = {result for op in inside for result in op.results}
    inner |= {
        argument
        for op in inside
        for region in op.regions
        for block in region.blocks
        for argument in block.arguments
    }
    inputs = list(
        dict.fromkeys(value for op in inside for value in op.operands if value not in inner)
    )
    outputs = [
        result
        for op in members
        for result in op.results
        if any(not _stands_in(use.owner, members) for use in result.uses)
    ]
    first = next(op for op in inside if op.name == "callback.accelerate")
    name = FUSED + _NUMBER.sub("", symbol(first).partition("__")[2] or symbol(first))
    body = _function(module, name, inputs, outputs)
    location = ir.Location.fused([op.location for op in members])
    with ir.InsertionPoint(members[-1]), location:
        region = callback.accelerate(
            ir.StringAttr(body.owner.attributes["sym_name"]).value, device, inputs, types(outputs)
        )
    for old, new in zip(outputs, list(region.results), strict=True):
        users = {use.owner.operation for use in old.uses}
        for user in users:
            if not _stands_in(user, members):
                user.replace_uses_of_with(old, new)
    with ir.InsertionPoint(body), location:
        ret = ir.Operation.create("func.return", operands=outputs)
    for op in members:
        op.move_before(ret)
    for value, argument in zip(inputs, list(body.arguments), strict=True):
        for op in inside:
            op.replace_uses_of_with(value, argument)
        ret.replace_uses_of_with(value, argument)
    by_name = functions(module)
    for op in inside:
        if op.name == "callback.accelerate":
            if symbol(op).startswith(FUSED):
                inline(op, by_name[symbol(op)])
            else:
                _call_instead(op)


def _function(
    module: ir.Module, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> ir.Block:
    unknown = ir.Location.unknown()
    with ir.InsertionPoint(module.body), unknown:
        function = private_function(fresh_symbol(module, name), types(inputs), types(outputs))
    return function.regions[0].blocks.append(*types(inputs), arg_locs=[unknown] * len(inputs))


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
        results = call_function(symbol(region), list(region.operands), types(region.results))
    replace(region, results)


def inline(call: ir.Operation, function: ir.Operation) -> None:
    """Put the body of a function of one block in the place of a call of it."""
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(operand)
    *body, terminator = list(block.operations)
    for op in body:
        op.operation.move_before(call)
    replace(call, list(terminator.operands))
    copy.erase()


def inline_callers(module: ir.Module, holding: str, *, most: int = 1) -> None:
    """Inline the functions that are called once, or ``most`` times, and hold operations of a name.

    JAX makes functions of the bodies of loops, which hide what stands in them.
    """
    while True:
        by_name = functions(module)
        here = reachable(call_graph(module, into_regions=False), entry_points(module))
        uses = Counter(callee for op in operations(module.operation) for callee in references(op))
        calls = [
            op
            for name in by_name
            if name in here
            for op in named(by_name[name], "func.call")
            if uses[symbol(op)] <= most and named(by_name[symbol(op)], holding)
        ]
        if not calls:
            return
        inline(calls[0], by_name[symbol(calls[0])])
        drop_unused_functions(module)
