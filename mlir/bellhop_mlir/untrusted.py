"""A module that anybody may have written: what it may hold before it is compiled.

XLA trusts its input: calls that go in circles or multiply never end, and some custom calls take an
address from the program.  So a module is parsed here, and refused where it is none that the
optimising passes could have left.
"""

import math
from collections.abc import Iterator

from bellhop_mlir import dialects
from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir._call_graph import CallGraph, call_graph, references
from bellhop_mlir._walk import functions, operations
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.lapack import verify_call
from bellhop_mlir.tokens import verify_text

# Bytes of one value, and operations after every call is inlined: no machine has room for more.
_LARGEST_VALUE = 2**48
_MOST_OPERATIONS = 2**24

_DIALECTS = ("builtin", "func", "stablehlo", "chlo", "callback", "quantum")
# What JAX says about shardings, and XLA believes; a program runs on one device.
_SHARDING = ("sdy.", "mhlo.sharding")
# What waits for somebody outside of the program, or for another device.
_REFUSED = (
    "builtin.module",
    *(
        f"stablehlo.{name}"
        for name in (
            *("infeed", "outfeed", "send", "recv", "all_gather", "all_reduce", "all_to_all"),
            *("collective_broadcast", "collective_permute", "reduce_scatter"),
            *("tuple", "get_tuple_element"),
        )
    ),
)
# Those of other kinds are made by later passes.
_KINDS = [kind.name for kind in KINDS.values() if kind.is_traced]


def parse_untrusted(text: str, *, any_operation: bool = False) -> ir.Module:
    """Return a module, if it is one that may be compiled.

    Args:
        text: of the module, after the optimising passes.
        any_operation: whether it may have operations that XLA has, and call what is registered
            with XLA, by whatever name.

    Raises:
        VerificationError: saying what it is not.
    """
    verify_text(text, may_name_attributes=False)
    try:
        with make_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            dialects.verify(module)
            for op in operations(module.operation):
                if not any_operation:
                    _verify_allowed(op)
                _verify_operation(op)
            _verify_calls(module)
    except (ir.MLIRError, TypeError, ValueError, LookupError) as error:
        # The bindings have no classes for some attributes and types.
        raise VerificationError(f"it is no module of MLIR: {error}") from error
    return module


def _verify_allowed(op: ir.Operation) -> None:
    name = op.name
    if name.partition(".")[0] not in _DIALECTS or name in _REFUSED:
        raise VerificationError(f"it has an operation {name}, which saved programs do not have")
    if name == "stablehlo.custom_call":
        verify_call(op)
    for attribute in list(op.attributes):
        if attribute.startswith(_SHARDING):
            del op.attributes[attribute]


def _verify_operation(op: ir.Operation) -> None:
    name = op.name
    for type_ in _types(op):
        _verify_type(type_)
    if name == "callback.call" and callback.CallOp(op).kind not in _KINDS:
        raise VerificationError(
            f"callback.call has the kind '{callback.CallOp(op).kind}'; the kinds of saved programs "
            f"are {', '.join(_KINDS)}"
        )
    if name == "callback.func" and callback.FuncOp(op).module is not None:
        raise VerificationError("callback.func has a module, which saved programs do not have")


def _types(op: ir.Operation) -> Iterator[ir.Type]:
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region:
            yield from (argument.type for argument in block.arguments)


def _verify_type(type_: ir.Type) -> None:
    if callback.is_token(type_):
        return
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise VerificationError(f"it has a value of type {type_}, which is no array")
    if 16 * math.prod(type_.shape) > _LARGEST_VALUE:
        raise VerificationError(f"it has a value of type {type_}, which is larger than any memory")


def _verify_calls(module: ir.Module) -> None:
    """Refuse calls that go in circles, and those that are too many when all are inlined."""
    by_name = functions(module)
    for name, function in by_name.items():
        if not len(function.regions[0].blocks):
            raise VerificationError(f"the function @{name} has no body")
    graph = call_graph(module)
    sizes: dict[str, int] = {}
    for name in _callees_first(graph):
        ops = operations(by_name[name])
        sizes[name] = len(ops) + sum(
            sizes.get(callee, 0) for op in ops for callee in references(op)
        )
        if sizes[name] > _MOST_OPERATIONS:
            raise VerificationError(f"the calls of @{name} multiply without end")


def _callees_first(graph: CallGraph) -> Iterator[str]:
    done: set[str] = set()
    under_way: set[str] = set()
    stack = list(graph)
    while stack:
        name = stack[-1]
        if name in done:
            stack.pop()
        elif name in under_way:
            stack.pop()
            under_way.discard(name)
            done.add(name)
            yield name
        else:
            under_way.add(name)
            waiting = graph[name] - done
            if waiting & under_way:
                raise VerificationError(f"the function @{name} is called by what it calls")
            stack += waiting
