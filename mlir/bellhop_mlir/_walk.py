"""Traversal of modules, and small edits that several passes share."""

import re
from collections.abc import Mapping, Sequence

from bellhop_mlir._bindings import ir

_FILE_LINE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+):')


def list_operations(parent: ir.Operation) -> list[ir.Operation]:
    """Return all operations nested in ``parent`` in program order, outermost first.

    ``parent`` itself is not included. A nested module is included, but its operations are not: it
    is a separate program.
    """
    return walk_operations(parent)[1:]


def walk_operations(op: ir.Operation) -> list[ir.Operation]:
    """Return ``op`` and all nested operations in program order, outermost first.

    A nested module is included, but its operations are not, unless ``op`` is this module.
    """
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        """Append an operation to the result; skip the contents of a nested module."""
        found.append(op)
        is_nested_module = op.name == "builtin.module" and len(found) > 1
        return ir.WalkResult.SKIP if is_nested_module else ir.WalkResult.ADVANCE

    if not len(op.regions):
        return [op]
    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def find_operations(parent: ir.Operation, name: str) -> list[ir.Operation]:
    """Return the nested operations with a name, such as ``"func.call"``, in order."""
    return [op for op in list_operations(parent) if op.name == name]


def find_symbols(
    module: ir.Module | ir.Operation, kind: str | None = None
) -> dict[str, ir.Operation]:
    """Return the top-level operations of a module that define a symbol, by symbol.

    ``kind`` is the name of the operations, such as ``"sdy.mesh"``; None for operations of any name.
    """
    return {
        string_attribute(op, "sym_name"): op
        for op in (view.operation for view in module.operation.regions[0].blocks[0].operations)
        if kind in (None, op.name) and "sym_name" in op.attributes
    }


def find_functions(module: ir.Module | ir.Operation) -> dict[str, ir.Operation]:
    """Return the ``func.func`` operations of a module by symbol."""
    return find_symbols(module, "func.func")


def make_unique_symbol(module: ir.Module, stem: str) -> str:
    """Return the first unused symbol of ``stem``, ``stem_0``, ``stem_1``, ...

    Args:
        module: the module; every symbol at its top level is taken.
        stem: the preferred symbol, without ``@``.
    """
    taken = find_symbols(module)
    name, number = stem, 0
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def find_enclosing_function(op: ir.Operation) -> str:
    """Return the symbol of the ``func.func`` that contains ``op``, or that ``op`` is."""
    while op.name != "func.func":
        op = op.parent.operation
    return string_attribute(op, "sym_name")


def string_attribute(op: ir.Operation, attribute: str) -> str:
    """Return the value of a string attribute, which must exist."""
    return ir.StringAttr(op.attributes[attribute]).value


def symbol_attribute(op: ir.Operation, attribute: str = "callee") -> str:
    """Return the symbol, without ``@``, in an attribute, which must exist."""
    return ir.FlatSymbolRefAttr(op.attributes[attribute]).value


def source_line(op: ir.Operation) -> str:
    """Return the innermost ``file:line`` in an operation's location, or ``<unknown>``."""
    match = _FILE_LINE.search(str(op.location))
    return f"{match['file']}:{match['line']}" if match else "<unknown>"


def list_blocks(op: ir.Operation) -> list[ir.Block]:
    """Return the blocks of an operation and of nested operations, outermost first."""
    return [
        block for each in walk_operations(op) for region in each.regions for block in region.blocks
    ]


def replace_operands(op: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> None:
    """Replace operands of an operation and of the operations nested in it, in place.

    Args:
        op: the operation.
        values: for each value to replace, the new value; other operands stay.
    """
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
    """Set the type attribute of a ``func.func``; its block does not change."""
    type_ = ir.FunctionType.get(list(inputs), list(results))
    op.attributes["function_type"] = ir.TypeAttr.get(type_)


def types_of_values(values: Sequence[ir.Value]) -> list[ir.Type]:
    """Return the types of values."""
    return [value.type for value in values]


def find_producer(value: ir.Value) -> ir.Operation | None:
    """Return the operation that defines a value; None for block arguments."""
    owner = value.owner
    return owner if isinstance(owner, ir.Operation) else getattr(owner, "operation", None)


def constant_integer(value: ir.Value) -> int | None:
    """Return the integer in a scalar ``stablehlo.constant``; None for other values."""
    op = find_producer(value)
    if op is None or op.name != "stablehlo.constant":
        return None
    attribute = op.attributes["value"]
    is_scalar = ir.RankedTensorType(value.type).rank == 0
    if not is_scalar or not isinstance(attribute, ir.DenseIntElementsAttr):
        return None
    return int(attribute[0])


def replace_operation(op: ir.Operation, results: list[ir.Value]) -> None:
    """Erase an operation after replacing each of its results by a new value."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
