"""Checks the cotangents that a ``bwd`` rule returns against the callback's arguments."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.callbacks.linear_map import zero_tangent
from bellhop.compiler.target import describe


def checked_cotangents(cotangents: Any, args: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """Return the cotangents of the arguments, each of its type.

    Args:
        cotangents: what the rule returned: a tuple or list, or the bare one of a single argument.
        args: shapes and dtypes of the arguments.
        name: of the callback.

    Raises:
        TypeError: naming the callback and the argument.
    """
    what = f"the bwd rule of pure_callback '{name}'"
    if len(args) == 1 and not _is_sequence_of(args[0], cotangents):
        cotangents = (cotangents,)
    if not isinstance(cotangents, tuple | list):
        raise TypeError(
            f"{what} must return a tuple of {len(args)} cotangents, one for each argument; "
            f"it returned {describe(cotangents)}."
        )
    if len(cotangents) != len(args):
        raise TypeError(
            f"{what} returned {len(cotangents)} cotangents for {len(args)} "
            f"argument{'s' * (len(args) != 1)}. Return one for each, None for zero."
        )
    return tuple(
        _checked_cotangent(cotangent, arg, f"{what}: the cotangent of argument {index}")
        for index, (cotangent, arg) in enumerate(zip(cotangents, args, strict=True))
    )


def _is_sequence_of(arg: Any, cotangents: Any) -> bool:
    """Tell a sequence of the only cotangent from the cotangent of a sequence."""
    if not isinstance(cotangents, tuple | list):
        return False
    bare = jax.tree.structure(cotangents) == jax.tree.structure(arg)
    wrapped = len(cotangents) == 1 and (
        jax.tree.structure(cotangents[0]) == jax.tree.structure(arg)
    )
    return wrapped or not bare


def _checked_cotangent(cotangent: Any, arg: Any, what: str) -> Any:
    if cotangent is None:
        return jax.tree.map(zero_tangent, arg)
    expected, tree = jax.tree.flatten(arg)
    try:
        leaves = tree.flatten_up_to(cotangent)
    except ValueError as error:
        raise TypeError(
            f"{what} has structure {jax.tree.structure(cotangent)}, the argument has {tree}."
        ) from error
    return jax.tree.unflatten(
        tree,
        [_checked_leaf(leaf, aval, what) for leaf, aval in zip(leaves, expected, strict=True)],
    )


def _checked_leaf(leaf: Any, aval: jax.ShapeDtypeStruct, what: str) -> Any:
    if not jnp.issubdtype(aval.dtype, jnp.inexact):
        return zero_tangent(aval)
    if isinstance(leaf, bool | int | float | complex):
        leaf = jnp.asarray(leaf, aval.dtype)
    if not is_array(leaf) or shape_and_dtype(leaf) != (aval.shape, aval.dtype):
        raise TypeError(f"{what} is {describe(leaf)}, the argument is {describe(aval)}.")
    return leaf


def is_array(leaf: Any) -> bool:
    """Tell whether a leaf is an array or a number."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def shape_and_dtype(leaf: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype of an array or number."""
    return jnp.shape(leaf), jnp.result_type(leaf)
