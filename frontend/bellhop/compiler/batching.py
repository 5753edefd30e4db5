"""Calls for each element of a mapped axis: in a loop of the program, or on threads."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching

from bellhop.concurrency.workers import Workers
from bellhop.mesh.explicit_mesh import replicate


def batch_one_by_one(primitive: Primitive) -> None:
    """Make ``vmap`` of a primitive with several results a loop, in order of the elements."""
    batching.primitive_batchers[primitive] = functools.partial(call_one_by_one, primitive)


def call_one_by_one(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[int]]:
    """Call a primitive for each element of a mapped axis, in order: a batching rule."""
    is_mapped = [dim is not None for dim in dims]
    values = [
        operand if dim is None else replicate(jnp.moveaxis(operand, dim, 0))
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


# What waits takes hardly any of a processor's time, so there are more than processors.
_ELEMENTS = Workers(31)


@dataclass(frozen=True, eq=False)
class ThreadedBatchFunction:
    """A function of batches whose elements are called on threads.

    Attributes:
        call: takes the arguments of one element, and arrays that it writes the results into.
        loops: which arguments have each of the mapped axes, the outermost first.
        result_avals: the types of the results, with these axes.
    """

    call: Callable[[list[np.ndarray], list[np.ndarray]], None]
    loops: Sequence[Sequence[bool]]
    result_avals: Sequence[Any]

    def __call__(self, *leaves: np.ndarray) -> Any:
        """Return the results, a leaf or a tuple of leaves."""
        results = [np.empty(aval.shape, aval.dtype) for aval in self.result_avals]
        _ELEMENTS.call_each(self.call, list(iterate_elements(leaves, results, self.loops)))
        return results[0] if len(results) == 1 else tuple(results)


def iterate_elements(
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    loops: Sequence[Sequence[bool]],
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield the arguments and results of each element, the first of the mapped axes outermost."""
    if not loops:
        yield list(operands), list(results)
        return
    is_mapped, *inner = loops
    size = next(len(x) for x, yes in zip(operands, is_mapped, strict=True) if yes)
    for i in range(size):
        # With the ellipsis an element without axes is an array still.
        args = [x[i, ...] if yes else x for x, yes in zip(operands, is_mapped, strict=True)]
        yield from iterate_elements(args, [result[i, ...] for result in results], inner)
