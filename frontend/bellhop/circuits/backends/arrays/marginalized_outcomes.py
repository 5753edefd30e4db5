"""Outcomes of circuits on mixtures, which are summed over as soon as nothing needs them.

A circuit that measures runs once for each combination of outcomes, and each run is linear in the
state.  So where an outcome has decided all that it decides, both states are added, and what follows
runs once::

    bit = marked[Outcome] ...            bit = 0, 1 of a loop that adds up:
    b = project bit a                        b = project bit a
    c = cond bit b                           c = cond bit b
    d = state c                          d = c of both
    e = gate d                           e = gate d

where ``bit`` and what is computed of it have no use behind ``d``.  What is left are outcomes that
are needed at the end.  A density matrix holds such a sum, and a pure state does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import cond_p, while_p

from bellhop._jax.jaxprs import bind_equation, dce
from bellhop.base.types import Operand
from bellhop.control_flow.tagged_values import ValueTag, has_tag, tag_value
from bellhop.jaxprs.equations import (
    external_inputs,
    inner_jaxprs,
    iterate_equations,
    replace_inner_jaxprs,
)
from bellhop.jaxprs.jaxpr_interpreter import Rule, interpret_with
from bellhop.mesh.manual_axes import vary_like


class _OutcomeTag(ValueTag):
    """The mark of an outcome."""


class _NextPositionTag(ValueTag):
    """The mark of the place of the next outcome, beside that of an outcome, and that."""


class _SummableTag(ValueTag):
    """The mark of a state in which outcomes may be summed over."""


_OUTCOME, _NEXT, _SUMMABLE = _OutcomeTag(), _NextPositionTag(), _SummableTag()

# So many outcomes are gone through at once at most: a circuit runs twice as often for each.
MAX_OUTCOMES = 12


def read_outcome(outcomes: Any, position: Any) -> tuple[Any, Any]:
    """Return an outcome of a run, and the place of the next.

    Args:
        outcomes: of the run, a bit for each.
        position: which one.
    """
    bit = tag_value((outcomes >> position.astype(outcomes.dtype)) & 1, mark=_OUTCOME)
    return bit, tag_value(position + 1, position, bit, mark=_NEXT)


def mark_summable(state: Operand) -> Any:
    """Return a state in which ``sum_over_outcomes`` may sum over outcomes: what follows is linear
    in it."""
    return tag_value(state, mark=_SUMMABLE)


def sum_over_outcomes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that sums over outcomes where nothing but the state depends on them."""
    # An outcome that nobody uses is computed all the same, behind the state.
    closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(closed.in_avals))
    jaxpr = closed.jaxpr
    jaxpr = jaxpr.replace(eqns=[replace_inner_jaxprs(eqn, sum_over_outcomes) for eqn in jaxpr.eqns])
    spans = _find_spans(jaxpr)
    if not spans and jaxpr.eqns == closed.jaxpr.eqns:
        return closed

    spanned = ClosedJaxpr(jaxpr.replace(eqns=_replace_spans(jaxpr, spans)), closed.consts)
    run = lambda *inputs: interpret_with(spanned, _choose_rule, *inputs)
    return jax.make_jaxpr(run)(*closed.in_avals)


def has_outcomes_in_while_loop(jaxpr: Jaxpr) -> bool:
    """Tell whether outcomes are left in a loop whose length is computed."""
    loops = [eqn for eqn in iterate_equations(jaxpr) if eqn.primitive is while_p]
    return any(count_outcomes(inner) for loop in loops for inner in inner_jaxprs(loop))


def count_outcomes(jaxpr: Jaxpr) -> int:
    """Return how many outcomes a run has at most."""
    return sum(map(_count_equation_outcomes, jaxpr.eqns))


def _count_equation_outcomes(eqn: JaxprEqn) -> int:
    inner = [count_outcomes(each) for each in inner_jaxprs(eqn)]
    if eqn.primitive is cond_p:
        return max(inner)
    return has_tag(eqn, _OutcomeTag) + sum(inner) * eqn.params.get("length", 1)


@dataclass(frozen=True)
class _OutcomeSpan:
    """Equations that depend on outcomes which only a state depends on behind them.

    Attributes:
        equations: in order; the last one gives that state.
        outcomes: those of the outcomes.
    """

    equations: Sequence[JaxprEqn]
    outcomes: Sequence[JaxprEqn]

    def as_equation(self, jaxpr: Jaxpr) -> JaxprEqn:
        """Return it as one equation, which gives the state."""
        *inside, last = [eqn for eqn in self.equations if not has_tag(eqn, _OutcomeTag)]
        bits = [eqn.outvars[0] for eqn in self.outcomes]
        given = [var for var in dict.fromkeys(external_inputs([*inside, last])) if var not in bits]
        body = jaxpr.replace(
            constvars=(),
            invars=[*bits, *given],
            outvars=last.outvars,
            eqns=[*inside, last],
            debug_info=jaxpr.debug_info.with_unknown_names(),
        )
        return last.replace(invars=given, params={"summed": body, "n_outcomes": len(bits)})


def _replace_spans(jaxpr: Jaxpr, spans: Sequence[_OutcomeSpan]) -> list[JaxprEqn]:
    """Return the equations of a jaxpr, where each span is one; the next outcome takes its place."""
    ends = {span.equations[-1]: span for span in spans}
    inside = {eqn for span in spans for eqn in span.equations}
    bits = {eqn.outvars[0] for span in spans for eqn in span.outcomes}
    equations: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn in ends:
            equations.append(ends[eqn].as_equation(jaxpr))
        elif has_tag(eqn, _NextPositionTag) and eqn.invars[2] in bits:
            equations.append(eqn.replace(invars=[eqn.invars[1]]))
        elif eqn not in inside:
            equations.append(eqn)
    return equations


def _choose_rule(eqn: JaxprEqn) -> Rule:
    return _sum_span if "summed" in eqn.params else bind_equation


def _sum_span(eqn: JaxprEqn, *given: Any) -> list[Any]:
    """Return the state behind a span: the sum over all outcomes."""
    body, n_outcomes = eqn.params["summed"], eqn.params["n_outcomes"]
    dtype = body.invars[0].aval.dtype

    def add(total: Operand, combination: Any) -> Any:
        bits = [(combination >> number) & 1 for number in range(n_outcomes)]
        [state] = eval_jaxpr(body, (), *bits, *given)
        return total + state, None

    [state] = body.outvars
    zero = vary_like(given, jnp.zeros(state.aval.shape, state.aval.dtype))
    return [jax.lax.scan(add, zero, jnp.arange(2**n_outcomes, dtype=dtype))[0]]


def _find_spans(jaxpr: Jaxpr) -> list[_OutcomeSpan]:
    """Return the spans of a jaxpr, whose inner ones have been summed over."""
    last_use: dict[Any, int] = {}
    for number, eqn in enumerate(jaxpr.eqns):
        if has_tag(eqn, _NextPositionTag):
            continue
        last_use.update((atom, number) for atom in eqn.invars if not isinstance(atom, Literal))
    end = len(jaxpr.eqns)
    last_use.update((atom, end) for atom in jaxpr.outvars if not isinstance(atom, Literal))
    spans, equations, outcomes = [], [], []
    by_outcomes: set[Any] = set()
    is_accepted = False
    for number, eqn in enumerate(jaxpr.eqns):
        is_outcome = has_tag(eqn, _OutcomeTag)
        given = (atom for atom in eqn.invars if not isinstance(atom, Literal))
        if has_tag(eqn, _NextPositionTag) or not is_outcome and by_outcomes.isdisjoint(given):
            continue
        equations.append(eqn)
        is_accepted |= bool(eqn.effects)
        if is_outcome:
            outcomes.append(eqn)
            by_outcomes.add(eqn.outvars[0])
            continue
        by_outcomes.update(eqn.outvars)
        if not has_tag(eqn, _SummableTag) or is_accepted or len(outcomes) > MAX_OUTCOMES:
            continue
        if all(last_use.get(var, -1) <= number for var in by_outcomes.difference(eqn.outvars)):
            spans.append(_OutcomeSpan(equations, outcomes))
            equations, outcomes, by_outcomes = [], [], set()
    return spans
