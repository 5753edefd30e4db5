"""Conversion of conditions and loop bounds to scalars."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.control_flow.eager_mode import is_eager, is_outcome


def as_predicate(construct: str, value: Any) -> Any:
    """Convert a condition to a bool if it is static, else to a traced bool scalar.

    A number counts as true if it is not zero. While Python executes control flow eagerly, a tracer
    is converted to a bool too, which raises JAX's error unless its value is known.

    Args:
        construct: name of the construct, such as ``cond``, for errors.
        value: the condition: a bool or number, an array, or a tracer.

    Returns:
        ``True`` or ``False``; for a tracer in compiled control flow, a traced bool scalar.

    Raises:
        TypeError: if the condition is not a scalar number or bool.
    """
    if not isinstance(value, bool | int | float | complex) and not hasattr(value, "dtype"):
        raise _not_scalar_error(construct, value)
    is_traced = isinstance(value, jax.core.Tracer)
    if is_traced and is_eager():
        return bool(value)
    array = value if is_traced else np.asarray(value)
    if not is_traced and array.dtype.kind not in "biufc":
        raise _not_scalar_error(construct, value)
    if array.shape:
        raise TypeError(f"{construct}: a condition must be a scalar, got the shape {array.shape}.")
    return array != 0 if is_traced else bool(array)


def _not_scalar_error(construct: str, value: object) -> TypeError:
    """Make the error for a condition of a wrong type, such as a string.

    For PennyLane's ``MeasurementValue`` it advises to compile the QNode.
    """
    remedy = (
        "Compile the QNode with bellhop.qjit, where mid-circuit outcomes are such conditions."
        if is_outcome(value)
        else "Pass a bool, a number or a scalar array."
    )
    return TypeError(
        f"{construct}: a condition must be a bool or a number, got a {type(value).__name__}. "
        f"{remedy}"
    )


def as_integer(label: str, value: Any) -> Any:
    """Convert an integer to a Python int if it is static, else to a signed tracer.

    The tracer has JAX's default integer type, so that differences of bounds do not wrap around.

    Args:
        label: description of the number, for errors.
        value: the number: an int, a scalar array, or a tracer.

    Returns:
        an ``int``, also for a tracer while Python executes control flow eagerly; else the tracer.

    Raises:
        TypeError: if it is not a scalar integer.
    """
    is_traced = isinstance(value, jax.core.Tracer)
    if is_traced and is_eager():
        return operator.index(value)
    array = value if is_traced else np.asarray(value)
    if array.shape or not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{label} must be an integer, got {array.dtype}{list(array.shape)}.")
    # Unsigned integers wrap around for negative differences, and small types for large differences.
    return array.astype(jnp.asarray(0).dtype) if is_traced else int(array)
