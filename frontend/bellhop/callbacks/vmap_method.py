"""vmap_method: how ``jax.vmap`` batches a callback."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.arguments.declared_types import array_type
from bellhop.compiler.batching import map_sequentially
from bellhop.compiler.callback_target import ON_THREADS, CallbackTarget

# Methods that call once for each element, and those that call once for all.
ONE_BY_ONE = ("sequential", "sequential_unrolled", ON_THREADS)
AT_ONCE = ("expand_dims", "broadcast_all", "legacy_vectorized")


def check_vmap_method(
    method: Any, label: str, methods: Sequence[str] = ONE_BY_ONE + AT_ONCE
) -> None:
    """Refuse what is no method, or none for a callback of this flavour.

    Args:
        method: what the user gave.
        label: the callback, as errors name it.
        methods: those that there are for it.

    Raises:
        ValueError: naming the callback and the methods.
    """
    if method not in methods:
        raise ValueError(
            f"{label} has vmap_method={method!r}; the methods are {', '.join(map(repr, methods))}."
        )


def call_with_batch(
    bind: Callable[..., list[Any]],
    operands: Sequence[Any],
    dims: Sequence[int | None],
    target: CallbackTarget,
) -> tuple[list[Any], list[int]]:
    """Call for a mapped axis, which leads the arguments and the results: a batching rule.

    It stays one call here, of a target that says how: a loop made now would have the loops of
    outer axes inside it, and calls would not come in the order of the elements.

    Args:
        bind: calls the target that it is given as ``target``.
        operands: the arguments.
        dims: where each has the mapped axis, if it does.
        target: what to call for one element.

    Returns:
        the results, and where their mapped axes are.

    Raises:
        NotImplementedError: naming the callback, where it has no ``vmap_method``.
    """
    if target.vmap_method is None:
        raise target.batching_error()
    size = next(
        jnp.shape(operand)[dim]
        for operand, dim in zip(operands, dims, strict=True)
        if dim is not None
    )
    # A batch of a batch is again such a call, with one more axis before the others.
    where = f"{target.name_and_site}, mapped by vmap,"
    avals = tuple(
        array_type(where, (size, *aval.shape), aval.dtype) for aval in target.result_avals
    )
    loops = target.loops
    overwritten: set[int] = set()
    if target.is_sequential:
        loops = (tuple(dim is not None for dim in dims), *loops)
    else:
        # What is overwritten by a result has the shape of that.
        overwritten = {argument for argument, _ in target.aliases}
    batched = dataclasses.replace(target, result_avals=avals, loops=loops)
    args = [
        _move_batch_axis(
            operand, dim, size, "broadcast_all" if i in overwritten else target.vmap_method
        )
        for i, (operand, dim) in enumerate(zip(operands, dims, strict=True))
    ]
    return bind(*args, target=batched), [0] * len(avals)


def _move_batch_axis(operand: Any, dim: int | None, size: int, method: str) -> Any:
    if dim is not None:
        return jnp.moveaxis(operand, dim, 0)
    if method == "expand_dims":
        return jnp.expand_dims(operand, 0)
    if method == "broadcast_all":
        return jnp.broadcast_to(operand, (size, *jnp.shape(operand)))
    return operand


def call_each(
    bind: Callable[..., list[Any]], operands: Sequence[Any], target: CallbackTarget
) -> list[Any]:
    """Call once for each element of the mapped axes of a target, the first axis outermost."""
    if not target.loops:
        return bind(*operands, target=target)
    element = target.drop_batch_dim()
    return map_sequentially(
        lambda *args: call_each(bind, args, element),
        operands,
        target.loops[0],
        unroll=target.vmap_method == "sequential_unrolled",
    )
