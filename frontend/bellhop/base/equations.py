"""Evaluating a jaxpr a few equations at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

from jax.core import eval_jaxpr
from jax.extend.core import Literal


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
