"""Checks what the derivative rules of a pure callback return, and names the rule in errors."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.arguments.flat_tree import FlatTree, describe_structure
from bellhop.base.source import definition_site
from bellhop.base.types import Aval, Operand, PyTree
from bellhop.callbacks.linear_map import zero_tangent
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.errors import format_value
from bellhop.tracing.state import NOT_TRACEABLE


def describe_rule(name: str, callback: str, function: Callable[..., Any]) -> str:
    """Return how errors name a rule: its name, its callback and its line.

    Args:
        name: of the rule, such as ``"fwd"``.
        callback: how errors name the callback, such as ``"pure_callback 'f'"``.
        function: the user's rule.
    """
    return f"the {name} rule of {callback} ({definition_site(function)})"


def wrap_rule(function: Callable[..., Any], name: str, callback: str) -> Callable[..., Any]:
    """Return a rule whose exceptions say whose it is.

    Args:
        function: the user's.
        name: of the rule.
        callback: how errors name the callback.

    Raises:
        TypeError: if `function` is not callable.
    """
    if not callable(function):
        raise TypeError(f"the {name} rule of {callback} must be a function, got {function!r}.")

    @functools.wraps(function)
    def rule(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            note = f"raised in {describe_rule(name, callback, function)}"
            if isinstance(error, NOT_TRACEABLE):
                note += (
                    ". A rule is traced: write it with jax.numpy, or let it call another "
                    "pure_callback"
                )
            error.add_note(note)
            raise

    return rule


def check_pair(pair: Any, label: str, second: str) -> tuple[Any, Any]:
    """Return the result and what else a rule returned with it.

    Raises:
        TypeError: where it returned something else.
    """
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"{label} must return its result and the {second}, a tuple of two; it returned "
            f"{format_value(pair)}."
        )
    return pair


def check_result(result: PyTree, label: str, tree: PyTree, avals: Sequence[Any]) -> Any:
    """Return the result that a rule returned.

    Raises:
        TypeError: where it is not as the callback declares.
    """
    if (observed := jax.tree.structure(result)) != tree:
        raise TypeError(
            f"{label} returned a result of structure {describe_structure(observed)}; the callback "
            f"returns {describe_structure(tree)}."
        )
    for leaf, aval in zip(jax.tree.leaves(result), avals, strict=True):
        if not _is_array(leaf) or not _matches_aval(leaf, aval):
            raise TypeError(
                f"{label} returned {describe_value(leaf)}, declared {describe_value(aval)}. "
                f"Return what the "
                "callback returns."
            )
    return result


def check_tangent(tangent: PyTree, label: str, tree: PyTree, avals: Sequence[Any]) -> Any:
    """Return the tangent of the result that a rule returned, as JAX takes it.

    Raises:
        TypeError: where structure, shape or dtype are not those of the result.
    """
    leaves = _check_leaves(tangent, tree, avals, f"{label} returned as tangent", "the result")
    return jax.tree.unflatten(tree, leaves)


def check_residuals(residuals: Any, label: str) -> None:
    """Refuse residuals that no program can keep.

    Raises:
        TypeError: naming the rule.
    """
    for leaf in jax.tree.leaves(residuals):
        if not is_array_like(leaf):
            raise TypeError(
                f"{label} returned residuals with {describe_value(leaf)}; they are arrays, "
                f"numbers, None "
                "and pytrees of these. What is known when the program is traced, the bwd rule may "
                "take from around it."
            )


def check_cotangents(cotangents: PyTree, label: str, args: tuple[FlatTree, ...]) -> list[Any]:
    """Return the leaves of the cotangents of the arguments, each of its type.

    Args:
        cotangents: what the rule returned: a tuple or list, or the bare one of a single argument.
        label: the rule, for errors.
        args: shapes and dtypes of the arguments.

    Raises:
        TypeError: naming the argument.
    """
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
        if cotangent is None:
            return list(map(zero_tangent, arg.leaves))
        of = f"argument {index}"
        what_of = f"{label} returned as cotangent of {of}"
        return _check_leaves(cotangent, arg.tree, arg.leaves, what_of, of)

    return [
        leaf
        for index, (cotangent, arg) in enumerate(zip(cotangents, args, strict=True))
        for leaf in checked(index, cotangent, arg)
    ]


def _wraps_cotangent(arg: FlatTree, cotangents: PyTree) -> bool:
    """Tell a sequence of the only cotangent from the cotangent of a sequence."""
    if not isinstance(cotangents, tuple | list):
        return False
    bare = jax.tree.structure(cotangents) == arg.tree
    wrapped = len(cotangents) == 1 and jax.tree.structure(cotangents[0]) == arg.tree
    return wrapped or not bare


def _check_leaves(
    tangent: PyTree, tree: PyTree, avals: Sequence[Any], label: str, owner: str
) -> list[Any]:
    """Return the leaves of a tangent or cotangent, of the types of what it belongs to."""
    try:
        leaves = tree.flatten_up_to(tangent)
    except ValueError as error:
        raise TypeError(
            f"{label} a value of structure {describe_structure(jax.tree.structure(tangent))}; "
            f"{owner} has {describe_structure(tree)}."
        ) from error

    def checked(leaf: object, aval: Aval) -> Any:
        if not jnp.issubdtype(aval.dtype, jnp.inexact):
            return zero_tangent(aval)
        if isinstance(leaf, bool | int | float | complex):
            leaf = jnp.asarray(leaf, aval.dtype)
        if not _is_array(leaf) or not _matches_aval(leaf, aval):
            raise TypeError(
                f"{label} {describe_value(leaf)}; {owner} is {describe_value(aval)}. Return one "
                f"of its shape and "
                "dtype."
            )
        return leaf

    return list(map(checked, leaves, avals))


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def _matches_aval(leaf: object, aval: Aval) -> bool:
    return (jnp.shape(leaf), jnp.result_type(leaf)) == (aval.shape, aval.dtype)
