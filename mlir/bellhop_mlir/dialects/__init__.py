"""Bellhop's dialects, one a file: operation views, builders and verifiers."""

from collections.abc import Callable

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import operations
from bellhop_mlir.dialects import callback, quantum
from bellhop_mlir.errors import VerificationError

__all__ = ["callback", "quantum", "verify"]


def verify(module: ir.Module) -> None:
    """Check a module, MLIR's own rules first and then those of our dialects.

    MLIR knows nothing of unregistered operations but their shape, so the driver runs
    this between passes.

    Raises:
        VerificationError: naming the operation and the rule that it breaks.
    """
    module.operation.verify()
    with module.context:
        verifiers = {"callback": callback.verifier(module), "quantum": quantum.verifier()}
        for op in operations(module.operation):
            verify_operation = verifiers.get(op.name.partition(".")[0])
            if verify_operation is not None:
                _located(verify_operation, op)


def _located(verify_operation: Callable[[ir.Operation], None], op: ir.Operation) -> None:
    try:
        verify_operation(op)
    except VerificationError as error:
        error.add_note(f"at {op.location}")
        raise
