"""Parts of a block, which become functions of their own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import (
    enclosing_function,
    list_operations,
    make_unique_symbol,
    replace_operands,
    types_of_values,
    walk_operations,
)

# Calls a function, of its symbol, operands and types of results; returns the results.
Call = Callable[[str, list[ir.Value], list[ir.Type]], list[ir.Value]]

# What XLA is told of a call, and that it is not to inline it.
_TOLD = "mhlo.frontend_attributes"
_INLINEABLE = "inlineable"

_BLOCKS_OF = ("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if")


@dataclass
class OperationGroup:
    """Operations of one block.

    Attributes:
        operations: in order.
        inputs: what they take from outside, in order of use; the value says nothing.
        constants: what they take from outside that is constant, and the operation that makes it.
        outputs: what other parts take of it.
    """

    operations: list[ir.Operation] = field(default_factory=list)
    inputs: dict[ir.Value, None] = field(default_factory=dict)
    constants: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    outputs: dict[ir.Value, None] = field(default_factory=dict)


def find_blocks(module: ir.Module) -> Iterator[ir.Block]:
    """Yield the blocks of functions, loops and conditionals."""
    for op in list_operations(module.operation):
        if op.name in _BLOCKS_OF:
            for region in op.regions:
                yield from region.blocks


def compute_inputs_and_outputs(parts: Sequence[OperationGroup]) -> None:
    """Find out what each part takes from outside, and what of it others use.

    Args:
        parts: of one block, together all of it; none uses what a later one makes.
    """
    home: dict[ir.Value, OperationGroup] = {}
    constants: dict[ir.Value, ir.Operation] = {}
    for part in parts:
        inside: set[ir.Value] = set()
        for op in part.operations:
            for each in walk_operations(op):
                for value in each.operands:
                    if value in inside:
                        continue
                    if value in constants and home[value] is not part:
                        part.constants[value] = constants[value]
                    elif home.get(value) is not part:
                        part.inputs[value] = None
                        if value in home:
                            home[value].outputs[value] = None
                for region in each.regions:
                    for block in region.blocks:
                        inside.update(block.arguments)
                if each is not op:
                    inside.update(each.results)
            for result in op.results:
                home[result] = part
                if op.name == "stablehlo.constant":
                    constants[result] = op


def outline_part(module: ir.Module, part: OperationGroup, stem: str, **attributes: str) -> None:
    """Move a part into a function, which is not inlined, and call it where the part began.

    The later parts of the block are outlined first: what a part takes is then still what it was.

    Args:
        module: gets the function.
        part: connected with the others of its block.
        stem: what the name of the function ends with, after that of the one it comes from.
        attributes: what else XLA is told of the call.
    """
    first = part.operations[0]
    told = {_INLINEABLE: "false", **attributes}
    texts = {name: ir.StringAttr.get(value) for name, value in told.items()}

    def call(symbol: str, operands: list[ir.Value], results: list[ir.Type]) -> list[ir.Value]:
        called = func.CallOp(results, symbol, operands)
        called.attributes[_TOLD] = ir.DictAttr.get(texts)
        return list(called.results)

    with first.location:
        move_into_function(module, part, f"{enclosing_function(first)}_{stem}", first, call)


def is_outlined_call(call: ir.Operation) -> bool:
    """Tell whether a call is one of a part that became a function, which is not inlined."""
    return _TOLD in call.attributes and _INLINEABLE in ir.DictAttr(call.attributes[_TOLD])


def move_into_function(
    module: ir.Module, part: OperationGroup, name: str, place: ir.Operation, call: Call
) -> None:
    """Move a part into a function of such a name, and call that at the place of an operation."""
    inputs, outputs = list(part.inputs), list(part.outputs)
    symbol = make_unique_symbol(module, name)
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(
            symbol, (types_of_values(inputs), types_of_values(outputs)), visibility="private"
        )
    body = function.regions[0].blocks.append(*types_of_values(inputs))
    with ir.InsertionPoint(place):
        results = call(symbol, inputs, types_of_values(outputs))
    inner: dict[ir.Value, ir.Value] = dict(zip(inputs, body.arguments, strict=True))
    for old, new in zip(outputs, results, strict=True):
        old.replace_all_uses_with(new)
        inner[new] = old
    with ir.InsertionPoint(body):
        for value, constant in part.constants.items():
            inner[value] = constant.clone().results[0]
        end = func.ReturnOp(outputs)
    for op in part.operations:
        op.move_before(end)
        replace_operands(op, inner)


def keep_in_place(part: OperationGroup) -> None:
    """Let a part stay where it is, with constants of its own in place of those that move."""
    own: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(part.operations[0]):
        for value, constant in part.constants.items():
            own[value] = constant.clone().results[0]
    for op in part.operations:
        replace_operands(op, own)
