"""Callbacks with ``partitioned=True``, which each device calls with its shard.

If the types of the arrays include shardings, the call is wrapped in ``jax.shard_map``::

    io_callback(f, partitioned=True)(x)     # x: f64[4@b,2]
    shard_map(f, in_specs=P("b", None))(x)  # f is called with f64[2,2] by each of two devices
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from bellhop.base.source import user_site
from bellhop.base.types import Operand
from bellhop.errors import ResultTypeError


def result_shardings(label: str, declared: Any) -> list[NamedSharding]:
    """Return the sharding of each leaf of a partitioned callback's result type.

    Args:
        label: description of the callback, for errors.
        declared: the user's ``result_type``: a pytree of types or arrays, with shardings.

    Raises:
        ResultTypeError: for a leaf without a `NamedSharding`.
    """
    leaves = jax.tree.leaves(declared)
    for leaf in leaves:
        if not isinstance(getattr(leaf, "sharding", None), NamedSharding):
            raise ResultTypeError(
                f"{label} has partitioned=True, and the result type {leaf!r} has no sharding. "
                "Declare jax.ShapeDtypeStruct(shape, dtype, sharding=jax.NamedSharding(mesh, "
                "spec)), with the shape of the whole array."
            )
    return [leaf.sharding for leaf in leaves]


def call_per_shard(
    label: str,
    leaves: Sequence[Any],
    results: tuple[tuple[Any, ...], Any],
    spread: Sequence[NamedSharding],
    call: Callable[[Sequence[Any], tuple[tuple[Any, ...], Any]], Any],
) -> Any:
    """Call a callback on each device of a mesh with its shards.

    Inside of ``jax.shard_map``, where the arrays are shards already, and if no array has a
    ``NamedSharding``, `call` is called directly. Otherwise each device calls with its shards;
    numbers and arrays without a ``NamedSharding`` are passed whole to each device.

    Args:
        label: description of the callback, for errors.
        leaves: leaves of the callback's arguments, whole arrays.
        results: types of the leaves of the whole result, and its ``PyTreeDef``.
        spread: shardings of the result's leaves.
        call: traces the call for one device. Takes shards of the leaves, and a pair of the types of
            the result's shards and the ``PyTreeDef``; returns the result, a pytree.

    Returns:
        pytree of the result, whole arrays.

    Raises:
        ValueError: if the type of a traced argument with axes has no sharding, or there are several
            meshes.
    """
    if AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types:
        # Inside of shard_map, each device already has its shards.
        return call(leaves, results)
    shardings = [_find_sharding(leaf) for leaf in leaves]
    meshes = [sharding.mesh for sharding in (*spread, *shardings) if sharding is not None]
    if not meshes:
        return call(leaves, results)
    for index, (leaf, sharding) in enumerate(zip(leaves, shardings, strict=True)):
        if sharding is None and isinstance(leaf, Tracer) and leaf.ndim > 0:
            raise ValueError(
                f"{label} (called from {user_site()}) has partitioned=True, and the type of its "
                f"argument {index}, {jax.typeof(leaf).str_short()}, has no "
                "sharding. Make the mesh with jax.make_mesh, whose axes are explicit, "
                "and put the array on it with jax.device_put, or call it in jax.shard_map."
            )
    if len({mesh.abstract_mesh for mesh in meshes}) > 1:
        raise ValueError(
            f"{label} (called from {user_site()}) has partitioned=True, and its arguments and "
            "results are on different meshes. Put them on one mesh, with jax.device_put or "
            "jax.sharding.reshard."
        )
    # Outside of tracing, only a concrete mesh has devices.
    mesh = next((mesh for mesh in meshes if isinstance(mesh, jax.sharding.Mesh)), meshes[0])
    avals, tree = results
    parts = tuple(
        jax.core.ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
        for aval, sharding in zip(avals, spread, strict=True)
    )

    def call_shard(*leaves: Operand) -> list[Any]:
        """Call the callback with one device's shards; return the leaves of its result."""
        return jax.tree.leaves(call(leaves, (parts, tree)))

    mapped = jax.shard_map(
        call_shard,
        mesh=mesh,
        in_specs=tuple(PartitionSpec() if s is None else s.spec for s in shardings),
        out_specs=[sharding.spec for sharding in spread],
        check_vma=False,
    )
    return jax.tree.unflatten(tree, jax.jit(mapped)(*leaves))


def _find_sharding(leaf: object) -> NamedSharding | None:
    """Return the `NamedSharding` of an array or tracer, or None if it has none.

    The type of a tracer includes its sharding over explicit mesh axes only.
    """
    if not isinstance(leaf, Tracer):
        sharding = getattr(leaf, "sharding", None)
        return sharding if isinstance(sharding, NamedSharding) else None
    # Types include shardings over explicit axes only.
    sharding = jax.typeof(leaf).sharding
    return sharding if AxisType.Explicit in sharding.mesh.axis_types else None
