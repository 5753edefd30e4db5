"""Step sizes of finite differences for each precision."""

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

# PennyLane and Catalyst use the same step for float64.
_STEPS = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 5e-4}


def finite_diff_step(dtype: DTypeLike, depth: int = 0) -> float:
    """Return the step of finite differences, such as 1e-7 for float64.

    The step is about the square root of the machine epsilon, which balances the rounding error of
    the difference against its truncation error. For nested differences the step is larger, since
    the values are less precise.

    Args:
        dtype: floating-point or complex dtype of the function's values.
        depth: number of finite differences that the function's values contain already; 0 for a
            first derivative.
    """
    limits = jnp.finfo(dtype)
    step = _STEPS.get(np.dtype(limits.dtype), math.sqrt(limits.eps))
    return step ** (0.5**depth)
