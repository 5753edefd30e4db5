"""Traversal of the equations of a jaxpr."""

import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var
from jax.extend.core.primitives import cond_p, scan_p, while_p

from bellhop._jax.jaxprs import scan_counts


def iterate_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield all equations of a jaxpr, including equations of nested jaxprs.

    An equation, such as a ``scan``, is yielded before the equations in its jaxprs.
    """
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from iterate_equations(inner)


def inner_jaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Yield the jaxprs in an equation's parameters, such as loop bodies and branches.

    Jaxprs inside of these are not yielded; see `iterate_equations`.
    """
    for value in eqn.params.values():
        for inner in value if isinstance(value, tuple | list) else [value]:
            if isinstance(inner, ClosedJaxpr):
                yield inner.jaxpr
            elif isinstance(inner, Jaxpr):
                yield inner


def has_tangent(variable: Any) -> bool:
    """Return whether a variable may have a tangent: its dtype is float or complex."""
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def find_dependents(
    jaxpr: Jaxpr,
    is_source: Sequence[bool],
    is_counted: Callable[[Any], bool] = lambda variable: True,
) -> tuple[list[bool], list[JaxprEqn]]:
    """Find the results and equations of a jaxpr that depend on selected inputs.

    Equations inside of loops, branches and nested ``jit`` functions are found in place of the loop,
    conditional or ``jit``. If the predicate of a loop or a conditional depends on the inputs, the
    loop or conditional and everything inside depends on them.
    With ``is_source=[True, False]`` for ::

        { lambda ; a b. let
            c = scan[jaxpr={ lambda ; c i. let print i    d = mul c 2.0 in (d,) }] a [0 1 2]
            e = sin b
          in (c, e) }

    the first result and the ``mul`` depend on ``a``, and the ``print`` does not.

    Args:
        jaxpr: the jaxpr.
        is_source: for each input of the jaxpr, whether it is selected.
        is_counted: takes a variable; returns whether it propagates dependence. Variables that it
            rejects count as independent.

    Returns:
        for each result whether it may depend on the selected inputs, and the list of equations that
        may, at any depth.
    """
    by_inputs: set[Any] = set(filter(is_counted, itertools.compress(jaxpr.invars, is_source)))
    found: list[JaxprEqn] = []

    def depends(atom: Any) -> bool:
        """Return whether a variable or literal depends on the selected inputs."""
        return not isinstance(atom, Literal) and atom in by_inputs

    for eqn in jaxpr.eqns:
        depends_on_inputs = list(map(depends, eqn.invars))
        if any(depends_on_inputs):
            results, equations = _find_dependent_results(eqn, depends_on_inputs, is_counted)
            by_inputs.update(filter(is_counted, itertools.compress(eqn.outvars, results)))
            found += equations
    return list(map(depends, jaxpr.outvars)), found


def _find_dependent_results(
    eqn: JaxprEqn, is_dependent: list[bool], is_counted: Callable[[Any], bool]
) -> tuple[list[bool], list[JaxprEqn]]:
    """Find the results of one equation, and equations in it, that depend on inputs.

    This is the step of `find_dependents` for one equation.

    Args:
        eqn: the equation, of which at least one operand is dependent.
        is_dependent: for each operand, whether it depends on the selected inputs.
        is_counted: takes a variable; returns whether it propagates dependence.

    Returns:
        for each result whether it may depend on the selected inputs, and the list of equations that
        may: equations inside of `eqn`. If `eqn` has no jaxprs, its predicate may depend on the
        inputs, or its primitive is unknown, then all results, `eqn` and all equations in it.
    """
    params, inner = eqn.params, list(inner_jaxprs(eqn))
    if eqn.primitive is scan_p:
        return _find_dependents_in_loop(inner[0], is_dependent, *scan_counts(params), is_counted)
    if eqn.primitive is while_p:
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        body = params["body_jaxpr"].jaxpr
        carried, found = _find_dependents_in_loop(
            body, is_dependent[n_cond:], n_body, len(eqn.outvars), is_counted
        )
        condition = params["cond_jaxpr"].jaxpr
        (condition_depends,), more = find_dependents(
            condition, is_dependent[:n_cond] + carried, is_counted
        )
        if not condition_depends:
            return carried, found + more
    elif eqn.primitive is cond_p and not is_dependent[0]:
        by_branch = [find_dependents(branch, is_dependent[1:], is_counted) for branch in inner]
        results = [any(each) for each in zip(*(results for results, _ in by_branch), strict=True)]
        return results, [each for _, found in by_branch for each in found]
    elif len(inner) == 1 and len(inner[0].invars) == len(is_dependent):
        return find_dependents(inner[0], is_dependent, is_counted)
    return [True] * len(eqn.outvars), [
        eqn,
        *(each for part in inner for each in iterate_equations(part)),
    ]


def _find_dependents_in_loop(
    body: Jaxpr,
    is_dependent: list[bool],
    n_consts: int,
    n_carried: int,
    is_counted: Callable[[Any], bool],
) -> tuple[list[bool], list[JaxprEqn]]:
    """Find the results of a loop, and equations in its body, that depend on inputs.

    A carried value that depends on them after one iteration does so in all later iterations, so the
    search is repeated until no more carried values are found.

    Args:
        body: jaxpr of one iteration: takes loop-invariant constants, carried values and scanned
            inputs; returns carried values and stacked outputs.
        is_dependent: for each input of `body`, whether it depends on the selected inputs before the
            first iteration.
        n_consts: number of loop-invariant inputs.
        n_carried: number of carried values.
        is_counted: takes a variable; returns whether it propagates dependence.

    Returns:
        for each result of the loop whether it may depend on the selected inputs, and the list of
        equations in `body` that may.
    """
    while True:
        results, found = find_dependents(body, is_dependent, is_counted)
        carried = is_dependent[n_consts : n_consts + n_carried]
        next_carried = [was or now for was, now in zip(carried, results[:n_carried], strict=True)]
        if next_carried == carried:
            return next_carried + results[n_carried:], found
        is_dependent = is_dependent[:n_consts] + next_carried + is_dependent[n_consts + n_carried :]


def replace_inner_jaxprs(eqn: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """Apply `change` to each closed jaxpr in an equation's parameters, not deeper.

    Returns:
        the new equation; `eqn` itself if `change` returns each jaxpr unchanged.
    """

    def replace(value: object) -> Any:
        """Apply `change` to a closed jaxpr, or to the closed jaxprs in a tuple.

        Returns:
            the new value; `value` itself if nothing changes.
        """
        if isinstance(value, ClosedJaxpr):
            return change(value)
        if type(value) is tuple and any(isinstance(each, ClosedJaxpr) for each in value):
            parts = tuple(map(replace, value))
            return (
                value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
            )
        return value

    params = {name: replace(value) for name, value in eqn.params.items()}
    if all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return eqn.replace(params=params)


def change_params(
    closed: ClosedJaxpr,
    primitives: Container[Primitive],
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> ClosedJaxpr:
    """Change the parameters of all equations of some primitives, at any depth.

    Equations that share a jaxpr share its replacement. Rules of ``jax.custom_jvp`` and
    ``custom_vjp``, which JAX traces later, are not changed.

    Args:
        closed: the jaxpr, which stays as it is.
        primitives: primitives of the equations to change, which contain no jaxprs.
        change: takes the parameters of such an equation; returns the new parameters.

    Returns:
        the new jaxpr; `closed` itself if it has no such equations.
    """
    # Original and new jaxpr, by the id of the original.
    done: dict[int, tuple[Any, Any]] = {}

    def replace(value: Any) -> Any:
        """Replace a jaxpr, or the jaxprs in a tuple; return `value` itself if nothing changes."""
        if isinstance(value, tuple):
            parts = [replace(each) for each in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if not isinstance(value, ClosedJaxpr | Jaxpr):
            return value
        if id(value) not in done:
            done[id(value)] = value, replace_jaxpr(value)
        return done[id(value)][1]

    def replace_jaxpr(jaxpr: Any) -> Any:
        """Replace the equations of a jaxpr, closed or not, if any of them changes."""
        # On JAX 0.12, both types are one, and each jaxpr is its own attribute `jaxpr`.
        is_closed = isinstance(jaxpr, ClosedJaxpr)
        inner = jaxpr.jaxpr if is_closed else jaxpr
        equations = list(map(replace_equation, inner.eqns))
        if all(new is old for new, old in zip(equations, inner.eqns, strict=True)):
            return jaxpr
        changed = inner.replace(eqns=equations)
        return ClosedJaxpr(changed, jaxpr.consts) if is_closed else changed

    def replace_equation(eqn: JaxprEqn) -> JaxprEqn:
        """Return the equation with changed parameters, or itself if nothing changes."""
        if eqn.primitive in primitives:
            return eqn.replace(params=change(eqn.params))
        params = {name: replace(value) for name, value in eqn.params.items()}
        is_same = all(params[name] is value for name, value in eqn.params.items())
        return eqn if is_same else eqn.replace(params=params)

    changed: ClosedJaxpr = replace(closed)
    return changed


def map_equations_reversed(
    jaxpr: Jaxpr, change: Callable[[JaxprEqn, list[bool]], JaxprEqn | None]
) -> list[JaxprEqn]:
    """Rewrite a jaxpr's equations from last to first, knowing which results are used.

    Args:
        jaxpr: the jaxpr, which stays as it is.
        change: takes an equation, and for each of its results whether the jaxpr returns it or a
            later, rewritten equation uses it; returns the new equation, or None to remove it.

    Returns:
        the new equations, from first to last.
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
    """Yield the variables that a sequence of equations needs from outside.

    These are the operands that are not results of an earlier equation in the sequence. A variable
    is yielded once for each use. Literals are left out.
    """
    defined: set[Any] = set()
    for eqn in equations:
        for atom in eqn.invars:
            if not isinstance(atom, Literal) and atom not in defined:
                yield atom
        defined.update(eqn.outvars)
