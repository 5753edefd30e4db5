"""Sharding of Bellhop's calls in programs that XLA partitions.

A partitioned program must behave as on one device, so each call is made once, on the first device,
with whole arrays, and all devices get its results. Inside of ``jax.shard_map``, each device calls
with its shard. JAX's callbacks behave alike; XLA knows them by name, while Bellhop's calls use JAX
operations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import Partitioning, get_partitioning, without_mesh

_AXIS = "bellhop_devices"


def is_partitioned(context: mlir.ModuleContext) -> bool:
    """Return whether XLA partitions the lowered module over several devices.

    False inside of a ``jax.shard_map`` over all axes of the mesh, where the module already has the
    shapes of one device's shards.

    Args:
        context: context of the lowering.

    Raises:
        NotImplementedError: inside of a ``jax.shard_map`` over some of the mesh axes.
    """
    kind, _ = get_partitioning(context)
    if kind is Partitioning.PARTLY_MANUAL:
        raise NotImplementedError(
            "bellhop's callbacks and circuits are supported in jax.shard_map only if all axes of "
            "the mesh are manual. Drop axis_names from "
            "jax.shard_map, or call the callbacks and circuits outside of jax.shard_map."
        )
    return kind is Partitioning.AUTOMATIC


def lower_on_first_device(
    ctx: mlir.LoweringRuleContext,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[ir.Value],
    combine: Callable[..., Sequence[Any]] = lambda *results: results,
) -> Any:
    """Lower a function to run on the first device; all devices get its results.

    Used by the lowering rules of callbacks and circuits in programs that XLA partitions.

    Args:
        ctx: context of the lowering rule, with the types of the whole arrays.
        function: takes arrays and returns a sequence of arrays; runs on the first device only.
        operands: operands of the rule, whole arrays.
        combine: called on each device with the function's results; returns the results of the rule.

    Returns:
        the MLIR values of the rule's results. Tokens of the function's effects are set in ``ctx``.
    """
    _, size = get_partitioning(ctx.module_context)
    mesh = jax.sharding.AbstractMesh((size,), (_AXIS,))
    everywhere = jax.sharding.PartitionSpec()
    result_types = jax.eval_shape(lambda *args: list(function(*args)), *ctx.avals_in)

    def return_zeros(*args: Any) -> list[Any]:
        """Return zeros of the result types, on all devices but the first."""
        del args
        return [jnp.zeros(type_.shape, type_.dtype) for type_ in result_types]

    def call(*args: Any) -> list[Any]:
        """Run the function if this is the first device; send its results to all devices."""
        is_first = jax.lax.axis_index(_AXIS) == 0
        results = jax.lax.cond(is_first, lambda *args: list(function(*args)), return_zeros, *args)
        return list(combine(*(jax.lax.all_gather(result, _AXIS)[0] for result in results)))

    partitioned = jax.shard_map(
        call, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False
    )
    # The program may have a mesh in its context and in array types, so remove both.
    plain = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]
    inner = ctx.replace(avals_in=plain)
    with without_mesh():
        results = mlir.lower_fun(partitioned, multiple_results=True)(inner, *operands)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    return results
