"""Functions of a module, and calls of them, as passes and the frontend make them."""

from collections.abc import Mapping, Sequence

from bellhop_mlir._bindings import ir


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
