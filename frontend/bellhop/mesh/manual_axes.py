"""Values inside ``jax.shard_map``, and the axes of its mesh over which they differ.

JAX takes what differs over no axis for equal on all devices, and adds up what the devices say of
its derivative.  So what a call returns must say that it differs wherever an argument does.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from bellhop._jax.private import make_varying, varying_axes

Tree = TypeVar("Tree")


def vary_types_like(operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Return the types of results that differ over every axis over which an operand does.

    Args:
        operands: the types of the operands.
        results: those of the results, which say nothing of it.
    """
    axes, mesh = _axes(operands)
    return [make_varying(aval, axes, mesh) for aval in results] if axes else list(results)


def vary_like(operands: Any, tree: Tree) -> Tree:
    """Return a pytree of arrays that differ over every axis over which one of the operands does.

    Args:
        operands: a pytree of arrays.
        tree: another one, or the same.
    """
    axes, _ = _axes([jax.typeof(leaf) for leaf in jax.tree.leaves(operands)])

    def vary(leaf: object) -> Any:
        aval = jax.typeof(leaf)
        missing = tuple(axes - varying_axes(aval))
        if not missing or aval.dtype == jax.dtypes.float0:
            return leaf
        return jax.lax.pcast(leaf, missing, to="varying")

    return jax.tree.map(vary, tree) if axes else tree


def has_varying(arrays: Any) -> bool:
    """Tell whether an array in a pytree differs between devices inside ``jax.shard_map``."""
    axes, _ = _axes([jax.typeof(leaf) for leaf in jax.tree.leaves(arrays)])
    return bool(axes)


def _axes(avals: Sequence[Any]) -> tuple[frozenset[Any], Any]:
    """Return the axes over which one of some values differs, and the mesh of these axes."""
    axes, mesh = frozenset[Any](), None
    for aval in avals:
        if own := varying_axes(aval):
            axes, mesh = axes | own, aval.sharding.mesh
    return axes, mesh
