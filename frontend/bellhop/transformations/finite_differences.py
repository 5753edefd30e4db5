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
    """Count the nesting depth of finite differences in a traced function.

    The ``with`` block traces a function of which a finite difference is taken. The depth is 0 if
    this function contains no finite difference, and 1 if it contains differences of functions
    without them.

    Yields:
        the counter, whose depth is final when the block ends. Then the counter of the enclosing
        block, if there is one, is raised to at least this depth plus one.
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
        """JVP rule: return the function's value, and differences as its tangent.

        The step for an argument leaf and a result leaf is `h`, or follows from their precisions.
        For each precision of arguments and each distinct step, one difference is computed; the
        tangent is their sum.

        Args:
            primals: the arguments, a tuple of ``FlatTree`` objects (pytrees with array leaves).
            tangents: their tangents, in the same form.

        Returns:
            the value and its tangent, a ``FlatTree`` each.
        """
        with _count_differences() as inner:
            value = flat_function(*primals)

        def find_step(leaf: object) -> float:
            """Return `h`, else the step for a leaf's precision; infinity for an integer leaf."""
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
                    """Return ``x + step * tangent`` if the step of leaf `x` is `argument_step`.

                    All other leaves are returned unchanged.
                    """
                    return x + step * tangent if find_step(x) == argument_step else x

                def add_quotient(
                    slope: Any,
                    to: Any,
                    at: Any,
                    argument_step: float = argument_step,
                    step: float = step,
                ) -> Any:
                    """Add the quotient to the tangent of a result leaf, if `step` is its step.

                    Args:
                        slope: the tangent so far.
                        to: value of the leaf at the shifted arguments.
                        at: value of the leaf at the original arguments.
                        argument_step: step of the shifted argument leaves.
                        step: the step of this difference.

                    Returns:
                        the new tangent; `slope` for a leaf that needs another step.
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
