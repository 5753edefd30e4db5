"""Rewrite a jaxpr so that the operands of ``pack`` are computed as one vector.

For ``pack`` of 1.5 times the sine of each of the four elements of ``a``::

    c = slice[0:1] a; d = squeeze c; e = sin d; f = mul 1.5 e
    g = slice[1:2] a; h = squeeze g; i = sin h; j = mul 1.5 i
    ...
    k = pack f j n r

becomes ::

    b = slice[0:4] a; d = squeeze (reshape[(4, 1)] b); e = sin d; k = mul 1.5 e

A circuit of unrolled gates has thousands of such equations, which differ in a constant or an index.
XLA needs about 10 ms to compile each of them, and reverse mode doubles their number.  So a circuit
is rewritten before it is differentiated, batched or lowered.  ``vector_plans`` finds the equations
that can be merged.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import jit_p

from bellhop._jax.jaxprs import bind_equation, dce
from bellhop.base.types import Operand
from bellhop.circuits.ir.vectorize.stack_scalars import pack_p
from bellhop.circuits.ir.vectorize.vector_plans import MIN_VECTOR_SIZE, VectorPlanner
from bellhop.jaxprs.equations import replace_inner_jaxprs
from bellhop.jaxprs.jaxpr_interpreter import Rule, interpret_with


def vectorize_jaxpr(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Rewrite a jaxpr so that the operands of each ``pack`` are computed as a vector.

    Results are the same. Operands without common structure are still computed as scalars.

    Args:
        closed: any jaxpr.  Jaxprs of loops and conditionals in it are rewritten too.

    Returns:
        the new jaxpr; ``closed`` itself if nothing in it can be vectorized.
    """
    jaxpr = closed.jaxpr
    equations = [_vectorize_inner_jaxprs(eqn) for eqn in jaxpr.eqns]
    packs = {
        number: eqn.invars
        for number, eqn in enumerate(equations)
        if eqn.primitive is pack_p and len(eqn.invars) >= MIN_VECTOR_SIZE
    }
    planner = VectorPlanner(equations if packs else ())
    plans = {
        number: plan for number, atoms in packs.items() if (plan := planner.plan(atoms)) is not None
    }
    if not plans:
        if all(map(lambda new, old: new is old, equations, jaxpr.eqns)):
            return closed
        return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)
    # A plan reads inputs of the scalar expressions, and not the operands of `pack`.
    planned = [
        eqn.replace(
            invars=(reads := list(dict.fromkeys(plans[number].iterate_inputs()))),
            params={"plan": plans[number], "reads": reads, "size": len(eqn.invars)},
        )
        if number in plans
        else eqn
        for number, eqn in enumerate(equations)
    ]
    replaced = ClosedJaxpr(jaxpr.replace(eqns=planned), closed.consts)
    live, _ = dce(replaced, [True] * len(jaxpr.outvars), [True] * len(jaxpr.invars))
    run = lambda *inputs: interpret_with(live, _choose_rule, *inputs)
    return jax.make_jaxpr(run)(*live.in_avals)


def _choose_rule(eqn: JaxprEqn) -> Rule:
    """Return the rule that evaluates an equation.

    A ``pack`` with a plan in its parameters is evaluated by the plan; any other equation is bound.
    """
    return _evaluate_plan if eqn.primitive is pack_p and eqn.params else bind_equation


def _evaluate_plan(eqn: JaxprEqn, *operands: Operand) -> list[Any]:
    """Evaluate a ``pack`` equation by the plan in its parameters.

    ``operands`` are the values of the variables that the plan reads.

    Returns:
        a list with the vector.
    """
    values = dict(zip(eqn.params["reads"], operands, strict=True))
    vector = eqn.params["plan"].evaluate(values.__getitem__)
    # The plan returns a scalar if all elements are equal.
    return [vector if np.ndim(vector) else jnp.broadcast_to(vector, (eqn.params["size"],))]


def _vectorize_inner_jaxprs(eqn: JaxprEqn) -> Any:
    """Vectorize the jaxprs in an equation, such as a loop; leave a ``jit`` unchanged."""
    return eqn if eqn.primitive is jit_p else replace_inner_jaxprs(eqn, vectorize_jaxpr)
