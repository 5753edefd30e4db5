"""Checks of the values that derivative rules of a pure callback return."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.arguments.accepted_arguments import check_parameters
from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.exception_attributes import add_note
from bellhop.base.source import definition_site
from bellhop.base.types import Aval, Operand, PyTree
from bellhop.base.value_checks import flatten_sortable
from bellhop.callbacks.linear_map import zero_tangent
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.errors import format_value
from bellhop.tracing.state import NOT_TRACEABLE

# The arguments of a rule of each kind, for errors.
_PASSED = {
    "fwd": "the arguments of the callback",
    "bwd": "the residuals that fwd returned, and the cotangent of the result",
    "jvp": "the tuple of the arguments, and the tuple of their tangents",
    "transpose": "the arguments that are not linear, and the cotangent of the result",
}


def describe_rule(name: str, callback: str, function: Callable[..., Any]) -> str:
    """Return the name of a user's derivative rule in errors.

    For example ``the fwd rule of pure_callback 'f' (file.py:3)``.

    Args:
        name: kind of the rule, such as ``"fwd"``.
        callback: name of the callback in errors, such as ``"pure_callback 'f'"``.
        function: the user's rule.
    """
    return f"the {name} rule of {callback} ({definition_site(function)})"


def wrap_rule(function: Callable[..., Any], name: str, callback: str) -> Callable[..., Any]:
    """Wrap a user's derivative rule so that its errors name the rule.

    Each call checks first that the rule accepts the number of arguments.

    Args:
        function: the user's rule.
        name: kind of the rule, such as ``"fwd"``.
        callback: name of the callback in errors, such as ``"pure_callback 'f'"``.

    Raises:
        TypeError: if `function` is not callable; at a call, if its signature does not fit.
    """
    if not callable(function):
        raise TypeError(f"the {name} rule of {callback} must be a function, got {function!r}.")

    @functools.wraps(function)
    def rule(*args: Any) -> Any:
        """Check the argument count and call the user's rule; add a note to its exceptions."""
        where = describe_rule(name, callback, function)
        check_parameters(where, "the rule", function, len(args), _PASSED[name])
        try:
            return function(*args)
        except Exception as error:
            note = f"raised in {where}"
            if isinstance(error, NOT_TRACEABLE):
                note += (
                    ". A rule is traced: write it with jax.numpy, or let it call another "
                    "pure_callback"
                )
            add_note(error, note)
            raise

    return rule


def check_pair(pair: Any, label: str, second_name: str) -> tuple[Any, Any]:
    """Check that a derivative rule returned a pair, and return the pair.

    Args:
        pair: value that the rule returned.
        label: name of the rule in errors.
        second_name: name of the second value in errors, such as ``"the residuals"``; the first is
            the result.

    Raises:
        TypeError: if `pair` is not a tuple of two.
    """
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"{label} must return a tuple of two, the callback's result and {second_name}; it "
            f"returned {format_value(pair)}."
        )
    return pair


def check_result(result: PyTree, label: str, tree: PyTree, avals: Sequence[Any]) -> Any:
    """Check the callback's result as a derivative rule returned it; return the result.

    Args:
        result: value that the rule returned in place of the callback's result.
        label: name of the rule in errors.
        tree: tree structure of the callback's result.
        avals: types of its leaves.

    Raises:
        TypeError: if structure, shapes or dtypes differ from the callback's result.
    """
    _, observed = flatten_sortable(f"{label}: the result", result)
    if observed != tree:
        returned, expected = describe_structures(observed, tree)
        raise TypeError(
            f"{label} returned a result of structure {returned}, expected {expected}, the "
            "structure of the callback's result. Return the callback's result."
        )
    for leaf, aval in zip(jax.tree.leaves(result), avals, strict=True):
        if not _is_array(leaf) or not _matches_aval(leaf, aval):
            raise TypeError(
                f"{label} returned a result of type {describe_value(leaf)}, expected the "
                f"callback's result type {describe_value(aval)}. Return the callback's result."
            )
    return result


def check_tangent(tangent: PyTree, label: str, tree: PyTree, avals: Sequence[Any]) -> Any:
    """Check the tangent of the callback's result, and convert its leaves to arrays.

    Leaves for integer results are not checked.

    Args:
        tangent: value that a derivative rule returned.
        label: name of the rule in errors.
        tree: tree structure of the callback's result.
        avals: types of its leaves.

    Returns:
        the tangent in the structure of the result; ``float0`` zeros for integer leaves.

    Raises:
        TypeError: if structure, shapes or dtypes differ from the callback's result.
    """
    leaves = _check_leaves(tangent, tree, avals, f"{label} returned as tangent", "the result")
    return jax.tree.unflatten(tree, leaves)


def check_residuals(residuals: Any, label: str) -> None:
    """Check that all leaves of the residuals are arrays or numbers.

    Args:
        residuals: pytree that a ``fwd`` rule returned.
        label: name of the rule in errors.

    Raises:
        TypeError: naming the rule, if a leaf is neither an array nor a number.
    """
    for leaf in flatten_sortable(f"{label}: the residuals", residuals)[0]:
        if not is_array_like(leaf):
            raise TypeError(
                f"{label} returned residuals with {describe_value(leaf)}, expected a pytree of "
                "arrays and numbers. Let the bwd rule read static values from its closure instead."
            )


def check_cotangents(cotangents: PyTree, label: str, args: tuple[FlatTree, ...]) -> list[Any]:
    """Check the cotangents that a derivative rule returned; return their leaves.

    Args:
        cotangents: value that the rule returned: a tuple or list with one cotangent for each
            argument, or the cotangent of a single argument. None means zero.
        label: name of the rule in errors.
        args: types of the leaves of each argument.

    Returns:
        the cotangents of all argument leaves in one list; ``float0`` zeros for integers.

    Raises:
        TypeError: naming the rule, if there is not one cotangent for each argument, or a cotangent
            does not have the structure, shapes and dtypes of its argument.
    """
    flatten_sortable(f"{label}: the cotangents", cotangents)
    if len(args) == 1 and not _wraps_cotangent(args[0], cotangents):
        cotangents = (cotangents,)
    if not isinstance(cotangents, tuple | list):
        raise TypeError(
            f"{label} must return a tuple of {len(args)} cotangents, one for each argument; "
            f"it returned {describe_value(cotangents)}."
        )
    if len(cotangents) != len(args):
        raise TypeError(
            f"{label} returned {len(cotangents)} cotangents for {len(args)} "
            f"argument{'s' * (len(args) != 1)}. Return one for each, None for zero."
        )

    def checked(index: int, cotangent: Operand, arg: FlatTree) -> list[Any]:
        """Check the cotangent of one argument; return its leaves.

        Args:
            index: position of the argument, for errors.
            cotangent: the rule's cotangent; None means zero.
            arg: structure of the argument and types of its leaves.
        """
        if cotangent is None:
            return list(map(zero_tangent, arg.leaves))
        owner = f"argument {index}"
        returned_as = f"{label} returned as cotangent of {owner}"
        return _check_leaves(cotangent, arg.tree, arg.leaves, returned_as, owner)

    return [
        leaf
        for index, (cotangent, arg) in enumerate(zip(cotangents, args, strict=True))
        for leaf in checked(index, cotangent, arg)
    ]


def _wraps_cotangent(arg: FlatTree, cotangents: PyTree) -> bool:
    """Return whether a rule for one argument returned a sequence around its cotangent.

    Such a rule may return ``(cotangent,)`` or the bare cotangent, which is a tuple or list itself
    if the argument is one.

    Args:
        arg: structure of the argument and types of its leaves.
        cotangents: value that the rule returned.

    Returns:
        False for the bare cotangent: a value that is not a tuple or list, or has the structure of
        the argument. True for any other tuple or list, also of the wrong length.
    """
    if not isinstance(cotangents, tuple | list):
        return False
    bare = jax.tree.structure(cotangents) == arg.tree
    wrapped = len(cotangents) == 1 and jax.tree.structure(cotangents[0]) == arg.tree
    return wrapped or not bare


def _check_leaves(
    tangent: PyTree, tree: PyTree, avals: Sequence[Any], returned_as: str, owner: str
) -> list[Any]:
    """Check a tangent or cotangent against the type of its primal; return its leaves.

    Args:
        tangent: pytree that a derivative rule returned.
        tree: tree structure of the primal value.
        avals: types of the primal value's leaves.
        returned_as: beginning of an error message, such as ``"the bwd rule of ... returned as
            cotangent of argument 0"``.
        owner: name of the primal value in errors.

    Returns:
        one array for each leaf, converted from a Python scalar; ``float0`` zeros for integers.

    Raises:
        TypeError: if structure, shapes or dtypes differ.
    """
    try:
        leaves = tree.flatten_up_to(tangent)
    except ValueError as error:
        _, structure = flatten_sortable(f"{returned_as} a value: this value", tangent)
        returned, expected = describe_structures(structure, tree)
        raise TypeError(
            f"{returned_as} a value of structure {returned}, expected {expected}, the structure of "
            f"{owner}. Return a value of this structure."
        ) from error

    def checked(leaf: object, aval: Aval) -> Any:
        """Return a leaf as an array of the type `aval`; a ``float0`` zero for integers."""
        if not jnp.issubdtype(aval.dtype, jnp.inexact):
            return zero_tangent(aval)
        if isinstance(leaf, bool | int | float | complex):
            leaf = jnp.asarray(leaf, aval.dtype)
        if not _is_array(leaf) or not _matches_aval(leaf, aval):
            raise TypeError(
                f"{returned_as} {describe_value(leaf)}, expected {describe_value(aval)}, the type "
                f"of {owner}. Return an array of this shape and dtype."
            )
        return leaf

    return list(map(checked, leaves, avals))


def _is_array(leaf: object) -> bool:
    """Return whether a value is an array or a number."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def _matches_aval(leaf: object, aval: Aval) -> bool:
    """Return whether an array or number has the shape and dtype of a type."""
    return (jnp.shape(leaf), jnp.result_type(leaf)) == (aval.shape, aval.dtype)
