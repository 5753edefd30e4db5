"""The callback dialect: calls of Python functions, and regions on other devices.

    "callback.func"() {sym_name = "simpson", function_type = (tensor<100xf64>) -> tensor<f64>,
                       python = "module.qualname", site = "file:line", id = 3 : i64}
    %y = "callback.call"(%x) {callee = @simpson, kind = "pure"}
    %t1 = "callback.call"(%t0, %y) {callee = @log, kind = "debug"}
    %z = "callback.accelerate"(%m) {callee = @accelerate_cuda_0__expm, device = "cuda:0"}

``callback.func`` declares a Python function; ``id`` is its index in the program's table.
``callback.call`` calls a function; an ordered call has a ``!stablehlo.token`` as first operand and
first result.  ``aliases = array<i64: argument, result, ...>`` (tokens not counted) lists arguments,
and the results that reuse their memory.  Calls of kind ``tap`` are not awaited.  A call of kind
``progress`` takes the number of iterations since the last call (-1 when the loop begins), the total
number (-1 if unknown) and operands that only order it; it returns the number of iterations before
the next call. ``callback.accelerate`` runs a function of this module on a device.

A region is a ``callback.func`` with a ``module``.  It may keep values on its device, and the
program has a handle for each; handles of the program's arguments contain their index.  ``held``
lists the indices of arguments of ``@main`` that are passed as handles; ``fetched`` and ``kept``
list the indices of results that are returned as arrays and as handles.  By default no argument is
held, and all results are fetched.  The program's caller owns results that are handles.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bellhop_mlir._bindings import TokenType, ir, register_dialect, register_operation, stablehlo
from bellhop_mlir._call_graph import build_call_graph, find_host_functions, find_reachable
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    find_symbols,
    function_type,
    string_attribute,
    symbol_attribute,
    types_of_values,
)
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.dialects._signature import Signature
from bellhop_mlir.dialects.callback_kinds import KINDS, CallbackKind
from bellhop_mlir.errors import VerificationError

FUTURE = "tensor<2xui32>"
# Type of the handle of a value on a device.
HANDLE = "tensor<2xui32>"
# Attribute of modules whose regions receive handles of the program's arguments.
TAKES_ARGUMENTS = "bellhop.takes_arguments"
# Module attribute that lists the circuits which XLA runs as part of the program: arrays of three
# strings, for profiles. It stays in saved files.
CIRCUITS = "bellhop.circuits"
# Attribute of modules with the indices of results that are handles, tokens not counted.
_HANDLE_RESULTS = "bellhop.given_results"
# Bit of a handle that marks the index of a program argument.
_IS_ARGUMENT = 1 << 63
# Total number of iterations of a loop with unknown length, for calls of kind progress.
UNKNOWN_TOTAL = -1
# Attribute of pure calls that must not be hoisted out of their loop.
STAYS = "bellhop.stays"
# Says how many times the program gets to a call for each time that the call is made.
_INTERVAL = "bellhop.every"

_FUNC = Signature(
    "callback.func",
    attributes={
        "sym_name": "string",
        "function_type": "function type",
        "python": "string",
        "site": "string",
        "id": "i64",
    },
    optional={
        "module": "symbol",
        "held": "array<i64>",
        "fetched": "array<i64>",
        "kept": "array<i64>",
    },
)
_CALL = Signature(
    "callback.call",
    ("...",),
    ("...",),
    {"callee": "symbol", "kind": "string"},
    {"aliases": "array<i64>"},
)
_ACCELERATE = Signature(
    "callback.accelerate", ("...",), ("...",), {"callee": "symbol", "device": "string"}
)
# By name.
SIGNATURES = {each.name: each for each in (_FUNC, _CALL, _ACCELERATE)}


@register_dialect
class CallbackDialect(ir.Dialect):
    """The callback dialect: namespace of operations such as ``callback.call``."""

    DIALECT_NAMESPACE = "callback"


@register_operation(CallbackDialect)
class FuncOp(ir.OpView):
    """A ``callback.func``, which declares a function that ``callback.call`` calls.

    It is a Python function or a region: a nested module that runs on another device.
    """

    OPERATION_NAME = "callback.func"
    _ODS_REGIONS = (0, True)

    @property
    def sym_name(self) -> str:
        """Symbol of the function."""
        return string_attribute(self.operation, "sym_name")

    @property
    def id(self) -> int:
        """Index of the function in the program's table of callbacks and regions."""
        return ir.IntegerAttr(self.attributes["id"]).value

    @property
    def function_type(self) -> ir.FunctionType:
        """Types of arguments and results, tokens not counted."""
        return function_type(self.operation)

    @property
    def module(self) -> str | None:
        """Symbol of the nested module that the function runs on another device, or None."""
        return symbol_attribute(self.operation, "module") if "module" in self.attributes else None

    def find_indices(self, name: str) -> list[int] | None:
        """Return which operands of a region are handles, or which results are arrays or handles.

        A region is a nested module that runs on another device; a handle identifies an array that
        stays on the device.

        Args:
            name: ``"held"`` (operands that are handles), ``"fetched"`` (results that are arrays) or
                ``"kept"`` (results that are handles).

        Returns:
            the indices; None for the default: no operand is held, all results are fetched, and none
            is kept.
        """
        if name not in self.attributes:
            return None
        return list(ir.DenseI64ArrayAttr(self.attributes[name]))


@register_operation(CallbackDialect)
class CallOp(ir.OpView):
    """A ``callback.call``, which calls the function of a ``callback.func``."""

    OPERATION_NAME = "callback.call"
    _ODS_REGIONS = (0, True)

    @property
    def callee(self) -> str:
        """Symbol of the ``callback.func``."""
        return symbol_attribute(self.operation)

    @property
    def kind(self) -> str:
        """Kind of the call, a key of ``KINDS``, such as ``pure``."""
        return string_attribute(self.operation, "kind")

    @property
    def traits(self) -> CallbackKind:
        """Properties of the call's kind."""
        return KINDS[self.kind]

    @property
    def is_ordered(self) -> bool:
        """Whether the call takes and returns a token."""
        return bool(len(self.operands)) and is_token(self.operands[0].type)

    @property
    def aliases(self) -> list[tuple[int, int]]:
        """Pairs of argument index and result index that share memory, tokens not counted."""
        if "aliases" not in self.attributes:
            return []
        flat = list(ir.DenseI64ArrayAttr(self.attributes["aliases"]))
        return list(zip(flat[::2], flat[1::2], strict=True))


@register_operation(CallbackDialect)
class AccelerateOp(ir.OpView):
    """A ``callback.accelerate``, which runs a function of the module on a device."""

    OPERATION_NAME = "callback.accelerate"
    _ODS_REGIONS = (0, True)

    @property
    def callee(self) -> str:
        """Symbol of the ``func.func``."""
        return symbol_attribute(self.operation)

    @property
    def device(self) -> str:
        """Device as ``platform:id``."""
        return string_attribute(self.operation, "device")


def is_token(value_type: ir.Type) -> bool:
    """Return whether a type is ``!stablehlo.token``."""
    return TokenType.isinstance(value_type)


def build_func(
    name: str,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    *,
    python: str,
    site: str,
    id: int,
    module: str | None = None,
) -> FuncOp:
    """Build a ``callback.func``, a declaration, at the current insertion point.

    Args:
        name: symbol of the declaration.
        inputs: types of the arguments, without tokens.
        results: types of the results, without tokens.
        python: name of the Python function, for errors and profiles.
        site: ``file:line`` of the call in the user's code.
        id: index of the function in the program's table of callbacks.
        module: symbol of the nested module that the function runs on another device; None for a
            Python function.
    """
    attributes = {
        "sym_name": name,
        "function_type": ir.FunctionType.get(list(inputs), list(results)),
        "python": python,
        "site": site,
        "id": id,
    }
    if module is not None:
        attributes["module"] = module
    return FuncOp(_FUNC.build((), **attributes))


def build_call(
    callee: str,
    kind: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    aliases: Sequence[tuple[int, int]] = (),
) -> CallOp:
    """Build a ``callback.call`` at the current insertion point.

    Args:
        callee: symbol of the ``callback.func``.
        kind: kind of the call, a key of ``KINDS``.
        operands: the operands; the token of an ordered call comes first.
        results: types of the results; the token of an ordered call comes first.
        aliases: pairs of the index of an argument and of the result that reuses its memory, tokens
            not counted.
    """
    attributes: dict[str, Any] = {"callee": callee, "kind": kind}
    if aliases:
        attributes["aliases"] = [index for pair in aliases for index in pair]
    return CallOp(_CALL.build(operands, results, **attributes))


def build_accelerate(
    callee: str, device: str, operands: Sequence[ir.Value], results: Sequence[ir.Type]
) -> AccelerateOp:
    """Build a ``callback.accelerate`` at the current insertion point.

    Args:
        callee: symbol of the ``func.func`` that runs on the device.
        device: the device, as ``platform:id``.
        operands: the operands; a token, if there is one, comes first.
        results: types of the results; a token, if there is one, comes first.
    """
    return AccelerateOp(_ACCELERATE.build(operands, results, callee=callee, device=device))


def build_argument_handle(index: int) -> ir.Value:
    """Build a constant that identifies an argument of the program: the argument's handle.

    A call that runs on another device takes the handle instead of the argument, and reads the
    argument where the program's caller has it, for instance on a GPU.

    Args:
        index: index among the arguments of ``@main``, tokens not counted.
    """
    words = divmod(_IS_ARGUMENT | index, 1 << 32)
    return stablehlo.constant(ir.Attribute.parse(f"dense<[{words[1]}, {words[0]}]> : {HANDLE}"))


def find_argument_index(handle: int) -> int | None:
    """Return the index of the program's argument that a handle identifies, or None.

    Args:
        handle: the two words of the handle as a 64-bit integer, the first in the low half.

    Returns:
        the index among the arguments of ``@main``, tokens not counted; None for the handle of an
        array that a region, code on another device, keeps there.
    """
    return handle ^ _IS_ARGUMENT if handle & _IS_ARGUMENT else None


def set_handle_results(module: ir.Module, numbers: Sequence[int]) -> None:
    """Store in a module attribute which results of a program are handles.

    A handle identifies an array that stays on another device.

    Args:
        module: the module of the program.
        numbers: indices of the results of ``@main`` that are handles, tokens not counted.
    """
    module.operation.attributes[_HANDLE_RESULTS] = ir.DenseI64ArrayAttr.get(list(numbers))


def find_handle_results(module: ir.Module) -> tuple[int, ...]:
    """Return the indices that `set_handle_results` stored; () if it was not called."""
    if _HANDLE_RESULTS not in module.operation.attributes:
        return ()
    return tuple(ir.DenseI64ArrayAttr(module.operation.attributes[_HANDLE_RESULTS]))


def set_call_interval(op: ir.Operation, every: int) -> None:
    """Let a ``callback.call`` call Python only in the first of each ``every`` executions.

    This sets the attribute ``bellhop.every``, which the pass thin-calls reads.
    """
    i64 = ir.IntegerType.get_signless(64, op.context)
    op.attributes[_INTERVAL] = ir.IntegerAttr.get(i64, every)


def find_call_interval(op: ir.Operation) -> int | None:
    """Return the attribute ``bellhop.every`` of a ``callback.call``, else None.

    `set_call_interval` sets the attribute.
    """
    is_marked = op.name == "callback.call" and _INTERVAL in op.attributes
    return ir.IntegerAttr(op.attributes[_INTERVAL]).value if is_marked else None


def clear_call_interval(op: ir.Operation) -> None:
    """Remove the attribute ``bellhop.every``, which `set_call_interval` sets."""
    del op.attributes[_INTERVAL]


def find_declarations(module: ir.Module) -> dict[str, FuncOp]:
    """Return the ``callback.func`` operations at the top level of a module, by symbol."""
    return {name: FuncOp(op) for name, op in find_symbols(module, "callback.func").items()}


def find_host_regions(module: ir.Module) -> list[AccelerateOp]:
    """Return the ``callback.accelerate`` operations that the program itself runs.

    They are in public functions or in functions that these call. A ``callback.accelerate`` runs a
    function on another device; operations that only such functions contain are left out.
    """
    return [
        AccelerateOp(op)
        for function in find_host_functions(module)
        for op in find_operations(function, "callback.accelerate")
    ]


def make_verifier(module: ir.Module) -> Callable[[ir.Operation], None]:
    """Make a function that verifies one operation of the callback dialect.

    The verifier is called once for each operation, while the module does not change: it remembers
    the operations so far, to check that symbols and ids are unique.
    """
    declared = find_declarations(module)
    defined = find_functions(module)
    seen: set[str] = set()
    owners: dict[int, str] = {}
    checked_regions: set[str] = set()

    def verify(op: ir.Operation) -> None:
        """Verify one operation, for `make_verifier`; raise `VerificationError` if invalid."""
        if op.name not in SIGNATURES:
            raise VerificationError(f"unknown operation {op.name}")
        require_attributes(op, SIGNATURES[op.name].attributes)
        if op.name == "callback.func":
            _verify_symbol(FuncOp(op), seen, defined)
            _verify_func(FuncOp(op), owners)
        elif op.name == "callback.call":
            _verify_call(CallOp(op), declared)
        else:
            _verify_accelerate(AccelerateOp(op), defined)
            callee = symbol_attribute(op)
            if callee not in checked_regions:
                _verify_not_recursive(module, callee)
                checked_regions.add(callee)

    return verify


def _verify_symbol(op: FuncOp, seen: set[str], defined: dict[str, ir.Operation]) -> None:
    """Raise `VerificationError` if ``op``'s symbol is taken; else add it to ``seen``.

    ``seen`` has the symbols of earlier declarations, ``defined`` the module's functions by symbol.
    """
    # From jaxlib 0.11 on, MLIR checks symbols of registered operations only.
    if op.sym_name in seen or op.sym_name in defined:
        raise VerificationError(f"callback.func: redefinition of symbol named '{op.sym_name}'")
    seen.add(op.sym_name)


def _verify_func(op: FuncOp, owners: dict[int, str]) -> None:
    """Raise `VerificationError` unless a declaration has a unique non-negative id.

    ``owners`` maps the ids of earlier declarations to their symbols; this declaration is added.
    """
    owner = owners.setdefault(op.id, op.sym_name)
    if op.id < 0:
        raise VerificationError(f"callback.func @{op.sym_name} has the negative id {op.id}")
    if owner != op.sym_name:
        raise VerificationError(
            f"callback.func @{op.sym_name} has the same id as @{owner}: {op.id}"
        )


def _verify_call(op: CallOp, declared: dict[str, FuncOp]) -> None:
    """Raise `VerificationError` unless a call matches its kind and its declaration.

    ``declared`` has the declarations by symbol. Types must be equal, tokens not counted; a pure
    call takes no token; a call of kind ``tap`` has no results except a token; aliases must be
    valid.
    """
    callee, kind, is_ordered = op.callee, op.kind, op.is_ordered
    if kind not in KINDS:
        raise VerificationError(
            f"callback.call of @{callee} has kind '{kind}'; the kinds are {', '.join(KINDS)}"
        )
    if callee not in declared:
        raise VerificationError(f"callback.call calls @{callee}, which no callback.func declares")
    traits = KINDS[kind]
    if is_ordered and traits.is_pure:
        raise VerificationError(f"callback.call of @{callee} is pure, but takes a token")
    if is_ordered and not (len(op.results) and is_token(op.results[0].type)):
        raise VerificationError(
            f"callback.call of @{callee} takes a token, but does not return one as its first result"
        )
    skipped = 1 if is_ordered else 0
    if traits.only_reports and not traits.is_awaited and len(op.results) > skipped:
        raise VerificationError(
            f"callback.call of @{callee} has kind '{kind}', which is not awaited, but has results"
        )
    type_ = declared[callee].function_type
    operands, results = (
        types_of_values(op.operands)[skipped:],
        types_of_values(op.results)[skipped:],
    )
    if kind == "start":
        type_ = ir.FunctionType.get(type_.inputs, [ir.Type.parse(FUTURE)])
    elif kind == "progress":
        operands = operands[:2]
    elif kind == "done":
        # Operands after the future only order the call.
        type_ = ir.FunctionType.get([ir.Type.parse(FUTURE)], type_.results)
        operands = operands[:1]
    elif kind == "release":
        type_ = ir.FunctionType.get([ir.Type.parse(HANDLE)], [])
        operands = operands[:1]
    _compare_types(op.operation, type_, ir.FunctionType.get(operands, results))
    _verify_aliases(op, declared[callee].function_type)


def _verify_aliases(op: CallOp, type_: ir.FunctionType) -> None:
    """Raise `VerificationError` unless a call's aliases are valid.

    They are valid if they name each argument and result at most once, and pair equal types of
    ``type_``, the type of the call's declaration.
    """
    if "aliases" not in op.attributes:
        return
    attribute = op.attributes["aliases"]
    where = f"callback.call of @{op.callee} has the aliases {attribute}"
    if not isinstance(attribute, ir.DenseI64ArrayAttr) or len(attribute) % 2:
        raise VerificationError(f"{where}, expected pairs of an argument and a result index")
    for argument, result in op.aliases:
        if not (0 <= argument < len(type_.inputs) and 0 <= result < len(type_.results)):
            raise VerificationError(
                f"{where}, expected indices of {len(type_.inputs)} arguments and "
                f"{len(type_.results)} results, got {argument} and {result}"
            )
        if type_.inputs[argument] != type_.results[result]:
            raise VerificationError(
                f"{where}, expected equal types, got {type_.inputs[argument]} for argument "
                f"{argument} and {type_.results[result]} for result {result}"
            )
    arguments, results = zip(*op.aliases, strict=True) if op.aliases else ((), ())
    if len(set(arguments)) < len(arguments) or len(set(results)) < len(results):
        raise VerificationError(f"{where}, expected each argument and result at most once")


def _verify_accelerate(op: AccelerateOp, defined: dict[str, ir.Operation]) -> None:
    """Raise `VerificationError` unless a ``callback.accelerate`` matches its function.

    The function must be one of ``defined``, by symbol, and have one block and the operation's
    types; the device must be written as ``platform:id``.
    """
    if op.callee not in defined:
        raise VerificationError(f"callback.accelerate calls @{op.callee}, which is not defined")
    platform, _, number = op.device.partition(":")
    if not platform or not number.isdecimal():
        raise VerificationError(
            f"callback.accelerate of @{op.callee} names the device '{op.device}', "
            "expected platform:index, as in cuda:0"
        )
    function = defined[op.callee]
    if len(list(function.regions[0])) != 1:
        raise VerificationError(
            f"callback.accelerate calls @{op.callee}, whose body is not a single block"
        )
    _compare_types(
        op.operation,
        function_type(function),
        ir.FunctionType.get(types_of_values(op.operands), types_of_values(op.results)),
    )


def _compare_types(op: ir.Operation, declared: ir.FunctionType, observed: ir.FunctionType) -> None:
    """Raise `VerificationError` if a call has other types than its callee declares."""
    if declared != observed:
        raise VerificationError(
            f"{op.name} of @{symbol_attribute(op)} has type {observed}, declared {declared}"
        )


def _verify_not_recursive(module: ir.Module, callee: str) -> None:
    """Raise `VerificationError` if a function calls itself, directly or indirectly.

    ``callee`` is the symbol of the function, which a ``callback.accelerate`` calls.
    """
    graph = build_call_graph(module)
    if callee in find_reachable(graph, graph[callee]):
        raise VerificationError(
            f"callback.accelerate calls @{callee}, which calls itself: neither a region that "
            "is inlined nor one that is compiled on its own can be recursive"
        )
