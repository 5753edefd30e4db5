"""Call graph of a module: reachability, unused functions and signatures."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import (
    find_functions,
    list_operations,
    set_function_type,
    string_attribute,
    symbol_attribute,
    types_of_values,
)

CallGraph = Mapping[str, set[str]]
T = TypeVar("T")

_WITHOUT_SYMBOLS = ("quantum.", "stablehlo.")
_WITH_SYMBOLS = frozenset({"stablehlo.composite", "stablehlo.custom_call"})


def build_call_graph(module: ir.Module, *, follows_accelerate: bool = True) -> CallGraph:
    """Map the symbol of each ``func.func`` to the functions that it refers to.

    A function refers to another with a call, or with any other symbol in an attribute, such as the
    decomposition of a ``stablehlo.composite``. Functions of nested modules are not in the graph.

    Args:
        module: the module.
        follows_accelerate: whether a ``callback.accelerate``, which runs a function on another
            device, counts as a call. If False, the graph contains only calls on the program's own
            device.
    """
    by_name = find_functions(module)
    return {
        name: by_name.keys()
        & {
            callee
            for op in list_operations(function)
            if follows_accelerate or op.name != "callback.accelerate"
            for callee in iterate_references(op)
        }
        for name, function in by_name.items()
    }


def iterate_references(op: ir.Operation) -> Iterator[str]:
    """Yield the symbols that an operation refers to, such as the callee of a call.

    Further examples are the decomposition of a ``stablehlo.composite`` and the computations of a
    ``stablehlo.custom_call``. The symbol that the operation itself defines is not yielded, nor are
    symbols of nested operations.
    """
    name = op.name
    if name in ("func.call", "callback.call"):
        yield symbol_attribute(op)
        return
    # Skip the most frequent operations, as reading attributes is slow.
    if name.startswith(_WITHOUT_SYMBOLS) and name not in _WITH_SYMBOLS:
        return
    for name in op.attributes:
        try:
            attribute = op.attributes[name]
        except TypeError:
            # jaxlib has no class for arrays of complex numbers, which contain no symbols.
            continue
        yield from _iterate_symbols(attribute)


def _iterate_symbols(attribute: ir.Attribute) -> Iterator[str]:
    """Yield the symbols in an attribute, also in nested arrays and dictionaries."""
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _iterate_symbols(element)
    elif isinstance(attribute, ir.DictAttr):
        for entry in attribute:
            yield from _iterate_symbols(entry.attr)


def find_reachable(graph: Mapping[T, Iterable[T]], roots: Iterable[T]) -> set[T]:
    """Return the nodes of a graph that are reachable from ``roots``, with the roots.

    Args:
        graph: for each node its successors; every reachable node must be a key.
        roots: the nodes to start from.
    """
    seen: set[T] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(graph[name])
    return seen


def find_functions_reaching(graph: CallGraph, targets: Iterable[str]) -> set[str]:
    """Find the functions that call a function in ``targets``, directly or indirectly.

    Returns:
        the symbols of the callers, and ``targets`` themselves.
    """
    callers: dict[str, set[str]] = defaultdict(set)
    for name, callees in graph.items():
        for callee in callees:
            callers[callee].add(name)
    return find_reachable(defaultdict(set, callers), targets)


def find_functions_containing(
    module: ir.Module, is_selected: Callable[[ir.Operation], bool]
) -> set[str]:
    """Find the functions that contain, directly or in callees, a selected operation.

    Args:
        module: the module.
        is_selected: predicate that selects operations, such as ``lambda op: op.name ==
            "callback.call"``. The function of a ``callback.accelerate``, which runs on another
            device, counts as a callee.

    Returns:
        the symbols of the functions.
    """
    found = (
        name
        for name, function in find_functions(module).items()
        if any(map(is_selected, list_operations(function)))
    )
    return find_functions_reaching(build_call_graph(module), found)


def find_host_functions(module: ir.Module) -> list[ir.Operation]:
    """Return the ``func.func`` operations that run on the program's own device.

    They are the public functions, and the functions that these reach by calls. A call by
    ``callback.accelerate`` does not count, since its callee runs on another device.
    """
    here = find_reachable(
        build_call_graph(module, follows_accelerate=False), find_entry_points(module)
    )
    return [op for name, op in find_functions(module).items() if name in here]


def find_entry_points(module: ir.Module) -> list[str]:
    """Return the symbols of the module's public functions, such as ``main``."""
    return [name for name, op in find_functions(module).items() if _is_public(op)]


def _is_public(op: ir.Operation) -> bool:
    """Return whether a function's visibility is public, the default."""
    if "sym_visibility" not in op.attributes:
        return True
    return string_attribute(op, "sym_visibility") == "public"


def drop_unused_functions(module: ir.Module) -> int:
    """Erase functions that no public function reaches; return their number."""
    used = find_reachable(build_call_graph(module), find_entry_points(module))
    unused = [op for name, op in find_functions(module).items() if name not in used]
    for op in unused:
        op.erase()
    return len(unused)


def prune_signature(
    function: ir.Operation, arguments: Sequence[int], results: Sequence[int]
) -> None:
    """Remove all but the given arguments and results of a function with one block.

    Only the function changes: its block, type and ``arg_attrs`` and ``res_attrs``. The caller of
    this function must replace all calls.

    Args:
        function: the ``func.func``.
        arguments: indices of the arguments to keep; the function must not use any other argument.
        results: indices of the results to keep.
    """
    block = function.regions[0].blocks[0]
    for index in reversed(range(len(block.arguments))):
        if index not in arguments:
            block.erase_argument(index)
    *_, end = block.operations
    returned = [end.operands[index] for index in results]
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp(returned)
    end.operation.erase()
    set_function_type(function, types_of_values(block.arguments), types_of_values(returned))
    for name, indices in (("arg_attrs", arguments), ("res_attrs", results)):
        if name in function.attributes:
            attributes = list(function.attributes[name])
            function.attributes[name] = ir.ArrayAttr.get([attributes[index] for index in indices])
