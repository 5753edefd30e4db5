"""A transpose rule of ``while``, for our own derivatives.

Replaced: the transpose rule of ``while_p``, which raises in JAX; elsewhere it still does.
Versions: 0.10 and 0.11.
Upstream: none; JAX leaves it to ``jax.custom_vjp``.
Installed: by the first derivative that needs it.
Test: ``test_derivatives_of_long_loops.py``.
"""

from collections.abc import Callable
from typing import Any

from jax.extend.core.primitives import while_p
from jax.interpreters import ad

from bellhop._patching import patch


@patch("the transposition rule of while", "loops of computed length have a reverse mode")
def transpose_loops_by(make_rule: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Register ``make_rule(the rule of JAX)`` as transpose rule of ``while_p``."""
    ad.primitive_transposes[while_p] = make_rule(ad.primitive_transposes[while_p])
