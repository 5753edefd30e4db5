"""Reverse mode of ``while`` loops, inside of Bellhop's derivatives.

For ``f = lambda x, n: jax.lax.fori_loop(0, n, lambda i, c: c * x, 1.0)``::

    bellhop.qjit(bellhop.grad(f))(2.0, 3)     12.0
    jax.jit(jax.grad(f))(2.0, 3)              ValueError: Reverse-mode differentiation does not ...

Replaced: the transpose rule of ``while_p``.  JAX's rule raises an error, and still does outside of
Bellhop's derivatives.  For jax before 0.10.2 also the JVP rule, which fails if the arguments of the
condition have no names, as in loops that reverse mode has split.  Second derivatives need it.
Versions: 0.10 to 0.12.
Upstream: reverse mode of ``while``, for which JAX refers users to ``jax.custom_vjp``.
Issue: jax#83.
Installed: when the first derivative needs it.
Test: ``test_derivatives_of_long_loops.py``, ``test_higher_derivatives_in_dynamic_loops.py``.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import while_p
from jax.interpreters import ad

from bellhop._patching import patch, replace_item


@patch("the transposition rule of while", "loops with a dynamic trip count have a reverse mode")
def patch_while_transpose(make_rule: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace JAX's transpose rule of ``while``, to give loops a reverse mode.

    JAX's rule raises an error. This function also calls `patch_while_jvp`, since the new rule
    differentiates loops whose condition has unnamed arguments.

    Args:
        make_rule: takes JAX's rule, returns the new rule, which may call JAX's.
    """
    rule = make_rule(ad.primitive_transposes[while_p])
    replace_item(ad.primitive_transposes, while_p, rule)
    patch_while_jvp()


def patch_while_jvp() -> None:
    """Allow differentiation of ``while`` loops whose condition has unnamed arguments.

    Does nothing since jax 0.10.2, which supports them.
    """
    if jax.__version_info__ < (0, 10, 2):
        _differentiate_unnamed_conditions()


@patch("the derivative rule of while", "loops with a dynamic trip count have second derivatives")
def _differentiate_unnamed_conditions() -> None:
    """Replace the JVP rule of ``while``, to support conditions with unnamed arguments.

    JAX's rule fails for a condition whose ``debug_info.arg_names`` is None.
    """
    apply_jax_rule = ad.primitive_jvps[while_p]

    def rule(primals: Any, tangents: Any, *, cond_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        """Give names to the arguments of a loop's condition, and apply JAX's JVP rule."""
        jaxpr = cond_jaxpr.jaxpr
        if jaxpr.debug_info.arg_names is None:
            names = jaxpr.debug_info._replace(arg_names=("",) * len(jaxpr.invars))
            cond_jaxpr = ClosedJaxpr(jaxpr.replace(debug_info=names), cond_jaxpr.consts)
        return apply_jax_rule(primals, tangents, cond_jaxpr=cond_jaxpr, **params)

    replace_item(ad.primitive_jvps, while_p, rule)
