"""A DCE rule of ``while``: carried values that nobody uses are not computed.

Replaced: nothing; a rule is added where JAX has none.  Without it DCE drops a ``while`` as a whole
or not at all, and with an unused carried value stays what computes it, such as all gates of a loop.
Versions: 0.10; JAX's own rule, where there is one, stays.
Upstream: a rule in JAX.
Installed: when a circuit is first traced, and by the first derivative of ``bellhop.grad``.
Test: ``test_derivatives_of_long_loops.py``.
"""

from collections.abc import Callable
from typing import Any

from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import while_p

from bellhop._jax.patches import patch


@patch("the dead-code rule of while", "unused values of loops are not computed")
def register_dce_rule_of_while(rule: Callable[[list[bool], JaxprEqn], Any]) -> None:
    """Register a DCE rule of ``while_p``, if JAX has none."""
    partial_eval.dce_rules.setdefault(while_p, rule)
