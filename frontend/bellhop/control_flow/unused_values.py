"""The DCE rule of ``while``.

Here nobody uses ``b``, which JAX, without a rule, computes with the rest of the loop::

    a b = while[body={ lambda ; a b. let c = sin a    d = cos b in (c, d) } ...] x y

The rule makes of it ::

    a = while[body={ lambda ; a. let c = sin a in (c,) } ...] x

In the linear part of a circuit, what computes unused values may be all gates of a loop.
"""

from collections.abc import Sequence

from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.patches.unused_values_of_loops import register_dce_rule_of_while
from bellhop._jax.private import without_unused


def needed_values(
    body: ClosedJaxpr, n_consts: int, carried: Sequence[bool], others: Sequence[bool] = ()
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """Eliminate dead code of a loop's body, to a fixpoint of the carried values that are needed.

    Args:
        body: takes constants and carried values; returns carried values and other results.
        n_consts: how many constants there are.
        carried: which of the carried values are needed, by the loop's condition or after it.
        others: which of the other results are needed.

    Returns:
        the body, which of its constants it still takes, and which values it still carries: the
        needed ones, and those that they are computed from in earlier iterations.
    """
    carried = list(carried)
    while True:
        pruned, inputs = without_unused(body, [*carried, *others], [False] * n_consts + carried)
        if inputs[n_consts:] == carried:
            return pruned, inputs[:n_consts], carried
        carried = inputs[n_consts:]


def _dce_rule(used: list[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
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
    """Register the DCE rule of ``while`` with JAX."""
    register_dce_rule_of_while(_dce_rule)
