"""Bellhop's dialects, one a file: operation views, builders and verifiers."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import operations
from bellhop_mlir.dialects import callback, quantum

__all__ = ["callback", "quantum", "verify"]


def verify(module: ir.Module) -> None:
    """Check a module, MLIR's own rules first and then those of our dialects.

    MLIR knows nothing of unregistered operations but their shape, so the driver runs
    this between passes.

    Raises:
        VerificationError: naming the operation and the rule that it breaks.
    """
    module.operation.verify()
    callback.verify(module)
    for op in operations(module.operation):
        if op.name.startswith("quantum."):
            quantum.verify(op)
