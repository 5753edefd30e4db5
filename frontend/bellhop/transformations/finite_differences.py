"""Derivatives by forward finite differences."""

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

# Step for integers, which have no derivative.
_NONE = math.inf


def check_method(construct: str, method: str | None, h: float | None) -> None:
    """Check the options ``method`` and ``h`` that a user passed to a derivative.

    Args:
        construct: name of the public function, such as ``grad``, for errors.
        method: ``"auto"``, ``"fd"`` for finite differences, or None.
        h: step of the finite differences, or None.

    Raises:
        ValueError: for an unknown method, or a step that is zero, not a number, or without
            ``method="fd"``.
    """
    if method is not None and method not in METHODS:
        raise ValueError(
            f"{construct}: there is no method '{method}', expected one of "
            f"{', '.join(METHODS)}. Set the derivative of a circuit by its QNode's diff_method."
        )
    if h is None:
        return
    if method != "fd":
        raise ValueError(
            f"{construct}: h is the step of method='fd', and method is {method!r}. Pass "
            "method='fd', or leave h out."
        )
    if isinstance(h, bool) or not isinstance(h, int | float) or h == 0 or not math.isfinite(h):
        raise ValueError(
            f"{construct}: the step h must be a finite number other than zero, got {h!r}."
        )


@dataclass
class _InnerDifferences:
    """Nesting depth of finite differences in a function, counted while it is traced.

    `_count_differences` makes one for each ``with`` block, in which a function is traced. The
    default step of the differences depends on the depth.

    Attributes:
        order: the depth: 0 if the function contains no finite differences, 1 if it contains finite
            differences of a function without them. Each inner ``with`` block updates it at its end.
    """

    order: int = 0


_inner: ContextVar[_InnerDifferences | None] = ContextVar("bellhop_inner_differences", default=None)


@contextlib.contextmanager
def _count_differences() -> Iterator[_InnerDifferences]:
    """Count how deep finite differences are nested that are traced in a ``with`` block.

    The block is itself a finite difference, which is not counted.

    Yields:
        the counter, whose value is final when the block ends: 0 if the block contains no finite
        difference. The counter of an enclosing block becomes at least this value plus one.
    """
    inner, outer = _InnerDifferences(), _inner.get()
    token = _inner.set(inner)
    try:
        yield inner
    finally:
        _inner.reset(token)
        if outer is not None:
            outer.order = max(outer.order, inner.order + 1)


def with_finite_differences(function: Callable[..., Any], h: float | None) -> Callable[..., Any]:
    """Return a function whose JVP is a finite difference, ``(f(x + h t) - f(x)) / h``.

    Only forward mode is supported, since the difference is not linear in the tangent ``t``.

    Args:
        function: function of pytrees of arrays, without keyword arguments.
        h: the step. If it is None, each argument and each result has a step for its precision, and
            the derivative uses the larger of both; nested differences use larger steps, since their
            values are less precise.

    Returns:
        a function of the same arguments with the same result.
    """
    # Tangents of integers are not arrays, so user classes could not hold them.
    flat_function = lambda *args: FlatTree.flatten(function(*(arg.unflatten() for arg in args)))
    approximated = jax.custom_jvp(flat_function)

    @approximated.defjvp
    def jvp(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
        """Return the value and its tangent, by one difference for each distinct step size.

        The step for an argument leaf and a result leaf is `h`, or follows from their precisions.
        `primals` and `tangents` are tuples of ``FlatTree`` objects (pytrees with array leaves); the
        value and its tangent are one ``FlatTree`` each.
        """
        with _count_differences() as inner:
            value = flat_function(*primals)

        def find_step(leaf: object) -> float:
            """Return the step for a leaf's precision, `h` if it is set; `_NONE` for integers."""
            dtype = jnp.result_type(leaf)
            if not jnp.issubdtype(dtype, jnp.inexact):
                return _NONE
            return finite_diff_step(dtype, inner.order) if h is None else h

        def find_steps(tree: PyTree) -> list[float]:
            """Return the different steps for the leaves of a pytree, in increasing order."""
            return sorted({find_step(leaf) for leaf in jax.tree.leaves(tree)} - {_NONE})

        slope = jax.tree.map(zero_tangent, value)
        for argument_step in find_steps(primals):
            for step in sorted({max(argument_step, other) for other in find_steps(value)}):

                def shift_argument(
                    x: Any,
                    tangent: PyTree,
                    argument_step: float = argument_step,
                    step: float = step,
                ) -> Any:
                    """Add `step` times its tangent to a leaf whose step is `argument_step`."""
                    return x + step * tangent if find_step(x) == argument_step else x

                def add_quotient(
                    slope: Any,
                    to: Any,
                    at: Any,
                    argument_step: float = argument_step,
                    step: float = step,
                ) -> Any:
                    """Add the difference quotient to the tangent of a result leaf with this step.

                    `to` and `at` are the leaf's values at the shifted and the original arguments.
                    """
                    return (
                        slope + (to - at) / step
                        if max(argument_step, find_step(at)) == step
                        else slope
                    )

                shifted = flat_function(*jax.tree.map(shift_argument, primals, tangents))
                slope = jax.tree.map(add_quotient, slope, shifted, value)
        return value, slope

    return lambda *args: approximated(*map(FlatTree.flatten, args)).unflatten()
