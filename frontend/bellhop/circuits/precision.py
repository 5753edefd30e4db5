"""The precision of circuits: of the numbers in them, and of their results.

The runtime computes in double precision.  The program gives it numbers of the types that it has,
which are single where JAX's 64-bit types are off; what lies between converts
(``bellhop_mlir.dialects.quantum``).  In a program that has both, a circuit computes in double
precision, and its results are as precise as its arguments.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def real_type() -> np.dtype:
    """Return the type of the real numbers of circuits."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def is_double() -> bool:
    """Tell whether the numbers of circuits are in double precision."""
    return real_type() == np.float64


def complex_type() -> np.dtype:
    """Return the type of their complex numbers."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.complex128))


def in_precision_of(inputs: Iterable[Any], results: Any) -> Any:
    """Return the results of a circuit in the precision of what the program gives it.

    Args:
        inputs: arrays of the program, and constants, which do not count.  Integers do not count
            either, nor does a number of Python's beside others; without any that count, the
            precision is double.
        results: a pytree of arrays.
    """
    given = [value for value in inputs if isinstance(value, jax.Array) and _is_inexact(value)]
    if not given or np.finfo(jnp.result_type(*given)).bits > 32:
        return results
    return jax.tree.map(_in_single, results)


def _in_single(value: Any) -> Any:
    if not _is_inexact(value):
        return value
    return jnp.asarray(value, jnp.complex64 if jnp.iscomplexobj(value) else jnp.float32)


def _is_inexact(value: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(value), jnp.inexact)
