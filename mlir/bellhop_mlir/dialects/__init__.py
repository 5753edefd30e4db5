"""Bellhop's dialects, one in each file: operation views, builders and verifiers."""

from collections.abc import Callable, Mapping

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import list_operations
from bellhop_mlir.dialects import callback, quantum
from bellhop_mlir.errors import VerificationError

__all__ = ["callback", "find_attribute_types", "quantum", "verify"]


def verify(module: ir.Module) -> set[str]:
    """Verify a module by MLIR's rules, and by the rules of Bellhop's dialects.

    MLIR checks only the structure of unregistered operations, so pipelines call this function
    between passes. Operations of nested modules are checked by MLIR's rules only.

    Returns:
        the names in the module: of all operations, such as ``callback.call``, and of their
        dialects, such as ``callback``; without names that are only in nested modules. Pipelines
        compare them with ``Pass.needs``.

    Raises:
        VerificationError: for a rule of Bellhop's dialects; the message names the operation and the
            violated rule, and a note has its location.
        MLIRError: from MLIR's own verifier.
    """
    module.operation.verify()
    with module.context:
        verifiers = {
            "callback": callback.make_verifier(module),
            "quantum": quantum.verify_operation,
        }
        names: set[str] = set()
        for op in list_operations(module.operation):
            name = op.name
            names.add(name)
            verify_operation = verifiers.get(name.partition(".")[0])
            if verify_operation is not None:
                _verify_with_location(verify_operation, op)
    return _add_dialects(names)


def find_attribute_types(name: str) -> Mapping[str, str]:
    """Return the types of the attributes that an operation of Bellhop's dialects may have.

    Args:
        name: name of the operation, such as ``quantum.begin``.

    Returns:
        for each attribute's name, required or optional, its type as in ``runtime/contract.toml``.
    """
    signatures = callback.SIGNATURES if name in callback.SIGNATURES else quantum.OPERATIONS
    return signatures[name].attribute_types


def find_present_names(module: ir.Module) -> set[str]:
    """Return the names of all operations and dialects in a module.

    The names are the same as from `verify`, such as ``callback.call`` and ``callback``, but nothing
    is verified. Operations of nested modules do not count.
    """
    return _add_dialects({op.name for op in list_operations(module.operation)})


def _add_dialects(names: set[str]) -> set[str]:
    """Add to a set of operation names their dialects: ``callback`` for ``callback.call``."""
    return names | {name.partition(".")[0] for name in names}


def _verify_with_location(
    verify_operation: Callable[[ir.Operation], None], op: ir.Operation
) -> None:
    """Call ``verify_operation(op)``; add the location of ``op`` to errors as a note."""
    try:
        verify_operation(op)
    except VerificationError as error:
        error.add_note(f"at {op.location}")
        raise
