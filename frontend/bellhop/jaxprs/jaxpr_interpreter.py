"""Interpreter of jaxprs with a custom rule for each primitive.

A rule takes an equation and the values of its operands, and returns the values of its results. With
the rule ``{sin_p: lambda _, x: [jnp.cos(x)]}``, ``rewrite`` turns ::

    { lambda ; x. let
        y = scan[jaxpr={ lambda ; y i. let z = sin y in (z,) } length=3] x [0 1 2]
      in (y,) }

into ::

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

# A rule takes an equation and the values of its operands, and returns the values of its results.
Rule = Callable[..., Sequence[Any]]
Rules = Mapping[Primitive, Rule]


def interpret(closed: ClosedJaxpr, rules: Rules, *inputs: Operand) -> list[Any]:
    """Evaluate a jaxpr with custom rules; bind equations that have no rule.

    Equations inside of loops and branches are not interpreted; see `rewrite`.

    Args:
        closed: the jaxpr.
        rules: by primitive, a function that takes an equation and the values of its operands, and
            returns the values of its results.
        *inputs: arrays or tracers, one for each input of the jaxpr.

    Returns:
        the values of the jaxpr's results.
    """
    return interpret_with(closed, lambda eqn: rules.get(eqn.primitive, bind_equation), *inputs)


def interpret_with(
    closed: ClosedJaxpr, get_rule: Callable[[JaxprEqn], Rule], *inputs: Operand
) -> list[Any]:
    """Evaluate a jaxpr with a function that chooses the rule of each equation.

    Args:
        closed: the jaxpr.
        get_rule: takes an equation; returns its rule: a function that takes the equation and the
            values of its operands, and returns the values of its results.
        *inputs: values of the jaxpr's inputs, of any type that the rules accept.

    Returns:
        the values of the jaxpr's results; for a literal, its value, such as a Python number.
    """
    jaxpr = closed.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *inputs), strict=True))

    def read(atom: Any) -> Any:
        """Return the value of a literal, or the computed value of a variable."""
        return atom.val if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        with EquationContext(eqn):
            results = get_rule(eqn)(eqn, *map(read, eqn.invars))
        values.update(zip(eqn.outvars, results, strict=True))
    return list(map(read, jaxpr.outvars))


def rewrite(closed: ClosedJaxpr, rules: Rules) -> ClosedJaxpr:
    """Replace equations of a jaxpr by custom rules, at any depth.

    Jaxprs of loops, branches and nested ``jit`` functions are replaced first. Each jaxpr that
    contains such an equation is traced again, with the rule in place of the equation.

    Args:
        closed: the jaxpr.
        rules: by primitive, a function that takes an equation and tracers of its operands, and
            returns tracers of its results.

    Returns:
        the new jaxpr; ``closed`` itself if no rule applies.
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
