"""Loops of computed length carry no value that nobody uses.

Replaced: nothing; added is a dead-code rule of ``while``, where JAX has none.  Without it such a
loop is left out as a whole or not at all; what computes an unused value may be all gates of a loop.
Versions: 0.10; one of JAX's own stays.
Upstream: a rule of JAX's.  Our own jaxprs could be pruned by ourselves instead.
Put in: when a circuit is first traced, and by the first derivative of ``bellhop.grad``.
Test: ``test_derivatives_of_long_loops.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import while_p

from bellhop._jax.patches import patch


@patch("the dead-code rule of while", "unused values of loops are not computed")
def leave_unused_values_out(rule: Callable[[list[bool], JaxprEqn], Any]) -> None:
    """Register what is left of a loop some of whose results nobody uses, where JAX does not."""
    partial_eval.dce_rules.setdefault(while_p, rule)
