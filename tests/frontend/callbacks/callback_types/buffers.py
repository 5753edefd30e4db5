"""Buffers that tests of buffer_callback share."""

import jax
import numpy as np

STRUCT = jax.ShapeDtypeStruct
SMALL, LARGE = 8, 100_000


def address(array):
    return array.__array_interface__["data"][0]


def vector(size):
    return STRUCT((size,), np.float64)
