"""Tangents: symbolic zeros, and vectors of tangents that are split into arrays.

``split(jnp.arange(6.0), [(2,), (2, 2)])`` returns ``[[0. 1.], [[2. 3.], [4. 5.]]]``.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching


def is_given(tangent: Any) -> bool:
    """Tell whether a tangent is an array with elements, not a symbolic zero."""
    return type(tangent) is not ad.Zero and tangent.size > 0


def zero_tangent(value: Any) -> Any:
    """Return the symbolic zero tangent of a value."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def without_tangents(primitive: Primitive) -> None:
    """Register a JVP rule with zero tangents, for a primitive through which tangents do not go."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
        del tangents
        results = primitive.bind(*primals, **static)
        return results, jax.tree.map(zero_tangent, results)

    ad.primitive_jvps[primitive] = jvp


def batch_as_rows(primitive: Primitive, place: int) -> None:
    """Register a batching rule: a mapped axis of the only operand with rows makes more rows.

    Args:
        primitive: its result has an axis in front for the rows.
        place: of the operand, whose first axis is that of rows.  All elements have the circuit in
            common, so no other operand is mapped.
    """

    def batch(operands: Sequence[Any], dims: Sequence[Any], **static: Any) -> tuple[Any, int]:
        assert all(dim is None for number, dim in enumerate(dims) if number != place)
        mapped = jnp.moveaxis(operands[place], dims[place], 0)
        size, rows, *rest = mapped.shape
        operands = [*operands[:place], mapped.reshape(size * rows, *rest), *operands[place + 1 :]]
        result = primitive.bind(*operands, **static)
        return result.reshape(size, rows, *result.shape[1:]), 0

    batching.primitive_batchers[primitive] = batch


def split(array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Split an array along its last axis; in each part, a shape takes the place of that axis."""
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [
        array[..., start:end].reshape(*array.shape[:-1], *shape)
        for (start, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    ]
