"""delegate-callbacks: convert callback calls to calls of undefined functions."""

from bellhop_mlir._bindings import func, ir
from bellhop_mlir._walk import (
    find_operations,
    make_unique_symbol,
    replace_operation,
    string_attribute,
    types_of_values,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects._attributes import make_i64
from bellhop_mlir.errors import PassError
from bellhop_mlir.passes import Pass

MARK = "bellhop.callback"
KIND_MARK = "bellhop.kind"


class DelegateCallbacks(Pass):
    """Convert ``callback.call`` to calls of functions that the frontend defines.

    Before::

        "callback.func"() {sym_name = "f", id = 3 : i64, ...} : () -> ()
        %y = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>

    After::

        %y = func.call @f_delegate(%x) : (tensor<f64>) -> tensor<f64>
        func.func private @f_delegate(tensor<f64>) -> tensor<f64>
            attributes {bellhop.callback = 3 : i64, bellhop.kind = "pure"}

    Programs on GPUs and TPUs cannot call the runtime; JAX's own callbacks are used instead.  The
    frontend defines the functions when it lowers the program; the attributes identify the callback
    and its kind.

    Preconditions: regions were extracted from the module.

    Errors: calls of kind ``progress``, which only the CPU supports.
    """

    needs = ("callback",)

    def apply(self, module: ir.Module) -> None:
        """Convert callback calls to calls of declared functions, in place.

        Raises:
            PassError: for a progress bar.
        """
        declared = callback.find_declarations(module)
        delegates: dict[tuple[str, str, bool], str] = {}
        for operation in find_operations(module.operation, "callback.call"):
            op = callback.CallOp(operation)
            if op.traits.is_host_only:
                site = string_attribute(declared[op.callee], "site")
                raise PassError(
                    f"the progress bar of the loop at {site} is supported on the CPU only: another "
                    "device would wait for the host in every iteration. Show the progress of a "
                    "loop on the CPU, or leave the progress bar out."
                )
            key = op.callee, op.kind, op.is_ordered
            if key not in delegates:
                delegates[key] = _declare(module, op, declared[op.callee].id)
            with ir.InsertionPoint(operation), operation.location:
                call = func.CallOp(types_of_values(op.results), delegates[key], list(op.operands))
            replace_operation(operation, list(call.results))
        for declaration in declared.values():
            declaration.operation.erase()


def _declare(module: ir.Module, op: callback.CallOp, index: int) -> str:
    """Declare the function that replaces a callback; return its symbol.

    Args:
        module: the module, to which the declaration, without a body, is added.
        op: a call of the callback, which determines types and kind.
        index: index of the callback in the program's table.
    """
    symbol = make_unique_symbol(module, f"{op.callee}_delegate")
    marks = {MARK: make_i64(index), KIND_MARK: ir.StringAttr.get(op.kind)}
    with ir.InsertionPoint(module.body), op.operation.location:
        delegate = func.FuncOp(
            symbol,
            (types_of_values(op.operands), types_of_values(op.results)),
            visibility="private",
        )
    for name, value in marks.items():
        delegate.attributes[name] = value
    return symbol
