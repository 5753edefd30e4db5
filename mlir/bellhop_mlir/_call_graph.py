"""The functions of a module: which refers to which, what reaches what, and narrower ones."""

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


def build_call_graph(module: ir.Module, *, into_regions: bool = True) -> CallGraph:
    """Return, for each function, the functions that its operations refer to.

    Args:
        module: the module.
        into_regions: whether running a function by ``callback.accelerate`` counts; without
            it the graph stays on the program's own device.
    """
    by_name = find_functions(module)
    return {
        name: by_name.keys()
        & {
            callee
            for op in list_operations(function)
            if into_regions or op.name != "callback.accelerate"
            for callee in iterate_references(op)
        }
        for name, function in by_name.items()
    }


def iterate_references(op: ir.Operation) -> Iterator[str]:
    """Yield every symbol that an attribute of ``op`` names.

    Calls are not the only operations that do: ``stablehlo.composite`` names what it stands
    for, and ``stablehlo.custom_call`` its computations.
    """
    name = op.name
    if name in ("func.call", "callback.call"):
        yield symbol_attribute(op)
        return
    # What there is most of is not asked for its attributes, one by one.
    if name.startswith(_WITHOUT_SYMBOLS) and name not in _WITH_SYMBOLS:
        return
    for name in op.attributes:
        try:
            attribute = op.attributes[name]
        except TypeError:
            # jaxlib has no class for an array of complex numbers, which names no symbol.
            continue
        yield from _iterate_symbols(attribute)


def _iterate_symbols(attribute: ir.Attribute) -> Iterator[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _iterate_symbols(element)
    elif isinstance(attribute, ir.DictAttr):
        for entry in attribute:
            yield from _iterate_symbols(entry.attr)


def find_reachable(graph: Mapping[T, Iterable[T]], roots: Iterable[T]) -> set[T]:
    """Return ``roots`` and what they refer to in a graph, directly or not."""
    seen: set[T] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(graph[name])
    return seen


def functions_reaching(graph: CallGraph, targets: Iterable[str]) -> set[str]:
    """Return ``targets`` and the functions that refer to them, directly or not."""
    callers: dict[str, set[str]] = defaultdict(set)
    for name, callees in graph.items():
        for callee in callees:
            callers[callee].add(name)
    return find_reachable(defaultdict(set, callers), targets)


def functions_holding(module: ir.Module, holds: Callable[[ir.Operation], bool]) -> set[str]:
    """Return the functions with an operation that ``holds`` is true of, or that refer to such."""
    found = (
        name
        for name, function in find_functions(module).items()
        if any(map(holds, list_operations(function)))
    )
    return functions_reaching(build_call_graph(module), found)


def host_functions(module: ir.Module) -> list[ir.Operation]:
    """Return the functions that run on the program's own device."""
    here = find_reachable(build_call_graph(module, into_regions=False), find_entry_points(module))
    return [op for name, op in find_functions(module).items() if name in here]


def find_entry_points(module: ir.Module) -> list[str]:
    """Return the functions that can be called from outside the module."""
    return [name for name, op in find_functions(module).items() if _is_public(op)]


def _is_public(op: ir.Operation) -> bool:
    if "sym_visibility" not in op.attributes:
        return True
    return string_attribute(op, "sym_visibility") == "public"


def drop_unused_functions(module: ir.Module) -> int:
    """Erase private functions that no entry point reaches; return how many there were."""
    used = find_reachable(build_call_graph(module), find_entry_points(module))
    unused = [op for name, op in find_functions(module).items() if name not in used]
    for op in unused:
        op.erase()
    return len(unused)


def prune_signature(
    function: ir.Operation, arguments: Sequence[int], results: Sequence[int]
) -> None:
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
    set_function_type(function, types_of_values(block.arguments), types_of_values(returned))
    for name, places in (("arg_attrs", arguments), ("res_attrs", results)):
        if name in function.attributes:
            of_each = list(function.attributes[name])
            function.attributes[name] = ir.ArrayAttr.get([of_each[place] for place in places])
