"""Numbers in half precision, in which no simulator computes."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.gates.operator_data import parameters_of, with_parameters
from bellhop.circuits.ir.precision import is_inexact_type


def not_in_half(operator: Any) -> Any:
    """Return an operator with its numbers in single precision where they are in half.

    JAX has numbers in half precision, in which no simulator computes.
    """
    parameters = parameters_of(operator)
    data = list(map(_at_least_single, parameters))
    if all(new is old for new, old in zip(data, parameters, strict=True)):
        return operator
    return with_parameters(operator, data)


def _at_least_single(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    if dtype is None or not _is_in_half(dtype):
        return value
    return value.astype(np.float32)


@functools.cache
def _is_in_half(dtype: Any) -> bool:
    return is_inexact_type(dtype) and jnp.finfo(dtype).bits < 32
