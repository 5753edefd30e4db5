"""Structure of modules of unknown origin: the parents and the contents of operations.

MLIR's verifier does not know the operations of Bellhop's dialects. It allows them regions,
successors and any parent, which passes, conversion and XLA do not expect.  So the structure is
checked first::

    module {
      "callback.func"() {...}        only functions and declarations at the top level
      func.func @main(...) {
        %0 = "quantum.seed"() {...}  Bellhop's operations have no regions and no successors
        return ...                   one block in each region, which does not end by such an
      }                              operation
    }
"""

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import list_operations
from bellhop_mlir.errors import VerificationError

# Dialects of Bellhop, whose operations MLIR does not know.
OWN_DIALECTS = ("callback", "quantum")

_TOP_LEVEL = ("func.func", "callback.func")
# JAX names the mesh of a program's shardings, which other operations refer to.
_TOP_LEVEL_IF_TRUSTED = (*_TOP_LEVEL, "sdy.mesh")
# Limit on the operations in a text. XLA's time grows faster than their number; programs that
# compile in an hour have some ten thousand.
_MOST_OPERATIONS = 2**17


def is_own(op: ir.Operation) -> bool:
    """Return whether an operation is in the dialect ``callback`` or ``quantum``."""
    return op.name.partition(".")[0] in OWN_DIALECTS


def verify_structure(module: ir.Module, *, any_operation: bool) -> None:
    """Check the nesting of operations in an untrusted module.

    The top level has only functions and declarations, an MLIR region has at most one block, and
    operations of Bellhop's dialects (``callback`` and ``quantum``) have no regions.

    Args:
        module: the module, verified by MLIR.
        any_operation: whether the user trusts the file, so that a mesh may be at the top level.

    Raises:
        VerificationError: for an operation other than a function or declaration at the top level,
            for an operation with successors, for a region with several blocks, for an empty block,
            for an operation of Bellhop's dialects with regions or at the end of its block, and for
            more than 131 072 operations.
    """
    top_level = _TOP_LEVEL_IF_TRUSTED if any_operation else _TOP_LEVEL
    for view in module.body.operations:
        if view.operation.name not in top_level:
            reason = (
                "which bellhop.load accepts only with trust=True"
                if view.operation.name in _TOP_LEVEL_IF_TRUSTED
                else "which saved programs do not have"
            )
            raise VerificationError(
                f"the module has an operation {view.operation.name} outside of functions, {reason}"
            )
    operations = list_operations(module.operation)
    if len(operations) > _MOST_OPERATIONS:
        raise VerificationError(
            f"the module has {len(operations)} operations, more than the limit of "
            f"{_MOST_OPERATIONS}"
        )
    for op in operations:
        _verify_operation(op)


def _verify_operation(op: ir.Operation) -> None:
    """Check that an operation has no successors, and at most one block in each region.

    Blocks must not be empty. Operations of Bellhop's dialects must have no regions, and must not
    end a block.

    Raises:
        VerificationError: if the operation breaks a rule.
    """
    name = op.name
    if len(op.successors):
        raise VerificationError(
            f"the module's {name} has successors, which saved programs do not have"
        )
    if is_own(op) and len(op.regions):
        raise VerificationError(
            f"the module's {name} has an MLIR region, which operations of Bellhop's dialects never "
            "have"
        )
    for region in op.regions:
        # Another check rejects a function without a body.
        blocks = list(region.blocks)
        if len(blocks) > 1:
            raise VerificationError(
                f"the module's {name} has an MLIR region of {len(blocks)} blocks, expected one"
            )
        for block in blocks:
            last = list(block.operations)[-1:]
            if not last or is_own(last[0].operation):
                raise VerificationError(
                    f"the module's {name} has a block that does not end by a return operation"
                )
