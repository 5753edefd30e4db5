"""Helpers for tangents: symbolic zeros, forbidden derivatives, splitting.

``split_last_axis(jnp.arange(6.0), [(2,), (2, 2)])`` returns ``[[0. 1.], [[2. 3.], [4. 5.]]]``.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Operand
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.errors import DifferentiableCompileError
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero


def fill_zero_tangents(
    results: Sequence[Any], tangents: Sequence[Any], is_perturbed: Sequence[bool]
) -> list[Any]:
    """Insert symbolic zeros for the results of a JVP rule that have no tangent.

    Args:
        results: the primal results of the rule.
        tangents: the tangents of the perturbed results only, in order.
        is_perturbed: for each result, whether it has a tangent.

    Returns:
        a tangent for each result: the given one, or a symbolic zero.
    """
    rest = iter(tangents)
    return [
        next(rest) if yes else make_symbolic_zero(result)
        for result, yes in zip(results, is_perturbed, strict=True)
    ]


def split_last_axis(array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Split an array along its last axis, and reshape this axis of each part.

    ``split_last_axis(jnp.arange(6.0), [(2,), (2, 2)])`` has parts of shapes ``[2]`` and ``[2, 2]``.

    Args:
        array: array ``[..., n]``.
        shapes: the shape that replaces the last axis of each part; their sizes add up to ``n``.
    """
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [
        array[..., start:end].reshape(*array.shape[:-1], *shape)
        for (start, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    ]


@dataclass(frozen=True)
class UndifferentiableTag(ValueTag):
    """Tag of a value whose differentiation raises an error; see ``forbid_derivative``.

    A tag is a parameter of an identity equation and defines the equation's rules, here the JVP.
    ``obstacle`` is the error message: why the value has no derivative.
    """

    obstacle: str

    def compute_tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Raise the error if any tangent is not a symbolic zero; else return zero."""
        if any(type(tangent) is not ad.Zero for tangent in tangents):
            raise DifferentiableCompileError(self.obstacle)
        return tangents[0]


def forbid_derivative(x: Any, obstacle: str, by: Any = None) -> Any:
    """Return ``x`` through an identity equation whose differentiation raises an error.

    Args:
        x: array. Without ``by``, an array of integers or booleans is returned as it is.
        obstacle: the message of the ``DifferentiableCompileError``: why ``x`` has no derivative.
        by: another array whose differentiation raises the same error; None for ``x`` alone.
    """
    if by is None and not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return UndifferentiableTag(obstacle).tag(x, *([] if by is None else [by]))
