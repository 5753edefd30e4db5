"""Meshes that the types of arrays tell of: of explicit axes, how an array is partitioned, and of
manual ones, those of ``jax.shard_map``, over which axes it differs.

What runs on one device is traced apart from such a mesh, and a loop over the elements of an array
has to see all of them.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.sharding import AxisType

from bellhop._jax.private import without_mesh, without_varying_axes
from bellhop.base.types import Operand


@contextlib.contextmanager
def leave_mesh(arrays: Sequence[Any]) -> Iterator[list[Any]]:
    """Trace as where there is no mesh, if there is one that types tell of.

    Yields:
        what stands for ``arrays`` there.
    """
    kinds = jax.sharding.get_abstract_mesh().axis_types
    if AxisType.Manual not in kinds and AxisType.Explicit not in kinds:
        yield list(arrays)
        return
    types = [jax.typeof(array) for array in arrays]
    # Inside of jax.shard_map the axes stay, for collectives.
    with without_varying_axes() if AxisType.Manual in kinds else without_mesh():
        yield [
            jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type) for kind in types
        ]


def replicate(array: Operand) -> Any:
    """Return an array of which each device has all elements, in the terms of its type."""
    if any(axis is not None for axis in jax.typeof(array).sharding.spec):
        return jax.sharding.reshard(array, jax.sharding.PartitionSpec())
    return array
