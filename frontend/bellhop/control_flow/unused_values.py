"""Loops whose length the program computes, without what nobody uses.

JAX leaves such a loop out as a whole or not at all.  What computes only a value that nobody uses
may be all of a loop's gates: in the linear part of a circuit, for one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.patches.unused_values_of_loops import register_dce_rule_of_while
from bellhop._jax.private import without_unused


def equations(jaxpr: Any) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr, and those of the jaxprs in their parameters."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in _jaxprs_in(eqn):
            yield from equations(inner)


def leaf_equations(jaxpr: Any) -> Iterator[JaxprEqn]:
    """Yield those equations of a jaxpr that hold no others."""
    return (eqn for eqn in equations(jaxpr) if next(_jaxprs_in(eqn), None) is None)


def _jaxprs_in(eqn: JaxprEqn) -> Iterator[Any]:
    for value in eqn.params.values():
        for inner in value if isinstance(value, tuple | list) else [value]:
            if hasattr(inner, "eqns"):
                yield inner
            elif hasattr(inner, "jaxpr") and hasattr(inner.jaxpr, "eqns"):
                yield inner.jaxpr


def needed_values(
    body: ClosedJaxpr, n_consts: int, carried: Sequence[bool], others: Sequence[bool] = ()
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """Leave out of a loop's body what is not needed for what it carries.

    Args:
        body: from constants and carried values to carried values and others.
        n_consts: how many constants there are.
        carried: which of the carried values are needed, by the loop's condition or after it.
        others: which of the other results are needed.

    Returns:
        the body, which of its constants it takes, and which carried values: those that the
        needed ones of a later iteration need, too.
    """
    carried = list(carried)
    while True:
        pruned, inputs = without_unused(body, [*carried, *others], [False] * n_consts + carried)
        if inputs[n_consts:] == carried:
            return pruned, inputs[:n_consts], carried
        carried = inputs[n_consts:]


def _without_unused(used: list[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    if eqn.effects:
        return [True] * len(eqn.invars), eqn
    if not any(used):
        return [False] * len(eqn.invars), None
    n_cond = eqn.params["cond_nconsts"]
    _, by_condition = without_unused(eqn.params["cond_jaxpr"], [True])
    carried = [a or b for a, b in zip(used, by_condition[n_cond:], strict=True)]
    n_body = eqn.params["body_nconsts"]
    body, by_body, carried = needed_values(eqn.params["body_jaxpr"], n_body, carried)
    condition, by_condition = without_unused(
        eqn.params["cond_jaxpr"], [True], [False] * n_cond + carried
    )
    needed = [*by_condition[:n_cond], *by_body, *carried]
    params = {
        "cond_jaxpr": condition,
        "cond_nconsts": sum(by_condition[:n_cond]),
        "body_jaxpr": body,
        "body_nconsts": sum(by_body),
    }
    return needed, eqn.replace(
        invars=[var for var, yes in zip(eqn.invars, needed, strict=True) if yes],
        outvars=[var for var, yes in zip(eqn.outvars, carried, strict=True) if yes],
        params={**eqn.params, **params},
    )


def prune_loops() -> None:
    """Let JAX leave out of loops what nobody uses, from now on."""
    register_dce_rule_of_while(_without_unused)
