"""Walking a module, and the few edits that several passes share."""

import re
from collections.abc import Mapping, Sequence

from bellhop_mlir._bindings import ir

_FILE_LINE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+):')


def list_operations(parent: ir.Operation) -> list[ir.Operation]:
    """Return every operation below ``parent``, outermost first, in program order.

    A nested module is listed, and what is in it is not: it is a program of its own.
    """
    return walk_operations(parent)[1:]


def walk_operations(op: ir.Operation) -> list[ir.Operation]:
    """Return ``op`` and every operation below it, as ``operations`` does."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        is_nested_module = op.name == "builtin.module" and len(found) > 1
        return ir.WalkResult.SKIP if is_nested_module else ir.WalkResult.ADVANCE

    if not len(op.regions):
        return [op]
    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def find_operations(parent: ir.Operation, name: str) -> list[ir.Operation]:
    """Return every operation called ``name`` below ``parent``, in program order."""
    return [op for op in list_operations(parent) if op.name == name]


def find_symbols(
    module: ir.Module | ir.Operation, kind: str | None = None
) -> dict[str, ir.Operation]:
    """Return the operations of a module's own block that have a symbol, or those of a kind."""
    return {
        string_attribute(op, "sym_name"): op
        for op in (view.operation for view in module.operation.regions[0].blocks[0].operations)
        if kind in (None, op.name) and "sym_name" in op.attributes
    }


def find_functions(module: ir.Module | ir.Operation) -> dict[str, ir.Operation]:
    """Return the ``func.func`` operations of a module by symbol."""
    return find_symbols(module, "func.func")


def make_unique_symbol(module: ir.Module, stem: str) -> str:
    """Return ``stem``, lengthened by a number where the module has that symbol already."""
    taken = find_symbols(module)
    name, number = stem, 0
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def enclosing_function(op: ir.Operation) -> str:
    """Return the symbol of the ``func.func`` that ``op`` stands in."""
    while op.name != "func.func":
        op = op.parent.operation
    return string_attribute(op, "sym_name")


def string_attribute(op: ir.Operation, attribute: str) -> str:
    """Return the text of an attribute."""
    return ir.StringAttr(op.attributes[attribute]).value


def symbol_attribute(op: ir.Operation, attribute: str = "callee") -> str:
    """Return the symbol that an attribute refers to."""
    return ir.FlatSymbolRefAttr(op.attributes[attribute]).value


def source_line(op: ir.Operation) -> str:
    """Return ``file:line`` of the innermost place that the location of ``op`` names."""
    match = _FILE_LINE.search(str(op.location))
    return f"{match['file']}:{match['line']}" if match else "<unknown>"


def list_blocks(op: ir.Operation) -> list[ir.Block]:
    """Return the blocks of an operation and of what stands in it, outermost first."""
    return [
        block for each in walk_operations(op) for region in each.regions for block in region.blocks
    ]


def replace_operands(op: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> None:
    """Let an operation, and what stands in it, use other values in the place of some."""
    for each in walk_operations(op):
        for index, value in enumerate(each.operands):
            if value in values:
                each.operands[index] = values[value]


def function_type(op: ir.Operation) -> ir.FunctionType:
    """Return the type of a ``func.func``."""
    return ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)


def set_function_type(
    op: ir.Operation, inputs: Sequence[ir.Type], results: Sequence[ir.Type]
) -> None:
    """Give a ``func.func`` whose block was changed the type that it has now."""
    type_ = ir.FunctionType.get(list(inputs), list(results))
    op.attributes["function_type"] = ir.TypeAttr.get(type_)


def types_of_values(values: Sequence[ir.Value]) -> list[ir.Type]:
    """Return the types of values."""
    return [value.type for value in values]


def find_producer(value: ir.Value) -> ir.Operation | None:
    """Return the operation whose result a value is; None for the argument of a block."""
    owner = value.owner
    return owner if isinstance(owner, ir.Operation) else getattr(owner, "operation", None)


def constant_integer(value: ir.Value) -> int | None:
    """Return the constant integer that a value is, or None."""
    op = find_producer(value)
    if op is None or op.name != "stablehlo.constant":
        return None
    attribute = op.attributes["value"]
    is_scalar = ir.RankedTensorType(value.type).rank == 0
    if not is_scalar or not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    return int(attribute[0])


def replace_operation(op: ir.Operation, results: list[ir.Value]) -> None:
    """Put ``results`` in the place of the results of ``op`` and erase it."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
