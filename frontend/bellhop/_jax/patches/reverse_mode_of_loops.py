"""Rules of ``while``, for our own derivatives.

Replaced: the transpose rule of ``while_p``, which raises in JAX; elsewhere it still does.  In JAX
before 0.10.2 also its JVP rule, which fails for conditions whose arguments have no names, as those
of a loop have that reverse mode has split: the second derivative in such a loop.
Versions: 0.10 and 0.11.
Upstream: none for the transpose rule; JAX leaves it to ``jax.custom_vjp``.
Installed: by the first derivative that needs it.
Test: ``test_derivatives_of_long_loops.py``, ``test_higher_derivatives_in_dynamic_loops.py``.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import while_p
from jax.interpreters import ad

from bellhop._patching import patch


@patch("the transposition rule of while", "loops of computed length have a reverse mode")
def transpose_loops_by(make_rule: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Register ``make_rule(the rule of JAX)`` as transpose rule of ``while_p``."""
    ad.primitive_transposes[while_p] = make_rule(ad.primitive_transposes[while_p])
    if jax.__version_info__ < (0, 10, 2):
        _differentiate_conditions_without_names()


@patch("the derivative rule of while", "loops of computed length have second derivatives")
def _differentiate_conditions_without_names() -> None:
    by_jax = ad.primitive_jvps[while_p]

    def rule(primals: Any, tangents: Any, *, cond_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        jaxpr = cond_jaxpr.jaxpr
        if jaxpr.debug_info.arg_names is None:
            names = jaxpr.debug_info._replace(arg_names=("",) * len(jaxpr.invars))
            cond_jaxpr = ClosedJaxpr(jaxpr.replace(debug_info=names), cond_jaxpr.consts)
        return by_jax(primals, tangents, cond_jaxpr=cond_jaxpr, **params)

    ad.primitive_jvps[while_p] = rule
