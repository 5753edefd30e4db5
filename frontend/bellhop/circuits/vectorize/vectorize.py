"""Rewrites a jaxpr: the operands of ``pack`` are computed as one vector.

For ``pack`` of 1.5 times the sine of each of the four elements of ``a``::

    c = slice[0:1] a; d = squeeze c; e = sin d; f = mul 1.5 e
    g = slice[1:2] a; h = squeeze g; i = sin h; j = mul 1.5 i
    ...
    k = pack f j n r

becomes ::

    b = slice[0:4] a; d = squeeze (reshape[(4, 1)] b); e = sin d; k = mul 1.5 e

A circuit of unrolled gates has thousands of such equations, which differ in a constant or an index.
XLA needs about 10 ms to compile each of them, and reverse mode doubles their number.  So a circuit
is rewritten before anything differentiates, batches or lowers it.  ``vector_plans`` finds the
equations that become one.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jax.extend.core.primitives import jit_p

from bellhop.base.equations import evaluate, given_values, inputs_of, read, with_inner_jaxprs
from bellhop.circuits.vectorize.pack import pack_p
from bellhop.circuits.vectorize.vector_plans import Plan, Planner


def vectorized(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that computes the operands of each ``pack`` as a vector, if it can.

    Args:
        closed: any jaxpr.  The jaxprs of loops and conditionals in it are rewritten too.

    Returns:
        the new jaxpr; ``closed`` itself if nothing in it can be vectorized.
    """
    jaxpr = closed.jaxpr
    equations = [_with_vectorized_parts(eqn) for eqn in jaxpr.eqns]
    planner = Planner(equations)
    plans = {
        number: plan
        for number, eqn in enumerate(equations)
        if eqn.primitive is pack_p and (plan := planner.plan(eqn.invars)) is not None
    }
    if not plans:
        if all(map(lambda new, old: new is old, equations, jaxpr.eqns)):
            return closed
        return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)
    steps = _live_steps(equations, plans, jaxpr.outvars)

    def run(*args: Any) -> list[Any]:
        values = given_values(jaxpr, closed.consts, args)

        of = functools.partial(read, values=values)
        for step in steps:
            if isinstance(step, int):
                values[equations[step].outvars[0]] = _broadcast(
                    plans[step].evaluate(of), len(equations[step].invars)
                )
            else:
                evaluate(jaxpr, step, values)
        return [of(atom) for atom in jaxpr.outvars]

    return jax.make_jaxpr(run)(*closed.in_avals)


def _with_vectorized_parts(eqn: Any) -> Any:
    return eqn if eqn.primitive is jit_p else with_inner_jaxprs(eqn, vectorized)


def _live_steps(
    equations: Sequence[Any], plans: dict[int, "Plan"], outvars: Sequence[Any]
) -> list[int | list[Any]]:
    """Return what the new jaxpr evaluates, in order, without what is no longer used.

    Returns:
        for each ``pack`` that has a plan, its number among the equations; between them, lists of
        equations that stay as they are.
    """
    live = {var for var in outvars if not isinstance(var, Literal)}
    steps: list[int | list[Any]] = []
    for number in reversed(range(len(equations))):
        eqn = equations[number]
        if not (eqn.effects or any(var in live for var in eqn.outvars)):
            continue
        if number in plans:
            live.update(plans[number].inputs())
            steps.append(number)
            continue
        live.update(inputs_of([eqn]))
        if not steps or isinstance(steps[-1], int):
            steps.append([])
        steps[-1].append(eqn)  # type: ignore[union-attr]
    for step in steps:
        if isinstance(step, list):
            step.reverse()
    return steps[::-1]


def _broadcast(value: Any, count: int) -> Any:
    """Return the value of a plan as a vector, although all elements may be equal."""
    return value if np.ndim(value) else jnp.broadcast_to(value, (count,))
