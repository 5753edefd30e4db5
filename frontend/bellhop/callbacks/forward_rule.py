"""The ``fwd`` rule of a pure callback: checks what it returns."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.callbacks.linear_map import zero_tangent
from bellhop.compiler.target import describe


def checked_pair(pair: Any, name: str) -> tuple[Any, Any]:
    """Return the result and the tangent that a rule returned.

    Raises:
        TypeError: naming the callback, where the rule returned something else.
    """
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"the jvp rule of pure_callback '{name}' must return its result and the tangent of "
            f"it, a tuple of two; it returned {pair!r}."
        )
    return pair


def checked_tangent(tangent: Any, name: str, tree: Any, avals: Sequence[ShapedArray]) -> Any:
    """Return the tangent of the result as JAX takes it.

    Args:
        tangent: what the rule returned.
        name: of the callback, which errors name.
        tree: the structure of the result of the callback.
        avals: the leaves of that result.

    Raises:
        TypeError: where structure, shape or dtype are not those of the result.
    """
    what = f"the jvp rule of pure_callback '{name}' returned a tangent"
    try:
        leaves = tree.flatten_up_to(tangent)
    except ValueError as error:
        raise TypeError(
            f"{what} of structure {jax.tree.structure(tangent)}; the callback returns {tree}."
        ) from error
    return jax.tree.unflatten(
        tree, [_checked_leaf(leaf, aval, what) for leaf, aval in zip(leaves, avals, strict=True)]
    )


def _checked_leaf(leaf: Any, aval: ShapedArray, what: str) -> Any:
    if not jnp.issubdtype(aval.dtype, jnp.inexact):
        return zero_tangent(aval)
    if isinstance(leaf, bool | int | float | complex):
        leaf = jnp.asarray(leaf, aval.dtype)
    is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
    if not is_array or (jnp.shape(leaf), leaf.dtype) != (aval.shape, aval.dtype):
        raise TypeError(
            f"{what} {describe(leaf)}, declared {describe(aval)}: the tangent of a result has its "
            "shape and dtype."
        )
    return leaf
