"""The batching rule of primitives that run once for each mapped element: a loop."""

import functools
from collections.abc import Sequence
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
    mapped = [
        replicated(jnp.moveaxis(operand, dim, 0))
        for operand, dim, yes in zip(operands, dims, is_mapped, strict=True)
        if yes
    ]

    def call(elements: Sequence[Any]) -> list[Any]:
        element = iter(elements)
        args = [
            next(element) if yes else operand
            for operand, yes in zip(operands, is_mapped, strict=True)
        ]
        return primitive.bind(*args, **params)

    results = jax.lax.map(call, mapped)
    return results, [0] * len(results)
