"""partitioned=True: each device calls with its own part of arrays that are spread over devices.

Where the types of the arrays say how they are spread, a call is one in a ``jax.shard_map``::

    io_callback(f, partitioned=True)(x)     # x: f64[4@b,2]
    shard_map(f, in_specs=P("b", None))(x)  # f is called with f64[2,2] by each of two devices
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from bellhop.arguments.declared_types import ResultTypeError
from bellhop.base.source import user_site
from bellhop.base.types import Operand


def result_shardings(label: str, declared: Any) -> list[NamedSharding]:
    """Return how the results of a partitioned callback are spread.

    Args:
        label: the callback, for errors.
        declared: a pytree of types or arrays, with shardings.

    Raises:
        ResultTypeError: for a leaf without one.
    """
    leaves = jax.tree.leaves(declared)
    for leaf in leaves:
        if not isinstance(getattr(leaf, "sharding", None), NamedSharding):
            raise ResultTypeError(
                f"{label} has partitioned=True, and the result type {leaf!r} does not say which "
                "part each device returns. Declare jax.ShapeDtypeStruct(shape, dtype, "
                "sharding=jax.NamedSharding(mesh, spec)), of the whole array."
            )
    return [leaf.sharding for leaf in leaves]


def call_per_shard(
    label: str,
    leaves: Sequence[Any],
    results: tuple[tuple[Any, ...], Any],
    spread: Sequence[NamedSharding],
    call: Callable[[Sequence[Any], tuple[tuple[Any, ...], Any]], Any],
) -> Any:
    """Call on each device with its part of the arguments; outside of meshes, once.

    Args:
        label: the callback, for errors.
        leaves: the arguments.
        results: the types of the leaves of the whole result, and their structure.
        spread: how these are spread.
        call: takes the parts of the leaves and the types of those of the results.
    """
    if AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types:
        # Each device calls for itself there already, with arrays that are its own.
        return call(leaves, results)
    shardings = [_find_sharding(leaf) for leaf in leaves]
    meshes = [sharding.mesh for sharding in (*spread, *shardings) if sharding is not None]
    if not meshes:
        return call(leaves, results)
    for number, (leaf, sharding) in enumerate(zip(leaves, shardings, strict=True)):
        if sharding is None and isinstance(leaf, Tracer) and leaf.ndim > 0:
            raise ValueError(
                f"{label} (called from {user_site()}) has partitioned=True, and the type of its "
                f"argument {number}, {jax.typeof(leaf).str_short()}, does not say how that is "
                "spread over devices. Make the mesh with jax.make_mesh, whose axes are explicit, "
                "and put the array on it with jax.device_put, or call it in jax.shard_map."
            )
    if len({mesh.abstract_mesh for mesh in meshes}) > 1:
        raise ValueError(
            f"{label} (called from {user_site()}) has partitioned=True, and its arguments and "
            "results are spread over different meshes. Put them on one, with jax.device_put or "
            "jax.sharding.reshard."
        )
    # Only a concrete one says which devices these are, where no program is being traced.
    mesh = next((mesh for mesh in meshes if isinstance(mesh, jax.sharding.Mesh)), meshes[0])
    avals, tree = results
    parts = tuple(
        jax.core.ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
        for aval, sharding in zip(avals, spread, strict=True)
    )

    def call_shard(*leaves: Operand) -> list[Any]:
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
    """Return how an array is spread over a mesh; None where it is on none or nothing says so."""
    if not isinstance(leaf, Tracer):
        sharding = getattr(leaf, "sharding", None)
        return sharding if isinstance(sharding, NamedSharding) else None
    # Of other axes, types say nothing.
    sharding = jax.typeof(leaf).sharding
    return sharding if AxisType.Explicit in sharding.mesh.axis_types else None
