"""Tracing outside of the mesh that array types refer to.

Types of arrays include the sharding over explicit mesh axes, and the varying axes of
``jax.shard_map``. Code that runs on one device is traced without such a mesh, and a loop over the
elements of an array needs the whole array.
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
    """Unset the current mesh for tracing in a ``with`` block, if it has explicit axes.

    Inside of ``jax.shard_map``, the mesh stays set for collective operations, and JAX does not
    track varying axes in the block.

    Args:
        arrays: arrays or types.

    Yields:
        list of the types of `arrays` without shardings and varying axes, for tracing in the block;
        list of `arrays` themselves if no mesh with explicit or manual axes is set.
    """
    axis_types = jax.sharding.get_abstract_mesh().axis_types
    if AxisType.Manual not in axis_types and AxisType.Explicit not in axis_types:
        yield list(arrays)
        return
    types = [jax.typeof(array) for array in arrays]
    # Inside of jax.shard_map the axes stay, for collectives.
    with without_varying_axes() if AxisType.Manual in axis_types else without_mesh():
        yield [
            jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type)
            for type_ in types
        ]


def replicate(array: Operand) -> Any:
    """Reshard an array or tracer so that each device has all of it.

    It is returned unchanged if its type has no sharding over explicit mesh axes.
    """
    if any(axis is not None for axis in jax.typeof(array).sharding.spec):
        return jax.sharding.reshard(array, jax.sharding.PartitionSpec())
    return array
