"""Going through the equations of a jaxpr."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import cond_p, scan_p, while_p

from bellhop._jax.jaxprs import scan_counts


def iterate_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr, and those of the jaxprs in their parameters."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from iterate_equations(inner)


def inner_jaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Yield the jaxprs in the parameters of an equation: bodies of loops, and branches."""
    for value in eqn.params.values():
        for inner in value if isinstance(value, tuple | list) else [value]:
            if isinstance(inner, ClosedJaxpr):
                yield inner.jaxpr
            elif isinstance(inner, Jaxpr):
                yield inner


def has_tangent(variable: Any) -> bool:
    """Tell whether a variable may have a tangent: it is no integer, and no handle."""
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def find_dependents(
    jaxpr: Jaxpr, inputs: Sequence[bool], is_counted: Callable[[Any], bool] = lambda variable: True
) -> tuple[list[bool], list[JaxprEqn]]:
    """Return which results of a jaxpr depend on some of its inputs, and which equations do.

    In a loop whose predicate depends on them, and in the branches of such a conditional, all does.
    Of ::

        { lambda ; a b. let
            c = scan[jaxpr={ lambda ; c i. let print i    d = mul c 2.0 in (d,) }] a [0 1 2]
            e = sin b
          in (c, e) }

    ``a`` decides the first result and the ``mul``, and not the ``print``.

    Args:
        jaxpr: the jaxpr.
        inputs: for each input, whether it is one of these.
        is_counted: which variables count; what depends on the inputs by others alone does not.

    Returns:
        for each result whether it may depend on them, and the innermost equations that may.
    """
    by_inputs: set[Any] = set(filter(is_counted, itertools.compress(jaxpr.invars, inputs)))
    found: list[JaxprEqn] = []

    def depends(atom: Any) -> bool:
        return not isinstance(atom, Literal) and atom in by_inputs

    for eqn in jaxpr.eqns:
        given = list(map(depends, eqn.invars))
        if any(given):
            results, equations = _find_dependent_results(eqn, given, is_counted)
            by_inputs.update(filter(is_counted, itertools.compress(eqn.outvars, results)))
            found += equations
    return list(map(depends, jaxpr.outvars)), found


def _find_dependent_results(
    eqn: JaxprEqn, given: list[bool], is_counted: Callable[[Any], bool]
) -> tuple[list[bool], list[JaxprEqn]]:
    params, inner = eqn.params, list(inner_jaxprs(eqn))
    if eqn.primitive is scan_p:
        return _find_dependents_in_loop(inner[0], given, *scan_counts(params), is_counted)
    if eqn.primitive is while_p:
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        body = params["body_jaxpr"].jaxpr
        carried, found = _find_dependents_in_loop(
            body, given[n_cond:], n_body, len(eqn.outvars), is_counted
        )
        condition = params["cond_jaxpr"].jaxpr
        (goes_on,), more = find_dependents(condition, given[:n_cond] + carried, is_counted)
        if not goes_on:
            return carried, found + more
    elif eqn.primitive is cond_p and not given[0]:
        of_branches = [find_dependents(branch, given[1:], is_counted) for branch in inner]
        results = [any(each) for each in zip(*(of for of, _ in of_branches), strict=True)]
        return results, [each for _, found in of_branches for each in found]
    elif len(inner) == 1 and len(inner[0].invars) == len(given):
        return find_dependents(inner[0], given, is_counted)
    return [True] * len(eqn.outvars), [
        eqn,
        *(each for part in inner for each in iterate_equations(part)),
    ]


def _find_dependents_in_loop(
    body: Jaxpr,
    given: list[bool],
    n_consts: int,
    n_carried: int,
    is_counted: Callable[[Any], bool],
) -> tuple[list[bool], list[JaxprEqn]]:
    while True:
        results, found = find_dependents(body, given, is_counted)
        carried = given[n_consts : n_consts + n_carried]
        after = [was or now for was, now in zip(carried, results[:n_carried], strict=True)]
        if after == carried:
            return after + results[n_carried:], found
        given = given[:n_consts] + after + given[n_consts + n_carried :]


def replace_inner_jaxprs(eqn: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """Return an equation with other jaxprs in its parameters; itself where all are the same."""

    def part(value: object) -> Any:
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


def map_equations_reversed(
    jaxpr: Jaxpr, change: Callable[[JaxprEqn, list[bool]], JaxprEqn | None]
) -> list[JaxprEqn]:
    """Return the equations of a jaxpr, each changed by what those after it use.

    Args:
        jaxpr: the jaxpr.
        change: takes an equation, and for each of its results whether it is used; returns what is
            in its place, or None where nothing is.
    """
    used = {var for var in jaxpr.outvars if isinstance(var, Var)}
    equations: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        changed = change(eqn, [var in used for var in eqn.outvars])
        if changed is not None:
            used.update(var for var in changed.invars if isinstance(var, Var))
            equations.append(changed)
    return equations[::-1]


def external_inputs(equations: Sequence[Any]) -> Iterator[Any]:
    """Yield the variables that a run of equations reads and does not make."""
    made: set[Any] = set()
    for eqn in equations:
        for atom in eqn.invars:
            if not isinstance(atom, Literal) and atom not in made:
                yield atom
        made.update(eqn.outvars)
