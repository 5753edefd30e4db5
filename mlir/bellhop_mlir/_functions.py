"""Functions of a module, and calls of them, as passes and the frontend make them."""

from collections.abc import Mapping, Sequence

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import types


def private_function(
    symbol: str,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Build a ``func.func`` without a body that other modules do not see."""
    return ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results))),
            **(attributes or {}),
        },
    )


def call_function(
    symbol: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> list[ir.Value]:
    """Build a ``func.call`` at the insertion point; return its results."""
    call = ir.Operation.create(
        "func.call",
        results=list(results),
        operands=list(operands),
        attributes={"callee": ir.FlatSymbolRefAttr.get(symbol), **(attributes or {})},
    )
    return list(call.results)


def narrow(function: ir.Operation, arguments: Sequence[int], results: Sequence[int]) -> None:
    """Leave a function of one block some arguments, by place, and results; others are not used."""
    block = function.regions[0].blocks[0]
    for place in reversed(range(len(block.arguments))):
        if place not in arguments:
            block.erase_argument(place)
    *_, end = block.operations
    returned = [end.operands[place] for place in results]
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=returned)
    end.operation.erase()
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(types(block.arguments), types(returned))
    )
    for name, places in (("arg_attrs", arguments), ("res_attrs", results)):
        if name in function.attributes:
            of_each = list(function.attributes[name])
            function.attributes[name] = ir.ArrayAttr.get([of_each[place] for place in places])
