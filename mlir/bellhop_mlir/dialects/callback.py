"""The callback dialect: what a program says to the world outside it.

    "callback.func"() {sym_name = "simpson", function_type = (tensor<100xf64>) -> tensor<f64>,
                       python = "module.qualname", site = "file:line", id = 3 : i64}
    %y = "callback.call"(%x) {callee = @simpson, kind = "pure"}
    %t1 = "callback.call"(%t0, %y) {callee = @log, kind = "debug"}
    %z = "callback.accelerate"(%m) {callee = @accelerate_cuda_0__expm, device = "cuda:0"}

``callback.func`` declares a Python function; ``id`` is its place in the table of the
program.  ``callback.call`` calls one; an ordered call takes a ``!stablehlo.token`` first
and returns the next one first.  ``callback.accelerate`` runs a function of this module
on a device.
"""

from collections.abc import Sequence

from bellhop_mlir._bindings import ir, register_dialect, register_operation
from bellhop_mlir._walk import functions, operations, symbol
from bellhop_mlir.errors import VerificationError

KINDS = ("pure", "io", "debug")


@register_dialect
class CallbackDialect(ir.Dialect):
    """Namespace of the operations below."""

    DIALECT_NAMESPACE = "callback"


@register_operation(CallbackDialect)
class FuncOp(ir.OpView):
    """Declares a Python function that the program calls."""

    OPERATION_NAME = "callback.func"
    _ODS_REGIONS = (0, True)

    @property
    def sym_name(self) -> str:
        """The symbol of the function in this module."""
        return ir.StringAttr(self.attributes["sym_name"]).value

    @property
    def id(self) -> int:
        """The place of the function in the program's table."""
        return ir.IntegerAttr(self.attributes["id"]).value

    @property
    def function_type(self) -> ir.FunctionType:
        """Types of arguments and results, tokens left out."""
        return ir.FunctionType(ir.TypeAttr(self.attributes["function_type"]).value)

    @property
    def module(self) -> str | None:
        """The nested module that the function runs, where it is an accelerated region."""
        return symbol(self.operation, "module") if "module" in self.attributes else None


@register_operation(CallbackDialect)
class CallOp(ir.OpView):
    """Calls a Python function."""

    OPERATION_NAME = "callback.call"
    _ODS_REGIONS = (0, True)

    @property
    def callee(self) -> str:
        """Symbol of the ``callback.func``."""
        return symbol(self.operation)

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        return ir.StringAttr(self.attributes["kind"]).value

    @property
    def is_ordered(self) -> bool:
        """Whether the call takes and returns a token."""
        return bool(len(self.operands)) and is_token(self.operands[0].type)


@register_operation(CallbackDialect)
class AccelerateOp(ir.OpView):
    """Runs a function of the module on a device."""

    OPERATION_NAME = "callback.accelerate"
    _ODS_REGIONS = (0, True)

    @property
    def callee(self) -> str:
        """Symbol of the ``func.func``."""
        return symbol(self.operation)

    @property
    def device(self) -> str:
        """The device as ``platform:id``."""
        return ir.StringAttr(self.attributes["device"]).value


def is_token(value_type: ir.Type) -> bool:
    """Tell whether a type is ``!stablehlo.token``."""
    return str(value_type) == "!stablehlo.token"


def func(
    name: str,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    *,
    python: str,
    site: str,
    id: int,
    module: str | None = None,
) -> FuncOp:
    """Build a ``callback.func`` at the insertion point of the context."""
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results))),
        "python": ir.StringAttr.get(python),
        "site": ir.StringAttr.get(site),
        "id": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), id),
    }
    if module is not None:
        attributes["module"] = ir.FlatSymbolRefAttr.get(module)
    return FuncOp(ir.Operation.create("callback.func", attributes=attributes))


def call(
    callee: str, kind: str, operands: Sequence[ir.Value], results: Sequence[ir.Type]
) -> CallOp:
    """Build a ``callback.call`` at the insertion point of the context."""
    return CallOp(
        ir.Operation.create(
            "callback.call",
            results=list(results),
            operands=list(operands),
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(callee),
                "kind": ir.StringAttr.get(kind),
            },
        )
    )


def accelerate(
    callee: str, device: str, operands: Sequence[ir.Value], results: Sequence[ir.Type]
) -> AccelerateOp:
    """Build a ``callback.accelerate`` at the insertion point of the context."""
    return AccelerateOp(
        ir.Operation.create(
            "callback.accelerate",
            results=list(results),
            operands=list(operands),
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(callee),
                "device": ir.StringAttr.get(device),
            },
        )
    )


def declarations(module: ir.Module) -> dict[str, FuncOp]:
    """Return the ``callback.func`` operations of a module by symbol."""
    found = {}
    for op in module.body.operations:
        if op.operation.name == "callback.func":
            declaration = FuncOp(op.operation)
            found[declaration.sym_name] = declaration
    return found


def verify(module: ir.Module) -> None:
    """Check every operation of this dialect in a module."""
    declared = declarations(module)
    defined = functions(module)
    for op in operations(module.operation):
        if op.name == "callback.func":
            _require(op, "sym_name", "function_type", "python", "site", "id")
        elif op.name == "callback.call":
            _require(op, "callee", "kind")
            _verify_call(CallOp(op), declared)
        elif op.name == "callback.accelerate":
            _require(op, "callee", "device")
            if symbol(op) not in defined:
                raise VerificationError(
                    f"callback.accelerate calls @{symbol(op)}, which is not defined"
                )
        elif op.name.startswith("callback."):
            raise VerificationError(f"unknown operation {op.name}")


def _require(op: ir.Operation, *attributes: str) -> None:
    for name in attributes:
        if name not in op.attributes:
            raise VerificationError(f"{op.name} lacks the attribute '{name}'")


def _verify_call(op: CallOp, declared: dict[str, FuncOp]) -> None:
    if op.kind not in KINDS:
        raise VerificationError(
            f"callback.call of @{op.callee} has kind '{op.kind}'; the kinds are {', '.join(KINDS)}"
        )
    if op.callee not in declared:
        raise VerificationError(
            f"callback.call calls @{op.callee}, which no callback.func declares"
        )
    if op.is_ordered and op.kind == "pure":
        raise VerificationError(f"callback.call of @{op.callee} is pure and takes a token")
    skipped = 1 if op.is_ordered else 0
    expected = declared[op.callee].function_type
    observed = ir.FunctionType.get(
        [value.type for value in list(op.operands)[skipped:]],
        [value.type for value in list(op.results)[skipped:]],
    )
    if expected != observed:
        raise VerificationError(
            f"callback.call of @{op.callee} has type {observed}, declared {expected}"
        )
