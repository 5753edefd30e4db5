"""Going through the equations of a jaxpr, and evaluating it a few of them at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal


def equations_of(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr, and those of the jaxprs in their parameters."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from equations_of(inner)


def inner_jaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Yield the jaxprs in the parameters of an equation: bodies of loops, and branches."""
    for value in eqn.params.values():
        for inner in value if isinstance(value, tuple | list) else [value]:
            if isinstance(inner, ClosedJaxpr):
                yield inner.jaxpr
            elif isinstance(inner, Jaxpr):
                yield inner


def with_inner_jaxprs(eqn: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """Return an equation with other jaxprs in its parameters; itself where all are the same."""

    def part(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return change(value)
        if type(value) is tuple and any(isinstance(each, ClosedJaxpr) for each in value):
            parts = tuple(map(part, value))
            return (
                value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
            )
        return value

    params = {name: part(value) for name, value in eqn.params.items()}
    if all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return eqn.replace(params=params)


def evaluate(jaxpr: Any, equations: Sequence[Any], values: dict[Any, Any]) -> None:
    """Evaluate a run of equations of a jaxpr.

    Args:
        jaxpr: the jaxpr that they are of.
        equations: in order.
        values: those of the variables; the results are added.
    """
    inputs = list(dict.fromkeys(inputs_of(equations)))
    outputs = [var for eqn in equations for var in eqn.outvars]
    part = jaxpr.replace(
        constvars=inputs,
        invars=[],
        outvars=outputs,
        eqns=equations,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    results = eval_jaxpr(part, [values[var] for var in inputs])
    values.update(zip(outputs, results, strict=True))


def inputs_of(equations: Sequence[Any]) -> Iterator[Any]:
    """Yield the variables that a run of equations reads and does not make."""
    made: set[Any] = set()
    for eqn in equations:
        for atom in eqn.invars:
            if not isinstance(atom, Literal) and atom not in made:
                yield atom
        made.update(eqn.outvars)


def read(atom: Any, values: dict[Any, Any]) -> Any:
    """Return the value of a variable or a literal."""
    return atom.val if isinstance(atom, Literal) else values[atom]
