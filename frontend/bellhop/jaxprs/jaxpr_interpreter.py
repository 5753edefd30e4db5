"""The one interpreter of jaxprs: evaluates the equations of a jaxpr, with rules for some of them.

A rule takes an equation and the values of its operands, and returns the values of its results.
With the rule that a sine is a cosine, ``lambda _, x: [jnp.cos(x)]``, ``rewrite`` makes of ::

    { lambda ; x. let
        y = scan[jaxpr={ lambda ; y i. let z = sin y in (z,) } length=3] x [0 1 2]
      in (y,) }

the jaxpr ::

    { lambda ; x. let
        y = scan[jaxpr={ lambda ; y i. let z = cos y in (z,) } length=3] x [0 1 2]
      in (y,) }
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive

from bellhop._jax.jaxprs import EquationContext, bind_equation
from bellhop.base.types import Operand
from bellhop.jaxprs.equations import replace_inner_jaxprs

# Takes an equation and the values of its operands; returns the values of its results.
Rule = Callable[..., Sequence[Any]]
Rules = Mapping[Primitive, Rule]


def interpret(closed: ClosedJaxpr, rules: Rules, *inputs: Operand) -> list[Any]:
    """Evaluate a jaxpr; an equation without a rule is what it is.

    Args:
        closed: the jaxpr.
        rules: by the primitive of an equation.
        inputs: values.
    """
    return interpret_with(closed, lambda eqn: rules.get(eqn.primitive, bind_equation), *inputs)


def interpret_with(
    closed: ClosedJaxpr, rule_of: Callable[[JaxprEqn], Rule], *inputs: Operand
) -> list[Any]:
    """Evaluate a jaxpr by a rule for each of its equations.

    Args:
        closed: the jaxpr.
        rule_of: takes an equation, and returns its rule.
        inputs: values.
    """
    jaxpr = closed.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *inputs), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        with EquationContext(eqn):
            results = rule_of(eqn)(eqn, *map(read, eqn.invars))
        values.update(zip(eqn.outvars, results, strict=True))
    return list(map(read, jaxpr.outvars))


def rewrite(closed: ClosedJaxpr, rules: Rules) -> ClosedJaxpr:
    """Return a jaxpr in which rules are applied, those of its loops and branches first.

    Args:
        closed: the jaxpr.
        rules: by the primitive of an equation.

    Returns:
        the new jaxpr; ``closed`` itself where no rule applies.
    """
    jaxpr = closed.jaxpr
    equations = [
        replace_inner_jaxprs(eqn, lambda inner: rewrite(inner, rules)) for eqn in jaxpr.eqns
    ]
    if any(eqn.primitive in rules for eqn in equations):
        changed = ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)
        run = lambda *inputs: interpret(changed, rules, *inputs)
        return jax.make_jaxpr(run)(*closed.in_avals)
    if all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)
