"""Sum over mid-circuit outcomes of mixed states as early as possible.

A circuit with mid-circuit measurements is executed for each combination of outcomes, and each
execution is linear in the state.  So after the last operation that depends on an outcome, the
states of both outcomes can be added, and the rest of the circuit is executed once::

    bit = marked[Outcome] ...            loop over bit = 0, 1:
    b = project bit a                        b = project bit a
    c = cond bit b                           c = cond bit b
    d = state c                          d = sum of c over the loop
    e = gate d                           e = gate d

if neither ``bit`` nor a value computed from it, other than the state, is used after ``d``.  The
remaining outcomes are needed until the end.  A density matrix can hold such a sum, and a pure state
cannot.
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
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.jaxprs.equations import (
    external_inputs,
    inner_jaxprs,
    iterate_equations,
    replace_inner_jaxprs,
)
from bellhop.jaxprs.jaxpr_interpreter import Rule, interpret_with
from bellhop.mesh.manual_axes import vary_like


class _OutcomeTag(ValueTag):
    """Tag of a mid-circuit outcome, 0 or 1, in the jaxpr of a circuit."""


class _NextPositionTag(ValueTag):
    """Tag of the index of the next mid-circuit outcome, in the jaxpr of a circuit.

    `read_outcome` makes the tagging equation when it reads an outcome. The operands are the index
    of the next outcome, the index of the outcome that is read, and this outcome. If
    `sum_over_outcomes` sums over this outcome, the next outcome gets its index.
    """


class _SummableTag(ValueTag):
    """Tag of a state at which `sum_over_outcomes` may add the states of several outcomes."""


_OUTCOME, _NEXT, _SUMMABLE = _OutcomeTag(), _NextPositionTag(), _SummableTag()

# Largest number of outcomes at once: each doubles the number of executions.
MAX_OUTCOMES = 12


def read_outcome(outcomes: Any, position: Any) -> tuple[Any, Any]:
    """Read a mid-circuit outcome, a bit of `outcomes`; also return the next index.

    Both results are tagged, so that `sum_over_outcomes` finds them in the jaxpr.

    Args:
        outcomes: traced unsigned integer, the outcomes of all mid-circuit measurements as bits.
        position: traced integer, the index of the bit to read.

    Returns:
        the outcome as an integer 0 or 1, and ``position + 1``.
    """
    bit = _OUTCOME.tag((outcomes >> position.astype(outcomes.dtype)) & 1)
    return bit, _NEXT.tag(position + 1, position, bit)


def mark_summable(state: Operand) -> Any:
    """Tag a state, so that `sum_over_outcomes` may sum over outcomes at this point.

    If only the state depends on a mid-circuit outcome after this point, the states for both values
    of the outcome are added here. So the remaining computation must be linear in the state.

    Args:
        state: array of the state.

    Returns:
        the same state, as the result of the tagging equation.
    """
    return _SUMMABLE.tag(state)


def sum_over_outcomes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Rewrite a circuit's jaxpr to sum over mid-circuit outcomes as soon as possible.

    The jaxpr is executed for each combination of outcomes. If only the state depends on an outcome
    after some tagged state (`mark_summable`), the rewritten jaxpr adds the states for both values
    of the outcome at this point, and executes the rest once. Inner jaxprs of loops and conditionals
    are rewritten as well.

    Args:
        closed: jaxpr of one execution of a circuit, or of a body or branch in it.

    Returns:
        a jaxpr with the same inputs and outputs that reads fewer outcomes (`count_outcomes`);
        without unused equations and otherwise unchanged if no outcome can be summed over.
    """
    # Remove unused values after the state, which would prevent the sum if they use an outcome.
    closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(closed.in_avals))
    jaxpr = closed.jaxpr
    jaxpr = jaxpr.replace(eqns=[replace_inner_jaxprs(eqn, sum_over_outcomes) for eqn in jaxpr.eqns])
    spans = _find_spans(jaxpr)
    if not spans and jaxpr.eqns == closed.jaxpr.eqns:
        return closed

    spanned = ClosedJaxpr(jaxpr.replace(eqns=_replace_spans(jaxpr, spans)), closed.consts)
    run = lambda *inputs: interpret_with(spanned, _get_span_rule, *inputs)
    return jax.make_jaxpr(run)(*closed.in_avals)


def has_outcomes_in_while_loop(jaxpr: Jaxpr) -> bool:
    """Return whether a ``while`` loop in a circuit's jaxpr reads mid-circuit outcomes."""
    loops = [eqn for eqn in iterate_equations(jaxpr) if eqn.primitive is while_p]
    return any(count_outcomes(inner) for loop in loops for inner in inner_jaxprs(loop))


def count_outcomes(jaxpr: Jaxpr) -> int:
    """Return the largest number of mid-circuit outcomes that a run of a jaxpr reads.

    Conditionals count their largest branch, loops with a static trip count all iterations, and
    loops with a dynamic trip count one iteration.
    """
    return sum(map(_count_equation_outcomes, jaxpr.eqns))


def _count_equation_outcomes(eqn: JaxprEqn) -> int:
    """Return the largest number of outcomes that an equation reads (`count_outcomes`)."""
    inner = [count_outcomes(each) for each in inner_jaxprs(eqn)]
    if eqn.primitive is cond_p:
        return max(inner)
    return _OutcomeTag.is_tagging(eqn) + sum(inner) * eqn.params.get("length", 1)


@dataclass(frozen=True)
class _OutcomeSpan:
    """Equations of a jaxpr whose mid-circuit outcomes can be summed over.

    Later equations use one value that depends on these outcomes, the state. `sum_over_outcomes`
    replaces the span by one equation, which adds the states of all combinations of the outcomes.

    Attributes:
        equations: the equations in order; the last computes the state.
        outcomes: the members of `equations` that read an outcome.
    """

    equations: Sequence[JaxprEqn]
    outcomes: Sequence[JaxprEqn]

    def as_equation(self, jaxpr: Jaxpr) -> JaxprEqn:
        """Return one equation with the span as its body, whose result is the state.

        Its parameter ``summed`` is the body, a jaxpr ``(*outcomes, *operands) -> state``;
        ``n_outcomes`` is the number of outcomes. `_sum_span` evaluates it. `jaxpr` contains the
        span.
        """
        *inside, last = [eqn for eqn in self.equations if not _OutcomeTag.is_tagging(eqn)]
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
    """Return a jaxpr's equations with each outcome span replaced by one equation.

    Each new equation sums the state over the mid-circuit outcomes in its span. Since these outcomes
    are not read from the circuit's input any more, later outcomes get lower indices.
    """
    ends = {span.equations[-1]: span for span in spans}
    inside = {eqn for span in spans for eqn in span.equations}
    bits = {eqn.outvars[0] for span in spans for eqn in span.outcomes}
    equations: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn in ends:
            equations.append(ends[eqn].as_equation(jaxpr))
        elif _NextPositionTag.is_tagging(eqn) and eqn.invars[2] in bits:
            equations.append(eqn.replace(invars=[eqn.invars[1]]))
        elif eqn not in inside:
            equations.append(eqn)
    return equations


def _get_span_rule(eqn: JaxprEqn) -> Rule:
    """Return the rule that evaluates an equation; `_sum_span` for a replaced span."""
    return _sum_span if "summed" in eqn.params else bind_equation


def _sum_span(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    """Evaluate a span's equation for all combinations of its outcomes; sum the states.

    It is the rule for the equations that `_replace_spans` makes. Returns a list of one array.
    """
    body, n_outcomes = eqn.params["summed"], eqn.params["n_outcomes"]
    dtype = body.invars[0].aval.dtype

    def add(total: Operand, combination: Any) -> Any:
        """Add the state for one combination of outcomes, an integer with a bit for each."""
        bits = [(combination >> number) & 1 for number in range(n_outcomes)]
        [state] = eval_jaxpr(body, (), *bits, *operands)
        return total + state, None

    [state] = body.outvars
    zero = vary_like(operands, jnp.zeros(state.aval.shape, state.aval.dtype))
    return [jax.lax.scan(add, zero, jnp.arange(2**n_outcomes, dtype=dtype))[0]]


def _find_spans(jaxpr: Jaxpr) -> list[_OutcomeSpan]:
    """Find the stretches of equations whose mid-circuit outcomes can be summed over.

    A span starts at the first equation that depends on an outcome not yet summed, and ends at a
    tagged state after which only this state depends on the outcomes. A span has no effects and at
    most `MAX_OUTCOMES` outcomes.

    Args:
        jaxpr: a jaxpr whose inner jaxprs were already rewritten.

    Returns:
        the spans in order.
    """
    last_use: dict[Any, int] = {}
    for number, eqn in enumerate(jaxpr.eqns):
        if _NextPositionTag.is_tagging(eqn):
            continue
        last_use.update((atom, number) for atom in eqn.invars if not isinstance(atom, Literal))
    end = len(jaxpr.eqns)
    last_use.update((atom, end) for atom in jaxpr.outvars if not isinstance(atom, Literal))
    spans, equations, outcomes = [], [], []
    by_outcomes: set[Any] = set()
    has_effects = False
    for number, eqn in enumerate(jaxpr.eqns):
        is_outcome = _OutcomeTag.is_tagging(eqn)
        given = (atom for atom in eqn.invars if not isinstance(atom, Literal))
        if _NextPositionTag.is_tagging(eqn) or not is_outcome and by_outcomes.isdisjoint(given):
            continue
        equations.append(eqn)
        has_effects |= bool(eqn.effects)
        if is_outcome:
            outcomes.append(eqn)
            by_outcomes.add(eqn.outvars[0])
            continue
        by_outcomes.update(eqn.outvars)
        if not _SummableTag.is_tagging(eqn) or has_effects or len(outcomes) > MAX_OUTCOMES:
            continue
        if all(last_use.get(var, -1) <= number for var in by_outcomes.difference(eqn.outvars)):
            spans.append(_OutcomeSpan(equations, outcomes))
            equations, outcomes, by_outcomes = [], [], set()
    return spans
