"""Walking, and the few edits of a module that several passes share."""

from collections.abc import Iterator

from bellhop_mlir._bindings import ir


def operations(parent: ir.Operation) -> Iterator[ir.Operation]:
    """Yield every operation below ``parent``, outermost first, in program order.

    The operation that was yielded last may be erased.
    """
    for region in parent.regions:
        for block in region:
            for op in list(block.operations):
                yield from _with_nested(op.operation)


def _with_nested(op: ir.Operation) -> Iterator[ir.Operation]:
    # A nested module is a program of its own.
    regions = [] if op.name == "builtin.module" else op.regions
    nested = [list(block.operations) for region in regions for block in region]
    yield op
    for block in nested:
        for inner in block:
            yield from _with_nested(inner.operation)


def named(parent: ir.Operation, name: str) -> list[ir.Operation]:
    """Return every operation called ``name`` below ``parent``, in program order."""
    return [op for op in operations(parent) if op.name == name]


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the ``func.func`` operations of a module by symbol."""
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def symbol(op: ir.Operation, attribute: str = "callee") -> str:
    """Return the symbol that an attribute refers to."""
    return ir.FlatSymbolRefAttr(op.attributes[attribute]).value


def callees(function: ir.Operation) -> set[str]:
    """Return the symbols of the functions that ``function`` itself calls."""
    return {
        symbol(op)
        for op in operations(function)
        if op.name in ("func.call", "callback.accelerate")
    }


def reachable(functions_by_name: dict[str, ir.Operation], root: str) -> set[str]:
    """Return ``root`` and the functions that it calls, directly or not."""
    seen: set[str] = set()
    pending = [root]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        pending.extend(callees(functions_by_name[name]))
    return seen


def replace(op: ir.Operation, results: list[ir.Value]) -> None:
    """Put ``results`` in the place of the results of ``op`` and erase it."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def drop_unused_functions(module: ir.Module) -> None:
    """Erase private functions that nothing calls any more."""
    by_name = functions(module)
    used: set[str] = set()
    for name, op in by_name.items():
        visibility = op.attributes["sym_visibility"] if "sym_visibility" in op.attributes else None
        if visibility is None or ir.StringAttr(visibility).value == "public":
            used |= reachable(by_name, name)
    for name, op in by_name.items():
        if name not in used:
            op.erase()


def function_type(op: ir.Operation) -> ir.FunctionType:
    """Return the type of a ``func.func``."""
    return ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
