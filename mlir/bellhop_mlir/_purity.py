"""Classification of pure operations and functions, which have no side effects."""

from bellhop_mlir._bindings import ir
from bellhop_mlir._call_graph import find_functions_containing, iterate_references
from bellhop_mlir._walk import string_attribute, walk_operations
from bellhop_mlir.dialects.callback_kinds import KINDS

# Impure operations of dialects that are otherwise pure.
_IMPURE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "infeed",
        "outfeed",
        "recv",
        "reduce_scatter",
        "rng",
        "send",
    )
)
_PURE_DIALECTS = ("stablehlo.", "chlo.", "sdy.")


def find_impure_functions(module: ir.Module) -> set[str]:
    """Find the functions with side effects, whose calls must not be dropped or merged.

    Returns:
        the symbols of the functions that contain, or whose callees contain, an operation with side
        effects, such as a circuit, an ``io`` callback or a collective.
    """
    return find_functions_containing(module, lambda op: not _is_pure_itself(op))


def is_pure(op: ir.Operation, impure: set[str]) -> bool:
    """Return whether an operation has no side effects, also not in callees.

    Args:
        op: the operation; operations nested in it are checked too.
        impure: the result of `find_impure_functions` for its module.
    """
    return all(
        _is_pure_itself(each) and impure.isdisjoint(iterate_references(each))
        for each in walk_operations(op)
    )


def _is_pure_itself(op: ir.Operation) -> bool:
    """Return whether an operation has no side effects, nested ones not counted.

    Nested operations and callees are not checked: a ``func.call`` or ``callback.accelerate`` is
    pure in this sense. Operations of the quantum dialect are not, and a ``callback.call`` is pure
    if its kind is. An operation of a dialect that is neither Bellhop's nor StableHLO, CHLO or
    Shardy counts as impure.
    """
    name = op.name
    if name.startswith("quantum."):
        return False
    if name == "callback.call":
        return KINDS[string_attribute(op, "kind")].is_pure
    if name == "stablehlo.custom_call":
        return not (
            "has_side_effect" in op.attributes
            and ir.BoolAttr(op.attributes["has_side_effect"]).value
        )
    if name in ("callback.accelerate", "func.call", "func.return"):
        return True
    return name.startswith(_PURE_DIALECTS) and name not in _IMPURE
