"""The batching rule of primitives that run once for each mapped element: a loop."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching

from bellhop.mesh.explicit_mesh import replicated


def batch_one_by_one(primitive: Primitive) -> None:
    """Make ``vmap`` of a primitive with several results a loop, in order of the elements."""
    batching.primitive_batchers[primitive] = functools.partial(call_one_by_one, primitive)


def call_one_by_one(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[int]]:
    """Call a primitive for each element of a mapped axis, in order: a batching rule."""
    is_mapped = [dim is not None for dim in dims]
    values = [
        operand if dim is None else replicated(jnp.moveaxis(operand, dim, 0))
        for operand, dim in zip(operands, dims, strict=True)
    ]
    results = for_each(lambda *args: primitive.bind(*args, **params), values, is_mapped)
    return results, [0] * len(results)


def for_each(
    function: Callable[..., Any],
    values: Sequence[Any],
    is_mapped: Sequence[bool],
    *,
    batch_size: int | None = None,
    unroll: bool = False,
) -> Any:
    """Call a function for each element of the first axis of some of its arguments, in order.

    Args:
        function: takes elements of what is mapped, and the rest as it is.
        values: the arguments.
        is_mapped: which of them have the axis.
        batch_size: how many elements it is mapped over at a time, if not one by one.
        unroll: whether there is no loop.
    """

    def call(elements: Sequence[Any]) -> Any:
        element = iter(elements)
        return function(
            *(next(element) if yes else x for x, yes in zip(values, is_mapped, strict=True))
        )

    mapped = list(itertools.compress(values, is_mapped))
    if batch_size is not None:
        return jax.lax.map(call, mapped, batch_size=batch_size)
    return jax.lax.scan(lambda _, elements: ((), call(elements)), (), mapped, unroll=unroll)[1]
