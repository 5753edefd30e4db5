"""Derivatives by forward finite differences: nothing is known of the function but its values."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# What Catalyst takes, and about the root of the precision of doubles.
DEFAULT_STEP = 1e-7

METHODS = ("auto", "fd")


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


def by_finite_differences(function: Callable[..., Any], h: float | None) -> Callable[..., Any]:
    """Return ``function`` with a derivative of its own: ``(f(x + h t) - f(x)) / h``.

    The difference is no linear map that could be transposed, so this differentiates in
    forward mode only.

    Args:
        function: of pytrees of arrays, without keyword arguments.
        h: the step; None is ``DEFAULT_STEP``.
    """
    step = DEFAULT_STEP if h is None else h
    approximated = jax.custom_jvp(function)

    @approximated.defjvp
    def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
        values = function(*primals)
        moved = function(*jax.tree.map(lambda x, t: _move(x, t, step), primals, tangents))
        return values, jax.tree.map(lambda to, at: _slope(to, at, step), moved, values)

    return approximated


def _move(value: Any, tangent: Any, step: float) -> Any:
    if not jnp.issubdtype(jnp.result_type(value), jnp.inexact):
        return value
    return value + step * tangent


def _slope(moved: Any, value: Any, step: float) -> Any:
    if not jnp.issubdtype(jnp.result_type(value), jnp.inexact):
        return jnp.zeros(jnp.shape(value), jax.dtypes.float0)
    return (moved - value) / step
