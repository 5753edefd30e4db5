"""Our calls in programs that XLA partitions over several devices.

Such a program means what it means on one device, so each call is made once, on the first device,
with whole arrays, and all devices get its results.  In ``jax.shard_map``, each device makes its
calls with its own part.  JAX's callbacks do the same; XLA knows these by their names, so ours say
it in JAX's own terms.
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
    """Tell whether XLA partitions what is being lowered.

    Raises:
        NotImplementedError: where it partitions it over some axes of a mesh only, inside
            ``jax.shard_map``.
    """
    kind, _ = get_partitioning(context)
    if kind is Partitioning.PARTLY_MANUAL:
        raise NotImplementedError(
            "bellhop's callbacks and circuits run inside jax.shard_map where all axes of the mesh "
            "are manual, and here some are left to the compiler. Drop axis_names from "
            "jax.shard_map, or call them outside of it."
        )
    return kind is Partitioning.AUTOMATIC


def lower_on_first_device(
    ctx: mlir.LoweringRuleContext,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[ir.Value],
    combine: Callable[..., Sequence[Any]] = lambda *results: results,
) -> Any:
    """Lower a function to a call on the first of all devices.

    Args:
        ctx: that of a rule.
        function: takes arrays and returns arrays.
        operands: those of the rule.
        combine: takes what the function returned, on each device, and returns the results.

    Returns:
        the results of the rule.
    """
    _, size = get_partitioning(ctx.module_context)
    mesh = jax.sharding.AbstractMesh((size,), (_AXIS,))
    everywhere = jax.sharding.PartitionSpec()
    kinds = jax.eval_shape(lambda *args: list(function(*args)), *ctx.avals_in)

    def nothing(*args: Any) -> list[Any]:
        del args
        return [jnp.zeros(kind.shape, kind.dtype) for kind in kinds]

    def call(*args: Any) -> list[Any]:
        is_first = jax.lax.axis_index(_AXIS) == 0
        results = jax.lax.cond(is_first, lambda *args: list(function(*args)), nothing, *args)
        return list(combine(*(jax.lax.all_gather(result, _AXIS)[0] for result in results)))

    partitioned = jax.shard_map(
        call, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False
    )
    # The program may have a mesh of its own, in its context and in the types of its arrays.
    plain = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]
    inner = ctx.replace(avals_in=plain)
    with without_mesh():
        results = mlir.lower_fun(partitioned, multiple_results=True)(inner, *operands)
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    return results
