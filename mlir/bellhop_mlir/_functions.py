"""Functions of a module, as passes change them."""

from collections.abc import Sequence

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import types


def narrow(function: ir.Operation, arguments: Sequence[int], results: Sequence[int]) -> None:
    """Leave a function of one block some arguments, by place, and results; others are not used."""
    block = function.regions[0].blocks[0]
    for place in reversed(range(len(block.arguments))):
        if place not in arguments:
            block.erase_argument(place)
    *_, end = block.operations
    returned = [end.operands[place] for place in results]
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp(returned)
    end.operation.erase()
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(types(block.arguments), types(returned))
    )
    for name, places in (("arg_attrs", arguments), ("res_attrs", results)):
        if name in function.attributes:
            of_each = list(function.attributes[name])
            function.attributes[name] = ir.ArrayAttr.get([of_each[place] for place in places])
