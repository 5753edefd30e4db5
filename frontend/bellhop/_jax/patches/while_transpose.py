"""Reverse mode of ``while``, in derivatives of ours.

For ``f = lambda x, n: jax.lax.fori_loop(0, n, lambda i, c: c * x, 1.0)``::

    bellhop.qjit(bellhop.grad(f))(2.0, 3)     12.0
    jax.jit(jax.grad(f))(2.0, 3)              ValueError: Reverse-mode differentiation does not ...

Replaced: the transpose rule of ``while_p``.  JAX's raises an error, and outside derivatives of ours
it still does.  Before jax 0.10.2 also its JVP rule, which fails where the arguments of the
condition have no names.  A loop that reverse mode has split has such a condition, so the rule is
needed for second derivatives.
Versions: 0.10 to 0.12.
Upstream: nothing for the transpose rule; JAX refers users to ``jax.custom_vjp``.
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
def patch_while_transpose(make_rule: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Register ``make_rule(rule)``, of JAX's own ``rule``, as transpose rule of ``while_p``."""
    ad.primitive_transposes[while_p] = make_rule(ad.primitive_transposes[while_p])
    patch_while_jvp()


def patch_while_jvp() -> None:
    """Let loops be differentiated whose conditions have arguments without names."""
    if jax.__version_info__ < (0, 10, 2):
        _differentiate_unnamed_conditions()


@patch("the derivative rule of while", "loops of computed length have second derivatives")
def _differentiate_unnamed_conditions() -> None:
    by_jax = ad.primitive_jvps[while_p]

    def rule(primals: Any, tangents: Any, *, cond_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        jaxpr = cond_jaxpr.jaxpr
        if jaxpr.debug_info.arg_names is None:
            names = jaxpr.debug_info._replace(arg_names=("",) * len(jaxpr.invars))
            cond_jaxpr = ClosedJaxpr(jaxpr.replace(debug_info=names), cond_jaxpr.consts)
        return by_jax(primals, tangents, cond_jaxpr=cond_jaxpr, **params)

    ad.primitive_jvps[while_p] = rule
