"""Reverse mode of ``scan`` hoists no equation with effects out of the loop.

In ``jax.grad`` of a loop with an ``io_callback`` whose argument is the same in each iteration::

    jax.lax.scan(lambda c, _: (c * io_callback(f, shape, 1.0), None), x, length=3)

JAX calls ``f`` once, and with this patch three times.

Replaced: ``_scan_known_hoisting``, and under ``jax.checkpoint`` the partial evaluation of ``scan``.
Both hoist loop-invariant equations, even those with effects.  Both also drop the rules of
``jax.custom_jvp`` functions in the loop, without which it has no second derivative.  A loop that
calls no Python and has no such function of ours is still split by JAX.  JAX's own callbacks count
as Python, since a program of ours may hold them.
Versions: 0.10 to 0.12.
Upstream: effect types that say whether an equation may be hoisted.
Installed: when a program, or one of our calls, is first traced.
Test: ``test_reported_jax.py``.
"""

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import core  # noqa: TID251
from jax._src.interpreters import partial_eval  # noqa: TID251
from jax._src.lax.control_flow import loops  # noqa: TID251
from jax.extend.core import ClosedJaxpr
from jax.extend.core.primitives import custom_jvp_call_p

from bellhop._jax.private import is_bellhop_effect, is_callback_effect
from bellhop._patching import original, patch

# Primitives that only the ``jax.custom_jvp`` function around them differentiates.
_known_by_rules: set[Any] = set()


def keep_rules_around(primitive: Any) -> None:
    """Keep the rule of a ``jax.custom_jvp`` function in loops, if it has this primitive in it."""
    _known_by_rules.add(primitive)


def _must_not_split(jaxpr: ClosedJaxpr) -> bool:
    """Tell whether nothing may be hoisted out of a loop, by the jaxpr of its body."""
    return any(map(is_callback_effect, jaxpr.effects)) or _needs_rule(jaxpr.jaxpr, has_rule=False)


def _needs_rule(jaxpr: Any, *, has_rule: bool) -> bool:
    """Tell whether a jaxpr has a primitive of ``keep_rules_around`` in a ``custom_jvp`` function.

    Args:
        jaxpr: the jaxpr.
        has_rule: whether the jaxpr itself stands in such a function.
    """
    for eqn in jaxpr.eqns:
        if has_rule and eqn.primitive in _known_by_rules:
            return True
        has_rule_within = has_rule or eqn.primitive is custom_jvp_call_p
        for inner in core.jaxprs_in_params(eqn.params):
            if _needs_rule(inner, has_rule=has_rule_within):
                return True
    return False


def _hoist_without_effects(
    by_jax: Callable[..., Any],
    jaxpr: ClosedJaxpr,
    consts: Any,
    num_residuals: int,
    *stacked: int,
) -> Any:
    """Do what ``_scan_known_hoisting`` does, but hoist nothing out of a loop that must stay whole.

    Args:
        by_jax: JAX's function.
        jaxpr: the body of the loop.
        consts: its constants.
        num_residuals: how many residuals may be hoisted.
        stacked: how many others may not; since jax 0.11.
    """
    if _must_not_split(jaxpr):
        return jaxpr, consts, [False] * num_residuals, []
    return by_jax(jaxpr, consts, num_residuals, *stacked)


class _LoopPartialEval:
    """JAX's module ``partial_eval``, as the file of its loops imports it.

    In a thread that is within ``disable_hoisting()``, it splits a loop so that nothing is hoisted.
    """

    def __init__(self) -> None:
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(partial_eval, name)

    @contextlib.contextmanager
    def disable_hoisting(self) -> Iterator[None]:
        before = getattr(self._thread, "hoists_nothing", False)
        self._thread.hoists_nothing = True
        try:
            yield
        finally:
            self._thread.hoists_nothing = before

    def partial_eval_jaxpr_nounits(
        self, jaxpr: ClosedJaxpr, unknowns: Any, instantiate: Any
    ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
        """Split a jaxpr into a known and an unknown part, as JAX's function of this name does.

        To hoist nothing, the known part returns its inputs, and the unknown part computes the rest.
        """
        if not getattr(self._thread, "hoists_nothing", False):
            return partial_eval.partial_eval_jaxpr_nounits(jaxpr, unknowns, instantiate)
        are_known = [not is_unknown for is_unknown in unknowns]
        known = list(itertools.compress(jaxpr.in_avals, are_known))
        hand_on = jax.make_jaxpr(lambda *values: values)(*known)
        names = jaxpr.jaxpr.debug_info.with_unknown_names()
        hand_on = ClosedJaxpr(hand_on.jaxpr.replace(debug_info=names), hand_on.consts)
        loop = partial_eval.move_binders_to_front(jaxpr, are_known)
        return hand_on, loop, [True] * len(jaxpr.out_avals), known


_partial_eval_of_loops = _LoopPartialEval()


def _split_without_hoisting_effects(
    by_jax: Callable[..., Any], saveable: Any, unknown: Any, instantiated: Any, eqn: Any
) -> tuple[Any, ...]:
    """Split a loop under ``jax.checkpoint`` as JAX does, unless it must stay whole."""
    if not _must_not_split(eqn.params["jaxpr"]):
        return by_jax(saveable, unknown, instantiated, eqn)
    with _partial_eval_of_loops.disable_hoisting():
        split = by_jax(saveable, unknown, instantiated, eqn)
    known = split[0]
    if known is not None and "call_jaxpr" in known.params:
        # The last equation is the loop.  Those before it were hoisted.
        for hoisted in known.params["call_jaxpr"].eqns[:-1]:
            if any(map(is_bellhop_effect, hoisted.effects)):
                raise NotImplementedError(
                    "this version of JAX would call a callback in a loop under jax.checkpoint "
                    "once instead of once an iteration, since its arguments are the same in each. "
                    "Give it an argument that changes, such as the index of the loop, or put "
                    "jax.checkpoint around the body of the loop."
                )
    return split


@patch("the hoisting of scan", "calls with effects are made once an iteration")
def keep_effects_in_loops() -> None:
    """Hoist nothing out of a loop that calls Python or has ``custom_jvp`` functions of ours."""
    hoist = original(loops, "_scan_known_hoisting")
    loops._scan_known_hoisting = functools.partial(_hoist_without_effects, hoist)
    original(loops, "pe")
    loops.pe = _partial_eval_of_loops
    rules = partial_eval.partial_eval_jaxpr_custom_rules
    rules[loops.scan_p] = functools.partial(_split_without_hoisting_effects, rules[loops.scan_p])
