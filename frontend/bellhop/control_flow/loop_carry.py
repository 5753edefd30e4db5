"""Loop-carried values in the user's form: none, one, or a tuple of several."""

from typing import Any

from bellhop.arguments.flat_tree import FlatTree
from bellhop.base.types import PyTree
from bellhop.control_flow.trace_body import check_same_structure, classical_result


def as_carry_arrays(construct: str, result: PyTree, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the result of a loop body to a tuple of arrays, and check their structure.

    Args:
        construct: name of the loop, for errors.
        result: value that the user's body returned: None, one value, or a tuple.
        carried: carried values before the loop.

    Returns:
        the next carried values, each a pytree of arrays.

    Raises:
        TypeError: if the number, structure or shapes differ from `carried`, or a value is not an
            array.
    """
    values = as_carry_values(construct, result, carried)
    arrays = tuple(classical_result(construct, "the body", value) for value in values)
    before, after = map(FlatTree.flatten, map(unwrap_carry, (carried, arrays)))
    check_same_structure(construct, "the loop carries", before, "the body returns", after)
    return arrays


def as_carry_values(construct: str, result: PyTree, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the result of a loop body to a tuple of carried values.

    Args:
        construct: name of the loop, for errors.
        result: value that the user's body returned: one value, or a tuple of several; ignored if
            the loop carries nothing.
        carried: carried values before the loop.

    Returns:
        a tuple of the same length as `carried`: ``(result,)`` for one carried value.

    Raises:
        TypeError: if several values are carried, and `result` is not a tuple or list of this
            length.
    """
    if len(carried) == 0:
        # The body may return the gate that it applies last.
        return ()
    if len(carried) > 1 and not (isinstance(result, tuple | list) and len(result) == len(carried)):
        is_sequence = isinstance(result, tuple | list)
        returned = (
            f"{len(result)} values" if is_sequence else f"one of type {type(result).__name__}"
        )
        raise TypeError(
            f"{construct}: the body must return the {len(carried)} carried values, got {returned}. "
            f"Return a tuple with {len(carried)} values."
        )
    return (result,) if len(carried) == 1 else tuple(result)


def unwrap_carry(carried: tuple[Any, ...]) -> Any:
    """Convert a tuple of carried values to the value that a loop returns to the user.

    It is None for an empty tuple, the value itself for one value, and otherwise the tuple.
    """
    if len(carried) == 0:
        return None
    return carried[0] if len(carried) == 1 else carried


def check_no_resizing(construct: str, allow_array_resizing: bool) -> None:
    """Raise `NotImplementedError` if PennyLane's option `allow_array_resizing` is set.

    Args:
        construct: name of the loop, for errors.
        allow_array_resizing: the user's value of the option.
    """
    if allow_array_resizing:
        raise NotImplementedError(
            f"{construct}: allow_array_resizing is not supported by bellhop, since arrays in XLA "
            "programs have fixed shapes. Carry an array of the largest shape and a count."
        )
