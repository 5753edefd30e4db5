"""The numbers that decide: between branches, and how often a loop runs."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.control_flow.eager_mode import is_interpreted


def as_predicate(construct: str, value: Any) -> Any:
    """Return a condition as a Python bool where it is known, else as a scalar of the program.

    Raises:
        TypeError: for anything but one number.
    """
    if not isinstance(value, bool | int | float | complex) and not hasattr(value, "dtype"):
        raise _not_scalar_error(construct, value)
    is_traced = isinstance(value, jax.core.Tracer)
    if is_traced and is_interpreted():
        return bool(value)
    array = value if is_traced else np.asarray(value)
    if not is_traced and array.dtype.kind not in "biufc":
        raise _not_scalar_error(construct, value)
    if array.shape:
        raise TypeError(
            f"{construct}: a condition must be a scalar; one has the shape {array.shape}."
        )
    return array != 0 if is_traced else bool(array)


def _not_scalar_error(construct: str, value: object) -> TypeError:
    return TypeError(
        f"{construct}: a condition must be a bool or a number; one is a {type(value).__name__}. "
        "Outcomes of bellhop.measure are numbers of a compiled program."
    )


def as_integer(label: str, value: Any) -> Any:
    """Return a number as a Python integer where it is known, else as a signed scalar.

    Raises:
        TypeError: for anything but one integer; it begins with ``label``.
    """
    is_traced = isinstance(value, jax.core.Tracer)
    if is_traced and is_interpreted():
        return operator.index(value)
    array = value if is_traced else np.asarray(value)
    if array.shape or not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{label} must be an integer; it is {array.dtype}{list(array.shape)}.")
    # Unsigned ones wrap around where a difference is negative, and small ones where it is large.
    return array.astype(jnp.asarray(0).dtype) if is_traced else int(array)
