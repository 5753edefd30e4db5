"""vmap_method: how ``jax.vmap`` batches a callback."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.arguments.declared_types import array_type
from bellhop.compiler.batching import map_sequentially
from bellhop.compiler.callback_target import ON_THREADS, CallbackTarget

# Methods that call once for each batch element, and methods that make one call for the whole batch.
ONE_BY_ONE = ("sequential", "sequential_unrolled", ON_THREADS)
AT_ONCE = ("expand_dims", "broadcast_all", "legacy_vectorized")


def check_vmap_method(
    method: Any, label: str, methods: Sequence[str] = ONE_BY_ONE + AT_ONCE
) -> None:
    """Raise an error for a ``vmap_method`` that a callback does not support.

    Args:
        method: the user's option, any value.
        label: description of the callback, for errors.
        methods: values that this kind of callback supports.

    Raises:
        ValueError: naming the callback and the supported methods.
    """
    if method not in methods:
        raise ValueError(
            f"{label} has vmap_method={method!r}, expected one of {', '.join(map(repr, methods))}."
        )


def call_with_batch(
    bind: Callable[..., list[Any]],
    operands: Sequence[Any],
    dims: Sequence[int | None],
    target: CallbackTarget,
) -> tuple[list[Any], list[int]]:
    """Bind one call of a callback for all elements of a mapped axis: a batching rule.

    If the method calls the function for each element, the new axis is prepended to the target's
    ``loops``, and the lowering rule makes all loops at once, with `call_each`. (``jax.vmap``
    batches inner axes first: a loop made by this rule would be outside of the later loops over
    outer axes, and the calls would not be in order.)

    Args:
        bind: binds the callback's primitive: ``bind(*operands, target=...)``.
        operands: leaves of the arguments, with batch axes.
        dims: batch axis of each operand; None for operands that are not batched.
        target: the callback for one element.

    Returns:
        the batched results, and their batch axes, which are 0.

    Raises:
        NotImplementedError: naming the callback, if it has no ``vmap_method``.
    """
    if target.vmap_method is None:
        raise target.batching_error()
    size = next(
        jnp.shape(operand)[dim]
        for operand, dim in zip(operands, dims, strict=True)
        if dim is not None
    )
    # Nested `vmap` batches this call again, which adds one more leading axis.
    where = f"{target.name_and_site}, mapped by vmap,"
    avals = tuple(
        array_type(where, (size, *aval.shape), aval.dtype) for aval in target.result_avals
    )
    loops = target.loops
    overwritten: set[int] = set()
    if target.is_sequential:
        loops = (tuple(dim is not None for dim in dims), *loops)
    else:
        # An argument that shares memory with a result needs the result's shape.
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
    """Move the batch axis of an operand to the front.

    Args:
        operand: leaf of an argument.
        dim: its batch axis; None for an operand that is not batched.
        size: length of the batch axis.
        method: the ``vmap_method``. It determines the first axis of an operand without batch axis:
            of length 1 for ``"expand_dims"``, of length `size` for ``"broadcast_all"``, else none
            is added.
    """
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
    """Call a callback for each batch element, in nested loops over the batch axes.

    The loop over the first batch axis is outermost. Traced when a batched call is lowered.

    Args:
        bind: binds the callback's primitive: ``bind(*operands, target=...)``.
        operands: leaves of the batched arguments.
        target: the batched callback. Its ``loops`` have one tuple for each batch axis, outermost
            first: for each operand, whether it has this axis. An operand begins with its axes.
    """
    if not target.loops:
        return bind(*operands, target=target)
    element = target.drop_batch_dim()
    return map_sequentially(
        lambda *args: call_each(bind, args, element),
        operands,
        target.loops[0],
        unroll=target.vmap_method == "sequential_unrolled",
    )
