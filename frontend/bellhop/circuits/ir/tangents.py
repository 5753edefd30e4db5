"""Tangents: symbolic zeros, those that are errors, and vectors of them that are split into arrays.

``split(jnp.arange(6.0), [(2,), (2, 2)])`` returns ``[[0. 1.], [[2. 3.], [4. 5.]]]``.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Operand
from bellhop.control_flow.tagged_values import ValueTag, tag_value
from bellhop.errors import DifferentiableCompileError


def make_symbolic_zero(value: Any) -> Any:
    """Return the symbolic zero tangent of a value."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def fill_zero_tangents(
    results: Sequence[Any], tangents: Sequence[Any], is_perturbed: Sequence[bool]
) -> list[Any]:
    """Return the tangents of results, zeros among them.

    Args:
        results: the results.
        tangents: the tangents of those that have one.
        is_perturbed: for each result, whether it has one.
    """
    rest = iter(tangents)
    return [
        next(rest) if yes else make_symbolic_zero(result)
        for result, yes in zip(results, is_perturbed, strict=True)
    ]


def split_last_axis(array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Split an array along its last axis; in each part, a shape takes the place of that axis."""
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [
        array[..., start:end].reshape(*array.shape[:-1], *shape)
        for (start, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    ]


@dataclass(frozen=True)
class UndifferentiableTag(ValueTag):
    """The mark of a value that must not be differentiated, nor what comes with it.

    Attributes:
        obstacle: why it has no derivative.
    """

    obstacle: str

    def compute_tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Raise the error, unless all tangents are zero."""
        if any(type(tangent) is not ad.Zero for tangent in tangents):
            raise DifferentiableCompileError(self.obstacle)
        return tangents[0]


def forbid_derivative(x: Any, obstacle: str, by: Any = None) -> Any:
    """Return ``x``, whose derivative is an error that names the obstacle.

    Args:
        x: an array.
        obstacle: why it has none.
        by: another array, whose derivative is an error too.
    """
    if by is None and not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return tag_value(x, *([] if by is None else [by]), mark=UndifferentiableTag(obstacle))
