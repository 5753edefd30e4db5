"""canonicalize-callbacks: pure calls that are dead or were made already go."""

from dataclasses import dataclass
from typing import Any, ClassVar

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import named, operations, replace, symbol
from bellhop_mlir.dialects import callback


@dataclass(frozen=True)
class CanonicalizeCallbacks:
    """Drop dead pure calls and regions, merge equal ones of a block, forget unused functions.

    Before::

        %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %1 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %2 = "callback.call"(%x) {callee = @g, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %3 = stablehlo.add %0, %1 : tensor<f64>

    After::

        %0 = "callback.call"(%x) {callee = @f, kind = "pure"} : (tensor<f64>) -> tensor<f64>
        %1 = stablehlo.add %0, %0 : tensor<f64>

    Ordered calls, and calls of any kind but pure, stay as they are.
    """

    name: ClassVar[str] = "canonicalize-callbacks"

    def apply(self, module: ir.Module) -> None:
        """Change ``module`` in place."""
        _merge_equal(module)
        for op in reversed(_pure_operations(module)):
            if all(not list(result.uses) for result in op.results):
                op.erase()
        used = {symbol(op) for op in named(module.operation, "callback.call")}
        for name, declaration in callback.declarations(module).items():
            if name not in used:
                declaration.operation.erase()


def _pure_operations(module: ir.Module) -> list[ir.Operation]:
    return [
        op
        for op in operations(module.operation)
        if op.name == "callback.accelerate"
        or (op.name == "callback.call" and callback.CallOp(op).kind == "pure")
    ]


def _merge_equal(module: ir.Module) -> None:
    first: dict[Any, ir.Operation] = {}
    for op in _pure_operations(module):
        key = (op.block, op.name, symbol(op), tuple(op.operands))
        earlier = first.setdefault(key, op)
        if earlier is not op:
            replace(op, list(earlier.results))
