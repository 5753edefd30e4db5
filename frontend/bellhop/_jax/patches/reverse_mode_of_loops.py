"""Loops of computed length have a reverse mode, where our own derivatives ask for it.

Replaced: the transposition rule of ``while``, which is an error of JAX's; elsewhere it still is.
Versions: 0.10 and 0.11.
Upstream: none; JAX leaves it to ``jax.custom_vjp``.
Put in: by the first derivative that asks for it.
Test: ``test_derivatives_of_long_loops.py``.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core.primitives import while_p
from jax.interpreters import ad

from bellhop._jax.patches import patch


@patch("the transposition rule of while", "loops of computed length have a reverse mode")
def transpose_loops_by(make_rule: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the rule by one that is made of JAX's."""
    ad.primitive_transposes[while_p] = make_rule(ad.primitive_transposes[while_p])
