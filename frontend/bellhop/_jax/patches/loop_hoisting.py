"""Keep reverse mode of ``scan`` from hoisting equations with effects.

In ``jax.grad`` of a loop with an ``io_callback`` whose argument is the same in each iteration::

    jax.lax.scan(lambda c, _: (c * io_callback(f, shape, 1.0), None), x, length=3)

JAX calls ``f`` once, and with this patch three times.

Replaced: ``_scan_known_hoisting``, and under ``jax.checkpoint`` the partial evaluation of ``scan``.
Both hoist loop-invariant equations, even those with effects.  Both also drop the rules of
``jax.custom_jvp`` functions in the loop, without which it has no second derivative.  JAX's
rule still applies to loops without callbacks and without such functions of Bellhop.  JAX's own
callbacks count, since a Bellhop program may contain them.
Versions: 0.10 to 0.12.
Upstream: a property of effect types that forbids hoisting.
Issue: none reported.
Installed: when a program, or a call of Bellhop, is first traced.
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
from bellhop._patching import original, patch, replace, replace_item

# Primitives that are differentiated only by the ``jax.custom_jvp`` function around them.
_custom_jvp_primitives: set[Any] = set()


def register_custom_jvp_primitive(primitive: Any) -> None:
    """Register a primitive that has no JVP rule except a ``jax.custom_jvp`` around it.

    JAX then hoists nothing out of a ``scan`` whose body has the primitive in a ``jax.custom_jvp``
    function: hoisting would drop the function's rule.
    """
    _custom_jvp_primitives.add(primitive)


def _must_not_split(jaxpr: ClosedJaxpr) -> bool:
    """Return whether JAX must not hoist equations out of a loop body.

    True if the body has a callback of Bellhop or JAX, or a ``jax.custom_jvp`` function around a
    primitive that was passed to `register_custom_jvp_primitive`.

    Args:
        jaxpr: body of a ``scan`` loop.
    """
    return any(map(is_callback_effect, jaxpr.effects)) or _needs_rule(jaxpr.jaxpr, has_rule=False)


def _needs_rule(jaxpr: Any, *, has_rule: bool) -> bool:
    """Return whether a jaxpr has a registered primitive in a ``jax.custom_jvp`` function.

    `register_custom_jvp_primitive` registers primitives. Nested jaxprs are searched too.

    Args:
        has_rule: whether the jaxpr itself is inside of a ``jax.custom_jvp`` function.
    """
    for eqn in jaxpr.eqns:
        if has_rule and eqn.primitive in _custom_jvp_primitives:
            return True
        has_rule_within = has_rule or eqn.primitive is custom_jvp_call_p
        for inner in core.jaxprs_in_params(eqn.params):
            if _needs_rule(inner, has_rule=has_rule_within):
                return True
    return False


def _hoist_without_effects(
    hoist_with_jax: Callable[..., Any],
    jaxpr: ClosedJaxpr,
    consts: Any,
    num_residuals: int,
    *stacked: int,
) -> Any:
    """Hoist loop-invariant equations out of a ``scan``, if its body permits it.

    Nothing is hoisted if `_must_not_split` is true for the body, for example if it has callbacks.
    This function replaces JAX's ``_scan_known_hoisting``.

    Args:
        hoist_with_jax: JAX's function, which hoists the equations.
        jaxpr: body of the loop.
        consts: the body's constants.
        num_residuals: number of residuals that may be hoisted.
        stacked: number of residuals that must not be hoisted; since jax 0.11.

    Returns:
        the remaining body, its constants, whether each residual was hoisted, and the hoisted
        residuals.
    """
    if _must_not_split(jaxpr):
        return jaxpr, consts, [False] * num_residuals, []
    return hoist_with_jax(jaxpr, consts, num_residuals, *stacked)


class _LoopPartialEval:
    """Replacement for the module ``partial_eval`` in JAX's file of loops.

    It forwards to the module, except that it splits loops without hoisting equations in threads
    that are inside of `disable_hoisting`. There is one instance in a process.
    """

    def __init__(self) -> None:
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(partial_eval, name)

    @contextlib.contextmanager
    def disable_hoisting(self) -> Iterator[None]:
        """Let JAX's loop rules hoist nothing, in this thread, inside of a ``with`` block."""
        before = getattr(self._thread, "hoists_nothing", False)
        self._thread.hoists_nothing = True
        try:
            yield
        finally:
            self._thread.hoists_nothing = before

    def partial_eval_jaxpr_nounits(
        self, jaxpr: ClosedJaxpr, unknowns: Any, instantiate: Any
    ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
        """Split a jaxpr into a known and an unknown part, like JAX's function.

        Inside of `disable_hoisting`, the known part only returns its inputs, and the unknown part
        has all equations.

        Args:
            jaxpr: body of a loop.
            unknowns: for each input, whether it is unknown.
            instantiate: JAX's argument, passed on.

        Returns:
            the known jaxpr, the unknown jaxpr, whether each result is unknown, and the types of the
            residuals that the unknown part gets from the known part.
        """
        if not getattr(self._thread, "hoists_nothing", False):
            return partial_eval.partial_eval_jaxpr_nounits(jaxpr, unknowns, instantiate)
        are_known = [not is_unknown for is_unknown in unknowns]
        known = list(itertools.compress(jaxpr.in_avals, are_known))
        forward = jax.make_jaxpr(lambda *values: values)(*known)
        names = jaxpr.jaxpr.debug_info.with_unknown_names()
        forward = ClosedJaxpr(forward.jaxpr.replace(debug_info=names), forward.consts)
        loop = partial_eval.move_binders_to_front(jaxpr, are_known)
        return forward, loop, [True] * len(jaxpr.out_avals), known


_partial_eval_of_loops = _LoopPartialEval()


def _split_without_hoisting_effects(
    split_with_jax: Callable[..., Any], saveable: Any, unknown: Any, instantiated: Any, eqn: Any
) -> tuple[Any, ...]:
    """Split a ``scan`` under ``jax.checkpoint`` into a known part and a recomputed part.

    If `_must_not_split` is true for the body, no equation is hoisted out of the loop. This function
    replaces JAX's partial evaluation rule of ``scan``, with the same form of the result.

    Args:
        split_with_jax: JAX's rule.
        saveable: JAX's policy, which selects the values that are saved rather than recomputed.
        unknown: for each operand, whether it is unknown, that is, depends on a tangent.
        instantiated: JAX's argument, passed on.
        eqn: the ``scan`` equation.

    Raises:
        NotImplementedError: if JAX hoists a Bellhop callback nevertheless.
    """
    if not _must_not_split(eqn.params["jaxpr"]):
        return split_with_jax(saveable, unknown, instantiated, eqn)
    with _partial_eval_of_loops.disable_hoisting():
        split = split_with_jax(saveable, unknown, instantiated, eqn)
    known = split[0]
    if known is not None and "call_jaxpr" in known.params:
        # The last equation is the loop; equations before it were hoisted.
        for hoisted in known.params["call_jaxpr"].eqns[:-1]:
            if any(map(is_bellhop_effect, hoisted.effects)):
                raise NotImplementedError(
                    "jax.checkpoint: this version of JAX would call a loop-invariant callback "
                    "once instead of once an iteration. Pass the callback an argument that "
                    "changes, such as the index of the loop, or put jax.checkpoint around the "
                    "body of the loop."
                )
    return split


@patch("the hoisting of scan", "calls with effects are made once an iteration")
def keep_effects_in_loops() -> None:
    """Replace JAX's functions that hoist equations out of ``scan`` loops.

    Nothing is then hoisted out of loops with callbacks, or with ``jax.custom_jvp`` functions whose
    rules must be kept (see `register_custom_jvp_primitive`).
    """
    hoist = original(loops, "_scan_known_hoisting")
    replace(loops, "_scan_known_hoisting", functools.partial(_hoist_without_effects, hoist))
    original(loops, "pe")
    replace(loops, "pe", _partial_eval_of_loops)
    rules = partial_eval.partial_eval_jaxpr_custom_rules
    split = functools.partial(_split_without_hoisting_effects, rules[loops.scan_p])
    replace_item(rules, loops.scan_p, split)
