"""Step sizes of finite differences for each precision."""

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

# PennyLane and Catalyst use the same step for float64.
_STEPS = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 5e-4}


def finite_diff_step(dtype: DTypeLike, depth: int = 0) -> float:
    """Return the step of finite differences for function values of a dtype.

    The step is 1e-7 for float64, 5e-4 for float32, and otherwise the square root of the machine
    epsilon, which balances the rounding error of the difference against its truncation error. For
    nested differences the step is larger, ``step ** (0.5**depth)``, since the values are less
    precise.

    Args:
        dtype: dtype of the function's values, floating-point, or complex for the step of its real
            dtype.
        depth: number of finite differences that the function's values contain already; 0 for a
            first derivative.
    """
    limits = jnp.finfo(dtype)
    step = _STEPS.get(np.dtype(limits.dtype), math.sqrt(limits.eps))
    return step ** (0.5**depth)
