"""Conversion of callback results to their declared types, with overflow checks.

As in NumPy, integers out of range raise an error, and floating-point numbers out of range become
infinite with a warning, as configured by ``np.errstate``. NumPy's own warning would name a line of
JAX and not the callback.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.errors import format_value


def accepts_number(dtype: np.dtype, value: object) -> bool:
    """Return whether a dtype accepts a Python number that a callback returned.

    Only the kind of the number counts, not its value. All dtypes accept a bool, all dtypes but bool
    an int, floating-point and complex dtypes a float, and complex dtypes a complex number.
    """
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return dtype != np.bool_
    wanted = jnp.inexact if isinstance(value, float) else jnp.complexfloating
    return jax.dtypes.issubdtype(dtype, wanted)


def cast_to_declared(returned: str, site: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Convert a callback's result, a number or an array, to the declared dtype.

    Args:
        returned: description of the value and its callback, for errors and warnings.
        site: ``file:line`` of the call.
        value: a Python number that `accepts_number` accepts, or a NumPy array of another width. The
            runtime itself converts integers in the range of an integer dtype.
        dtype: the declared dtype.

    Returns:
        a NumPy array of this dtype.

    Raises:
        OverflowError: for a Python integer out of range.
        FloatingPointError: for a number that becomes infinite, under ``np.errstate(over="raise")``.

    Warns:
        RuntimeWarning: for a number that becomes infinite, under other settings but ``"ignore"``.
    """
    is_inexact = jax.dtypes.issubdtype(dtype, jnp.inexact)
    if isinstance(value, int) and not (is_inexact and _fits_in_float(value)):
        raise OverflowError(
            f"{returned}: Python integer {format_value(value)} out of bounds for {dtype.name}. "
            "Declare a type that can hold the number, or return a number within the declared type."
        )
    array = np.asarray(value if isinstance(value, np.ndarray | complex) else float(value))
    with np.errstate(all="ignore"):
        stored = array.astype(dtype)
        overflows = is_inexact and (_is_finite(array) & ~_is_finite(stored)).any()
    if overflows:
        what = f"{value} is" if array.ndim == 0 else "it has numbers"
        becomes = f"becomes {stored}" if array.ndim == 0 else "they become infinite"
        _report_overflow(
            f"{returned}: {what} beyond the range of {dtype.name}, and {becomes}. Declare a "
            "wider type, or return np.inf if infinity is meant.",
            site,
        )
    return stored


def _fits_in_float(value: int) -> bool:
    """Return whether an integer is within the range of Python floats."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_finite(array: np.ndarray) -> Any:
    """Return element by element whether an array is finite, also for dtypes such as bfloat16."""
    # `np.isfinite` fails for some ml_dtypes without infinity, so convert these to float32.
    is_known = array.dtype.kind in "fc"
    return np.isfinite(array if is_known else array.astype(np.float32))


def _report_overflow(message: str, site: str) -> None:
    """Warn of an overflow, raise an error or do nothing, as ``np.errstate`` requests.

    Args:
        message: text of the warning or error.
        site: ``file:line`` of the call, to which the warning is attributed.

    Raises:
        FloatingPointError: under ``np.errstate(over="raise")``.
    """
    mode = np.geterr()["over"]
    if mode == "raise":
        raise FloatingPointError(message)
    if mode != "ignore":
        file, _, line = site.rpartition(":")
        warnings.warn_explicit(message, RuntimeWarning, file or site, int(line or 0))
