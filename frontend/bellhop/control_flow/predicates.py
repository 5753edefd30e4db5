"""The numbers that decide: between branches, and how often a loop runs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_predicate(construct: str, value: Any) -> Any:
    """Return a condition as a Python bool where it is known, else as a scalar of the program.

    Raises:
        TypeError: for anything but one number.
    """
    is_traced = isinstance(value, jax.core.Tracer)
    array = value if is_traced else np.asarray(value)
    if not is_traced and array.dtype.kind not in "biufc":
        raise TypeError(
            f"{construct}: a condition must be a bool or a number; one is a "
            f"{type(value).__name__}. Conditions on mid-circuit measurements are not supported "
            "yet by bellhop."
        )
    if array.shape:
        raise TypeError(
            f"{construct}: a condition must be a scalar; one has the shape {array.shape}."
        )
    return array != 0 if is_traced else bool(array)


def as_integer(what: str, value: Any) -> Any:
    """Return a number as a Python integer where it is known, else as a signed scalar.

    Raises:
        TypeError: for anything but one integer; it begins with ``what``.
    """
    is_traced = isinstance(value, jax.core.Tracer)
    array = value if is_traced else np.asarray(value)
    if array.shape or not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{what} must be an integer; it is {array.dtype}{list(array.shape)}.")
    # Unsigned ones wrap around where a difference is negative, and small ones where it is large.
    return array.astype(jnp.asarray(0).dtype) if is_traced else int(array)
