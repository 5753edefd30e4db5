"""Promote half-precision parameters, which JAX supports and simulators do not."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.precision import Precision


def promote_half_precision(operator: Any) -> Any:
    """Cast an operator's half-precision parameters to single precision.

    Args:
        operator: PennyLane operator.

    Returns:
        a copy in which float32 arrays replace the parameters in half precision; ``operator`` itself
        if there are none.
    """
    parameters = get_parameters(operator)
    data = list(map(_promote, parameters))
    if all(new is old for new, old in zip(data, parameters, strict=True)):
        return operator
    return replace_parameters(operator, data)


def _promote(value: Any) -> Any:
    """Cast a half-precision array to float32; return other values unchanged."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not _is_half_precision(dtype):
        return value
    return value.astype(np.float32)


@functools.cache
def _is_half_precision(dtype: Any) -> bool:
    """Return whether a dtype is floating-point with fewer than 32 bits."""
    return Precision.is_inexact(dtype) and jnp.finfo(dtype).bits < 32
