"""Values whose derivative is an error, where JAX has a wrong one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Operand
from bellhop.control_flow.marks import Mark, marked
from bellhop.errors import DifferentiableCompileError


@dataclass(frozen=True)
class Undifferentiable(Mark):
    """The mark of a value that must not be differentiated, nor what comes with it.

    Attributes:
        obstacle: why it has no derivative.
    """

    obstacle: str

    def tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """Raise the error, unless all tangents are zero."""
        if any(type(tangent) is not ad.Zero for tangent in tangents):
            raise DifferentiableCompileError(self.obstacle)
        return tangents[0]


def undifferentiable(x: Any, obstacle: str, by: Any = None) -> Any:
    """Return ``x``, whose derivative is an error that names the obstacle.

    Args:
        x: an array.
        obstacle: why it has none.
        by: another array, whose derivative is an error too.
    """
    if by is None and not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return marked(x, *([] if by is None else [by]), mark=Undifferentiable(obstacle))
