"""Batching of callbacks: one call for each element, in a loop or on threads."""

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


def register_sequential_batching(primitive: Primitive) -> None:
    """Make `vmap` of a primitive call it for each element, in order, in a loop.

    Registers `sequential_batch` as the batching rule of the primitive, which must have
    ``multiple_results``.
    """
    batching.primitive_batchers[primitive] = functools.partial(sequential_batch, primitive)


def sequential_batch(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[int]]:
    """Apply a primitive to each element of a batch axis, in order: a batching rule.

    Args:
        primitive: the primitive, with multiple results.
        operands: arrays or tracers.
        dims: batch axis of each operand; None for operands that are not batched.
        **params: parameters of the primitive.

    Returns:
        the batched results, and their batch axes, all 0.
    """
    is_mapped = [dim is not None for dim in dims]
    values = [
        operand if dim is None else replicate(jnp.moveaxis(operand, dim, 0))
        for operand, dim in zip(operands, dims, strict=True)
    ]
    results = map_sequentially(lambda *args: primitive.bind(*args, **params), values, is_mapped)
    return results, [0] * len(results)


def map_sequentially(
    function: Callable[..., Any],
    values: Sequence[Any],
    is_mapped: Sequence[bool],
    *,
    batch_size: int | None = None,
    unroll: bool = False,
) -> Any:
    """Call a function in a traced loop over the leading axis of its arguments.

    Args:
        function: takes elements of mapped arguments and whole unmapped arguments; returns a pytree.
        values: the arguments, arrays.
        is_mapped: for each argument, whether the loop is over its leading axis; at least one is.
        batch_size: number of elements to vectorize over at a time; None for one by one.
        unroll: whether to emit one call for each element, in place of a loop; without effect if
            `batch_size` is given.

    Returns:
        pytree of the function's results, with a new leading axis.
    """

    def call(elements: Sequence[Any]) -> Any:
        """Call ``function`` with the arguments of one iteration of the loop.

        Args:
            elements: one element of each mapped argument, in order. Unmapped arguments are passed
                whole, at their positions.
        """
        element = iter(elements)
        return function(
            *(next(element) if yes else x for x, yes in zip(values, is_mapped, strict=True))
        )

    mapped = list(itertools.compress(values, is_mapped))
    if batch_size is not None:
        return jax.lax.map(call, mapped, batch_size=batch_size)
    return jax.lax.scan(lambda _, elements: ((), call(elements)), (), mapped, unroll=unroll)[1]


# Waiting threads use little processor time, so the pool may exceed the number of processors.
_ELEMENTS = Workers(31)


@dataclass(frozen=True, eq=False)
class ThreadedBatchFunction:
    """A function of batches: calls another function for each element, on threads.

    It implements ``vmap_method="sequential_threadpool"``. The program calls the object once for the
    whole batch; the object takes the argument arrays, and returns the batched results: one array,
    or a tuple of several arrays.

    Attributes:
        call: takes the list of arguments of one element, and the list of arrays to write its
            results into.
        loops: for each mapped axis, outermost first: a bool for each argument, whether it has the
            axis. The argument's shape begins with these axes.
        result_avals: types of the batched results, whose shapes begin with all mapped axes.
    """

    call: Callable[[list[np.ndarray], list[np.ndarray]], None]
    loops: Sequence[Sequence[bool]]
    result_avals: Sequence[Any]

    def __call__(self, *leaves: np.ndarray) -> Any:
        """Return the results of all elements: one array, or a tuple of arrays."""
        results = [np.empty(aval.shape, aval.dtype) for aval in self.result_avals]
        _ELEMENTS.call_each(self.call, list(iterate_elements(leaves, results, self.loops)))
        return results[0] if len(results) == 1 else tuple(results)


def iterate_elements(
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    loops: Sequence[Sequence[bool]],
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield the arguments of each batch element, and views to write its results into.

    Args:
        operands: batched arguments; the shape of each begins with the mapped axes that it has.
        results: batched result arrays, whose shapes begin with all mapped axes.
        loops: for each mapped axis, outermost first: a bool for each operand, whether it has the
            axis.

    Yields:
        the list of the element's arguments, and a list of views, one of each array in ``results``;
        both without mapped axes.
    """
    if not loops:
        yield list(operands), list(results)
        return
    is_mapped, *inner = loops
    size = next(len(x) for x, yes in zip(operands, is_mapped, strict=True) if yes)
    for i in range(size):
        # The ellipsis keeps a 0-d element an array.
        args = [x[i, ...] if yes else x for x, yes in zip(operands, is_mapped, strict=True)]
        yield from iterate_elements(args, [result[i, ...] for result in results], inner)
