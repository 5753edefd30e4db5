"""Dead code elimination that reaches into ``while``, at any depth.

Here nobody uses ``b``, which JAX computes with the rest of the loop: its DCE drops a ``while`` as a
whole or not at all::

    a b = while[body={ lambda ; a b. let c = sin a    d = cos b in (c, d) } ...] x y

``eliminate_dead_code`` makes of it ::

    a = while[body={ lambda ; a. let c = sin a in (c,) } ...] x

In the linear part of a circuit, what computes unused values may be all gates of a loop.

JAX's DCE of ``scan`` stops at a ``while`` in the body, for the same reason: what that loop takes
seems needed in the next iteration.  Here the carried values that are not needed are passed on as
they are, and then JAX drops them.
"""

from collections.abc import Sequence

from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import scan_p, while_p

from bellhop._jax.jaxprs import dce, scan_counts
from bellhop.jaxprs.equations import iterate_equations, map_equations_reversed, replace_inner_jaxprs

_dropped_by_us: set[Primitive] = set()


def register_droppable(primitive: Primitive) -> None:
    """Drop equations of a primitive whose results nobody uses, as XLA may not with their calls.

    Those with effects stay.
    """
    _dropped_by_us.add(primitive)


def drop_unused_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr without calls that nobody uses and XLA would run; itself where there are none.

    It takes the same arguments.
    """
    if not _count_calls(closed):
        return closed
    pruned, _ = eliminate_dead_code(closed, [True] * len(closed.out_avals), keep=True)
    return closed if _count_calls(pruned) == _count_calls(closed) else pruned


def _count_calls(closed: ClosedJaxpr) -> int:
    return sum(eqn.primitive in _dropped_by_us for eqn in iterate_equations(closed.jaxpr))


def eliminate_dead_code(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool] | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """Eliminate dead code: return the jaxpr of the used results, and which inputs it still takes.

    These are the inputs that the results need, and those to keep.
    """
    keep = [keep] * len(closed.in_avals) if isinstance(keep, bool) else keep
    closed, needed = dce(closed, used, keep)
    # A loop that needs less may leave more unused before it, and around it.
    while (pruned := _prune_loops(closed)) is not closed:
        kept = [keeps for keeps, yes in zip(keep, needed, strict=True) if yes]
        closed, still = dce(pruned, [True] * len(pruned.out_avals), kept)
        rest = iter(still)
        needed = [yes and next(rest) for yes in needed]
    return closed, needed


def prune_loop_body(
    body: ClosedJaxpr, n_consts: int, carried: Sequence[bool], others: Sequence[bool] = ()
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """Eliminate dead code of a loop's body, to a fixpoint of the carried values that are needed.

    Args:
        body: takes constants, carried values and others; returns carried values and others.
        n_consts: how many constants there are.
        carried: which of the carried values are needed, by the loop's condition or after it.
        others: which of the other results are needed.

    Returns:
        the body, which of its constants it still takes, and which values it still carries: the
        needed ones, and those that they are computed from in earlier iterations.
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
    """Return a jaxpr whose loops, at any depth, compute what is used; itself where all do."""
    jaxpr = closed.jaxpr

    def pruned(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
        eqn = replace_inner_jaxprs(eqn, _prune_loops)
        if eqn.primitive in _PRUNED and not eqn.effects:
            return _PRUNED[eqn.primitive](eqn, used)
        return eqn

    equations = map_equations_reversed(jaxpr, pruned)
    if all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=equations), closed.consts)


def _prune_while(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """Return a loop of the carried values that are used; itself where all are needed."""
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
    """Return a loop that passes on the carried values that are not needed; itself where it does."""
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
