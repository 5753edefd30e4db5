"""Derivatives by forward finite differences: nothing is known of the function but its values."""

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.arguments.flat_tree import FlatTree
from bellhop.base.finite_diff_step import finite_diff_step
from bellhop.base.types import PyTree
from bellhop.callbacks.linear_map import zero_tangent

METHODS = ("auto", "fd")

# Of integers, which have no derivative.
_NONE = math.inf


def check_method(construct: str, method: str | None, h: float | None) -> None:
    """Refuse a way to differentiate that there is not.

    Raises:
        ValueError: for an unknown method, or a step that is none or belongs to no method.
    """
    if method is not None and method not in METHODS:
        raise ValueError(
            f"{construct}: there is no method '{method}'; there are {', '.join(METHODS)}. How a "
            "circuit is differentiated is the diff_method of its QNode."
        )
    if h is None:
        return
    if method != "fd":
        raise ValueError(f"{construct}: h is the step of method='fd', and method is {method!r}.")
    if isinstance(h, bool) or not isinstance(h, int | float) or h == 0 or not math.isfinite(h):
        raise ValueError(f"{construct}: the step h must be a number and not zero; it is {h!r}.")


@dataclass
class _InnerDifferences:
    """How many differences the values of a function are made of, one in another."""

    order: int = 0


_inner: ContextVar[_InnerDifferences | None] = ContextVar("bellhop_inner_differences", default=None)


@contextlib.contextmanager
def _count_differences() -> Iterator[_InnerDifferences]:
    """Count the differences that are traced inside, one in another, and this one for outer ones."""
    inner, outer = _InnerDifferences(), _inner.get()
    token = _inner.set(inner)
    try:
        yield inner
    finally:
        _inner.reset(token)
        if outer is not None:
            outer.order = max(outer.order, inner.order + 1)


def with_finite_differences(function: Callable[..., Any], h: float | None) -> Callable[..., Any]:
    """Return ``function`` with a derivative of its own: ``(f(x + h t) - f(x)) / h``.

    The difference is no linear map that could be transposed, so this differentiates in
    forward mode only.

    Args:
        function: of pytrees of arrays, without keyword arguments.
        h: the step; without it each argument and each result has that of its precision, and the
            derivative of one by the other takes the longer of both; around other differences it is
            longer, since these are less exact.
    """
    # Tangents of integers are no arrays that a class of the user's could hold.
    flat_function = lambda *args: FlatTree.flatten(function(*(arg.unflatten() for arg in args)))
    approximated = jax.custom_jvp(flat_function)

    @approximated.defjvp
    def jvp(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
        with _count_differences() as inner:
            value = flat_function(*primals)

        def find_step(leaf: object) -> float:
            dtype = jnp.result_type(leaf)
            if not jnp.issubdtype(dtype, jnp.inexact):
                return _NONE
            return finite_diff_step(dtype, inner.order) if h is None else h

        def find_steps(tree: PyTree) -> list[float]:
            return sorted({find_step(leaf) for leaf in jax.tree.leaves(tree)} - {_NONE})

        slope = jax.tree.map(zero_tangent, value)
        for own in find_steps(primals):
            for step in sorted({max(own, other) for other in find_steps(value)}):

                def move(x: Any, tangent: PyTree, own: float = own, step: float = step) -> Any:
                    return x + step * tangent if find_step(x) == own else x

                def add(slope: Any, to: Any, at: Any, own: float = own, step: float = step) -> Any:
                    return slope + (to - at) / step if max(own, find_step(at)) == step else slope

                moved = flat_function(*jax.tree.map(move, primals, tangents))
                slope = jax.tree.map(add, slope, moved, value)
        return value, slope

    return lambda *args: approximated(*map(FlatTree.flatten, args)).unflatten()
