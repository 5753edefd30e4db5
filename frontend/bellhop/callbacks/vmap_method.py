"""vmap_method: how a pure callback meets a mapped axis."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.callbacks.target import CallbackTarget

VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")


def check_vmap_method(method: Any, name: str) -> None:
    """Refuse what is not one of ``VMAP_METHODS``.

    Raises:
        ValueError: naming the callback and the methods.
    """
    if method not in VMAP_METHODS:
        raise ValueError(
            f"pure_callback '{name}' has vmap_method={method!r}; the methods are "
            f"{', '.join(map(repr, VMAP_METHODS))}."
        )


def call_with_batch(
    bind: Callable[..., list[Any]],
    operands: Sequence[Any],
    dims: Sequence[int | None],
    target: CallbackTarget,
) -> tuple[list[Any], list[int]]:
    """Call once for a whole mapped axis, which leads the arguments and the results.

    Args:
        bind: calls the target that it is given as ``target``.
        operands: the arguments.
        dims: where each has the mapped axis, if it does.
        target: what to call for one element; not one that is called one by one.

    Returns:
        the results, and where their mapped axes are.
    """
    size = next(
        jnp.shape(operand)[dim]
        for operand, dim in zip(operands, dims, strict=True)
        if dim is not None
    )
    # A batch of a batch is again such a call, with one more axis before the others.
    avals = tuple(ShapedArray((size, *aval.shape), aval.dtype) for aval in target.result_avals)
    batched = dataclasses.replace(target, result_avals=avals)
    args = [
        _placed(operand, dim, size, target.vmap_method)
        for operand, dim in zip(operands, dims, strict=True)
    ]
    return bind(*args, target=batched), [0] * len(avals)


def _placed(operand: Any, dim: int | None, size: int, method: str) -> Any:
    if dim is not None:
        return jnp.moveaxis(operand, dim, 0)
    if method == "expand_dims":
        return jnp.expand_dims(operand, 0)
    if method == "broadcast_all":
        return jnp.broadcast_to(operand, (size, *jnp.shape(operand)))
    return operand
