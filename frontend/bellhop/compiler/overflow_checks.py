"""Results of callbacks that their declared type may not hold.

As in NumPy, an integer is an error then, and a floating-point number becomes infinite with a
warning, by ``np.errstate``.  NumPy's own would name a line of JAX's, and no callback.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.errors import format_value


def accepts_number(dtype: np.dtype, value: object) -> bool:
    """Tell whether a type takes a Python number's kind."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return dtype != np.bool_
    wanted = jnp.inexact if isinstance(value, float) else jnp.complexfloating
    return jax.dtypes.issubdtype(dtype, wanted)


def cast_to_declared(returned: str, site: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a number or an array of another width in the declared type.

    Args:
        returned: what was returned, and by which callback, for errors and warnings.
        site: ``file:line`` of the call.
        value: a Python number whose kind the type takes, or an array.
        dtype: the declared type.

    Raises:
        OverflowError: for a Python integer that the type does not hold.
        FloatingPointError: for a number that becomes infinite, under
            ``np.errstate(over="raise")``.
    """
    is_inexact = jax.dtypes.issubdtype(dtype, jnp.inexact)
    if isinstance(value, int) and not (is_inexact and _is_float(value)):
        raise OverflowError(
            f"{returned}: Python integer {format_value(value)} out of bounds for {dtype.name}. "
            f"Declare "
            "a type that holds it."
        )
    array = np.asarray(value if isinstance(value, np.ndarray | complex) else float(value))
    with np.errstate(all="ignore"):
        stored = array.astype(dtype)
        overflows = is_inexact and (_is_finite(array) & ~_is_finite(stored)).any()
    if overflows:
        what = f"{value} is" if array.ndim == 0 else "it has numbers"
        becomes = f"becomes {stored}" if array.ndim == 0 else "they become infinite"
        _report_overflow(
            f"{returned}: {what} beyond the range of {dtype.name}, and {becomes}. Declare a type "
            "that holds it, or return np.inf where that is meant.",
            site,
        )
    return stored


def _is_float(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is_finite(array: np.ndarray) -> Any:
    # NumPy asks types of ml_dtypes too, but for some of those without infinity.
    is_known = array.dtype.kind in "fc"
    return np.isfinite(array if is_known else array.astype(np.float32))


def _report_overflow(message: str, site: str) -> None:
    """Warn, or raise, as NumPy is told to where a cast overflows."""
    mode = np.geterr()["over"]
    if mode == "raise":
        raise FloatingPointError(message)
    if mode != "ignore":
        file, _, line = site.rpartition(":")
        warnings.warn_explicit(message, RuntimeWarning, file or site, int(line or 0))
