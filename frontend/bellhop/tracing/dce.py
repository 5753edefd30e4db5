"""Dead code elimination that reaches into ``while``, at any depth.

JAX's DCE removes a ``while`` as a whole or not at all. Here ``b`` is unused::

    a b = while[body={ lambda ; a b. let c = sin a    d = cos b in (c, d) } ...] x y

``eliminate_dead_code`` returns ::

    a = while[body={ lambda ; a. let c = sin a in (c,) } ...] x

In the linear part of a circuit, all gates of a loop may be unused.

JAX's DCE of ``scan`` stops at a ``while`` in the body, for the same reason: the inputs of that loop
seem to be needed in the next iteration.  Here unneeded carried values are returned
unchanged, and then JAX removes them.
"""

from collections.abc import Sequence

from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import scan_p, while_p

from bellhop._jax.jaxprs import dce, scan_counts
from bellhop.jaxprs.equations import iterate_equations, map_equations_reversed, replace_inner_jaxprs

_droppable: set[Primitive] = set()


def register_droppable(primitive: Primitive) -> None:
    """Register a primitive whose unused calls `drop_unused_calls` removes from jaxprs.

    XLA would keep the calls, as it keeps all custom calls.

    Args:
        primitive: a primitive without effects.
    """
    _droppable.add(primitive)


def drop_unused_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove the unused calls of registered primitives from a jaxpr.

    `register_droppable` registers a primitive. If there are such calls, all other unused equations
    are removed as well. The inputs and results of the jaxpr stay.

    Args:
        closed: the jaxpr of a program.

    Returns:
        the new jaxpr; `closed` itself if it has no unused calls of registered primitives.
    """
    if not _count_calls(closed):
        return closed
    pruned, _ = eliminate_dead_code(closed, [True] * len(closed.out_avals), keep=True)
    return closed if _count_calls(pruned) == _count_calls(closed) else pruned


def _count_calls(closed: ClosedJaxpr) -> int:
    """Count the equations of registered primitives in a jaxpr, at any depth."""
    return sum(eqn.primitive in _droppable for eqn in iterate_equations(closed.jaxpr))


def eliminate_dead_code(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool] | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """Remove unused equations, inputs and results of a jaxpr, also inside of loops.

    Args:
        closed: the jaxpr.
        used: for each result, whether it is used; unused results are removed.
        keep: for each input, or for all inputs, whether to keep it even if unused.

    Returns:
        the jaxpr of the used results, and for each input of `closed` whether the new jaxpr has it.
    """
    keep = [keep] * len(closed.in_avals) if isinstance(keep, bool) else keep
    closed, needed = dce(closed, used, keep)
    # Pruned loops may leave more unused equations before and around them.
    while (pruned := _prune_loops(closed)) is not closed:
        keep_remaining = [keeps for keeps, yes in zip(keep, needed, strict=True) if yes]
        closed, still = dce(pruned, [True] * len(pruned.out_avals), keep_remaining)
        rest = iter(still)
        needed = [yes and next(rest) for yes in needed]
    return closed, needed


def prune_loop_body(
    body: ClosedJaxpr, n_consts: int, carried: Sequence[bool], others: Sequence[bool] = ()
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """Remove unused equations and carried values of a loop body, to a fixed point.

    A carried value is kept if it is needed after the loop, or if a later iteration of a kept value
    depends on it.

    Args:
        body: takes loop-invariant constants, carried values and scanned inputs; returns carried
            values and other results.
        n_consts: number of constants.
        carried: for each carried value, whether the loop's condition or later code needs it.
        others: for each other result, whether it is needed.

    Returns:
        the new body; for each constant whether the body still has it; and for each carried value
        whether the body still has it.
    """
    carried, end = list(carried), n_consts + len(carried)
    n_others = len(body.in_avals) - end
    while True:
        keep = [False] * n_consts + carried + [False] * n_others
        pruned, inputs = eliminate_dead_code(body, [*carried, *others], keep)
        if inputs[n_consts:end] == carried:
            return pruned, inputs[:n_consts], carried
        carried = inputs[n_consts:end]


def _prune_loops(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove unused carried values of a jaxpr's loops, keeping its inputs and results.

    Loops at any depth are pruned, unless they have effects. `closed` itself is returned if nothing
    changes.
    """
    jaxpr = closed.jaxpr

    def prune(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
        """Return an equation without unused carried values, of itself or of inner loops.

        Args:
            eqn: any equation.
            used: for each result of the equation, whether it is used.

        Returns:
            the new equation; `eqn` itself if nothing changes.
        """
        eqn = replace_inner_jaxprs(eqn, _prune_loops)
        if eqn.primitive in _PRUNED and not eqn.effects:
            return _PRUNED[eqn.primitive](eqn, used)
        return eqn

    equations = map_equations_reversed(jaxpr, prune)
    if all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)


def _prune_while(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """Remove the unused carried values of a ``while``, as operands and as results.

    `used` has for each result whether it is used. `eqn` itself is returned if all values are
    needed.
    """
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    _, by_condition = eliminate_dead_code(eqn.params["cond_jaxpr"], [True])
    carried = [a or b for a, b in zip(used, by_condition[n_cond:], strict=True)]
    body, by_body, carried = prune_loop_body(eqn.params["body_jaxpr"], n_body, carried)
    condition, by_condition = eliminate_dead_code(
        eqn.params["cond_jaxpr"], [True], [False] * n_cond + carried
    )
    needed = [*by_condition[:n_cond], *by_body, *carried]
    if all(needed):
        return eqn
    params = {
        "cond_jaxpr": condition,
        "cond_nconsts": sum(by_condition[:n_cond]),
        "body_jaxpr": body,
        "body_nconsts": sum(by_body),
    }
    return eqn.replace(
        invars=[var for var, yes in zip(eqn.invars, needed, strict=True) if yes],
        outvars=[var for var, yes in zip(eqn.outvars, carried, strict=True) if yes],
        params={**eqn.params, **params},
    )


def _prune_scan(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """Make the body of a ``scan`` return unneeded carried values unchanged.

    JAX's dead code elimination then removes these values.

    Args:
        eqn: the equation of the ``scan``.
        used: for each result, whether it is used.

    Returns:
        the new equation, with the same operands and results; `eqn` itself if nothing changes.
    """
    n_consts, n_carried = scan_counts(eqn.params)
    body = eqn.params["jaxpr"]
    results, others = list(body.jaxpr.outvars[:n_carried]), body.jaxpr.outvars[n_carried:]
    before = body.jaxpr.invars[n_consts : n_consts + n_carried]
    pruned, _, needed = prune_loop_body(body, n_consts, used[:n_carried], [True] * len(others))
    after = [new if yes else old for old, new, yes in zip(before, results, needed, strict=True)]
    if after == results:
        return eqn
    jaxpr = body.jaxpr.replace(eqns=pruned.jaxpr.eqns, outvars=[*after, *others])
    return replace_inner_jaxprs(eqn, lambda _: ClosedJaxpr(jaxpr, body.consts))


_PRUNED = {while_p: _prune_while, scan_p: _prune_scan}
