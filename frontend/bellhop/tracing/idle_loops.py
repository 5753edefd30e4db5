"""Removal of loops that never run.

In ``jax.lax.fori_loop(0, n, body, x)`` with a constant ``n`` of zero, the condition is false at
first::

    _ y = while[cond={ lambda ; i x. let c = lt i 0 in (c,) } body=...] 0 x    in (y,)

``drop_idle_loops`` returns the jaxpr without the loop, whose results are its initial values::

    in (x,)

XLA removes such loops too. It crashes if the body calls a function that contains a loop, as for
the function of a circuit: its pass ``while-loop-simplifier`` reads a function that it has freed.
"""

from typing import Any

import jax
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import while_p

from bellhop.jaxprs.equations import replace_inner_jaxprs
from bellhop.tracing.dce import eliminate_dead_code


def drop_idle_loops(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace the results of loops whose condition is false at first by their initial values.

    Loops at any depth are replaced if their condition depends on literals only.

    Returns:
        the new jaxpr, with the same inputs and results; `closed` itself if it has no such loops.
    """
    jaxpr = closed.jaxpr
    replaced: dict[Any, Any] = {}
    equations: list[JaxprEqn] = []

    def find_atom(atom: Any) -> Any:
        """Return the initial value for the result of a removed loop; else the atom."""
        return atom if isinstance(atom, Literal) else replaced.get(atom, atom)

    for old in jaxpr.eqns:
        eqn = replace_inner_jaxprs(old, drop_idle_loops)
        if replaced:
            eqn = eqn.replace(invars=list(map(find_atom, eqn.invars)))
        if eqn.primitive is while_p and _is_idle(eqn):
            n_consts = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
            replaced.update(zip(eqn.outvars, eqn.invars[n_consts:], strict=True))
        else:
            equations.append(eqn)
    is_same = len(equations) == len(jaxpr.eqns)
    if is_same and all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    outvars = list(map(find_atom, jaxpr.outvars))
    return ClosedJaxpr(jaxpr.replace(eqns=equations, outvars=outvars), closed.consts)


def _is_idle(eqn: JaxprEqn) -> bool:
    """Return whether the condition of a ``while`` depends on literals only, and is false."""
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    condition = eqn.params["cond_jaxpr"]
    operands = [*eqn.invars[:n_cond], *eqn.invars[n_cond + n_body :]]
    if not any(isinstance(operand, Literal) for operand in operands) or condition.effects:
        return False
    known, needed = eliminate_dead_code(condition, [True])
    used = [operand for operand, yes in zip(operands, needed, strict=True) if yes]
    if not all(isinstance(operand, Literal) for operand in used):
        return False
    with jax.ensure_compile_time_eval():
        (runs,) = eval_jaxpr(known.jaxpr, known.consts, *(operand.val for operand in used))
    return not np.asarray(runs)
