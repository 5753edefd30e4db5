"""How far finite differences go, in numbers of each precision."""

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

# The first is PennyLane's and Catalyst's.
_STEPS = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 5e-4}


def finite_diff_step(dtype: DTypeLike, inner: int = 0) -> float:
    """Return the step of finite differences in a type of floats or complex numbers.

    It is about the root of the precision: what rounding takes from the difference of two values
    is divided by the step, and what the slope changes over the step grows with it.  Values that
    are differences themselves are as exact as their step is long.

    Args:
        dtype: of the values.
        inner: how many differences they are made of, one in another.
    """
    limits = jnp.finfo(dtype)
    step = _STEPS.get(np.dtype(limits.dtype), math.sqrt(limits.eps))
    return step ** (0.5**inner)
