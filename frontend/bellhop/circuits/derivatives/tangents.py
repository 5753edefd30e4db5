"""Tangents: symbolic zeros, and vectors of tangents that are split into arrays.

``split(jnp.arange(6.0), [(2,), (2, 2)])`` returns ``[[0. 1.], [[2. 3.], [4. 5.]]]``.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.circuits.precision import real_type


def is_given(tangent: Any) -> bool:
    """Tell whether a tangent is an array with elements, not a symbolic zero."""
    return type(tangent) is not ad.Zero and tangent.size > 0


def symbolic_zero(value: Any) -> Any:
    """Return the symbolic zero tangent of a value."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def with_amplitudes_last(operands: Any) -> Any:
    """Return operands, or their tangents, whose amplitudes are the last of the parameters.

    Args:
        operands: a named tuple with ``params`` and ``amplitudes``.
    """
    params = jnp.concatenate([operands.params, operands.amplitudes])
    return operands._replace(params=params, amplitudes=jnp.zeros(0, real_type()))


def split(array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Split an array along its last axis; in each part, a shape takes the place of that axis."""
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [
        array[..., start:end].reshape(*array.shape[:-1], *shape)
        for (start, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    ]
