"""Varying axes of values inside ``jax.shard_map``.

JAX assumes that a value without varying axes is equal on all devices, and sums its cotangents. So
the results of a call must vary over all axes over which its arguments vary.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from bellhop._jax.private import make_varying, varying_axes

Tree = TypeVar("Tree")


def vary_types_like(operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Add the varying axes of all operands to result types.

    Abstract evaluation rules call it. Axes are varying axes of ``jax.shard_map``.

    Args:
        operands: types of the operands.
        results: types of the results, without varying axes.

    Returns:
        the types of the results, which vary over each axis over which an operand varies.
    """
    axes, mesh = _find_axes(operands)
    return [make_varying(aval, axes, mesh) for aval in results] if axes else list(results)


def vary_like(operands: Any, tree: Tree) -> Tree:
    """Make the arrays of a pytree vary over all axes over which an operand varies.

    Args:
        operands: pytree of arrays or tracers, whose varying axes are read.
        tree: pytree of arrays or tracers to convert; ``float0`` leaves stay as they are.

    Returns:
        the converted pytree; `tree` itself if no operand varies.
    """
    axes, _ = _find_axes([jax.typeof(leaf) for leaf in jax.tree.leaves(operands)])

    def vary(leaf: object) -> Any:
        """Make one array vary over all axes over which an operand varies.

        Arrays that do so already, and ``float0`` arrays, are returned unchanged.
        """
        aval = jax.typeof(leaf)
        missing = tuple(axes - varying_axes(aval))
        if not missing or aval.dtype == jax.dtypes.float0:
            return leaf
        return jax.lax.pcast(leaf, missing, to="varying")

    return jax.tree.map(vary, tree) if axes else tree


def has_varying(arrays: Any) -> bool:
    """Return whether an array in a pytree varies over an axis of ``jax.shard_map``."""
    axes, _ = _find_axes([jax.typeof(leaf) for leaf in jax.tree.leaves(arrays)])
    return bool(axes)


def _find_axes(avals: Sequence[Any]) -> tuple[frozenset[Any], Any]:
    """Return the union of the varying axes of types, and the mesh of these axes.

    The mesh is None without varying axes.
    """
    axes, mesh = frozenset[Any](), None
    for aval in avals:
        if own := varying_axes(aval):
            axes, mesh = axes | own, aval.sharding.mesh
    return axes, mesh
