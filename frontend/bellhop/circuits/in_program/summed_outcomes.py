"""Outcomes of circuits on mixtures, which are summed over as soon as nothing needs them.

A circuit that measures runs once for each combination of outcomes, and each run is linear in the
state.  So where an outcome has decided all that it decides, both states are added, and what follows
runs once::

    bit place = outcome outcomes 0       bit = 0, 1 of a loop that adds up:
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
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive
from jax.extend.core.primitives import cond_p, while_p
from jax.interpreters import ad, batching, mlir

from bellhop._jax.jaxprs import bind_equation
from bellhop.base.equations import equations_of, inner_jaxprs, inputs_of, with_inner_jaxprs
from bellhop.base.rewriting import Rules, rewrite
from bellhop.base.types import Operand
from bellhop.circuits.derivatives.tangents import symbolic_zero
from bellhop.control_flow.marks import Mark, has_mark, marked
from bellhop.mesh.manual_axes import vary_with

# outcome: the outcomes of a run, how many measurements there were -> one outcome, one more
# On its way through ``with_sums`` also all outcomes of a span, which are summed: what the span
# takes -> the state behind it
_outcome_p = Primitive("quantum_outcome")
_outcome_p.multiple_results = True


class _Summable(Mark):
    """The mark of a state in which outcomes may be summed over."""


_SUMMABLE = _Summable()

# So many outcomes are gone through at once at most: a circuit runs twice as often for each.
MOST_OUTCOMES = 12


def outcome_of(outcomes: Any, place: Any) -> tuple[Any, Any]:
    """Return an outcome of a run, and the place of the next.

    Args:
        outcomes: of the run, a bit for each.
        place: which one.
    """
    bit, place = _outcome_p.bind(outcomes, place, is_summed=False)
    return bit, place


def summable(state: Operand) -> Any:
    """Return a state in which ``with_sums`` may sum over outcomes: what follows is linear in it."""
    return marked(state, mark=_SUMMABLE)


def with_sums(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that sums over outcomes where nothing but the state depends on them."""
    jaxpr = closed.jaxpr
    jaxpr = jaxpr.replace(eqns=[with_inner_jaxprs(eqn, with_sums) for eqn in jaxpr.eqns])
    spans = _spans(jaxpr)
    if not spans and jaxpr.eqns == closed.jaxpr.eqns:
        return closed

    spanned = jaxpr.replace(eqns=_with_spans(jaxpr, spans))
    return rewrite(ClosedJaxpr(spanned, closed.consts), _SUMS)


def has_uncounted(jaxpr: Jaxpr) -> bool:
    """Tell whether outcomes are left in a loop whose length is computed."""
    loops = [eqn for eqn in equations_of(jaxpr) if eqn.primitive is while_p]
    return any(number_of_outcomes(inner) for loop in loops for inner in inner_jaxprs(loop))


def number_of_outcomes(jaxpr: Jaxpr) -> int:
    """Return how many outcomes a run has at most."""
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(eqn: JaxprEqn) -> int:
    inner = [number_of_outcomes(each) for each in inner_jaxprs(eqn)]
    if eqn.primitive is cond_p:
        return max(inner)
    return (eqn.primitive is _outcome_p) + sum(inner) * eqn.params.get("length", 1)


@dataclass(frozen=True)
class _Span:
    """Equations that depend on outcomes which only a state depends on behind them.

    Attributes:
        equations: in order; the last one gives that state.
        outcomes: those of the outcomes.
    """

    equations: Sequence[JaxprEqn]
    outcomes: Sequence[JaxprEqn]

    def as_equation(self, jaxpr: Jaxpr) -> JaxprEqn:
        """Return it as one equation, which gives the state and the place after each outcome."""
        *inside, last = [eqn for eqn in self.equations if eqn.primitive is not _outcome_p]
        bits = [eqn.outvars[0] for eqn in self.outcomes]
        given = [var for var in dict.fromkeys(inputs_of([*inside, last])) if var not in bits]
        body = jaxpr.replace(
            constvars=(),
            invars=[*bits, *given],
            outvars=last.outvars,
            eqns=[*inside, last],
            debug_info=jaxpr.debug_info.with_unknown_names(),
        )
        params = {"is_summed": True, "body": body, "n_outcomes": len(bits)}
        return last.replace(primitive=_outcome_p, invars=given, params=params)


def _with_spans(jaxpr: Jaxpr, spans: Sequence[_Span]) -> list[JaxprEqn]:
    """Return the equations of a jaxpr, where each span is one."""
    ends = {span.equations[-1]: span for span in spans}
    inside = {eqn for span in spans for eqn in span.equations}
    equations: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn in ends:
            equations.append(ends[eqn].as_equation(jaxpr))
        elif eqn not in inside:
            equations.append(eqn)
        elif eqn.primitive is _outcome_p:
            equations.append(eqn.replace(params={"is_summed": True}))
    return equations


def _add_up(eqn: JaxprEqn, *given: Any) -> list[Any]:
    """Return the state behind a span: the sum over all outcomes."""
    body, n_outcomes = eqn.params["body"], eqn.params["n_outcomes"]
    dtype = body.invars[0].aval.dtype

    def add(total: Operand, combination: Any) -> Any:
        bits = [(combination >> number) & 1 for number in range(n_outcomes)]
        [state] = eval_jaxpr(body, (), *bits, *given)
        return total + state, None

    [state] = body.outvars
    zero = vary_with(given, jnp.zeros(state.aval.shape, state.aval.dtype))
    return [jax.lax.scan(add, zero, jnp.arange(2**n_outcomes, dtype=dtype))[0]]


def _spans(jaxpr: Jaxpr) -> list[_Span]:
    """Return the spans of a jaxpr, whose inner ones have been summed over."""
    last_use: dict[Any, int] = {}
    for number, eqn in enumerate(jaxpr.eqns):
        last_use.update((atom, number) for atom in eqn.invars if not isinstance(atom, Literal))
    end = len(jaxpr.eqns)
    last_use.update((atom, end) for atom in jaxpr.outvars if not isinstance(atom, Literal))
    spans, equations, outcomes = [], [], []
    by_outcomes: set[Any] = set()
    is_accepted = False
    for number, eqn in enumerate(jaxpr.eqns):
        is_outcome = eqn.primitive is _outcome_p
        given = (atom for atom in eqn.invars if not isinstance(atom, Literal))
        if not is_outcome and by_outcomes.isdisjoint(given):
            continue
        equations.append(eqn)
        is_accepted |= bool(eqn.effects)
        if is_outcome:
            outcomes.append(eqn)
            by_outcomes.add(eqn.outvars[0])
            continue
        by_outcomes.update(eqn.outvars)
        if not has_mark(eqn, _Summable) or is_accepted or len(outcomes) > MOST_OUTCOMES:
            continue
        if all(last_use.get(var, -1) <= number for var in by_outcomes.difference(eqn.outvars)):
            spans.append(_Span(equations, outcomes))
            equations, outcomes, by_outcomes = [], [], set()
    return spans


def _outcome(outcomes: Any, place: Any, **_: bool) -> list[Any]:
    return [(outcomes >> place.astype(outcomes.dtype)) & 1, place + 1]


def _outcome_batch(args: Sequence[Any], dims: Sequence[Any], **_: bool) -> Any:
    return jax.vmap(_outcome, in_axes=tuple(dims))(*args), [0, 0]


def _outcome_jvp(primals: Sequence[Operand], _: object, **static: bool) -> Any:
    results = _outcome_p.bind(*primals, **static)
    return results, list(map(symbolic_zero, results))


def _summed(eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
    """Return an outcome; the next takes the place of one that is summed over."""
    if "body" in eqn.params:
        return _add_up(eqn, *given)
    outcomes, place = given
    if eqn.params["is_summed"]:
        return jnp.zeros_like(outcomes), place
    return bind_equation(eqn, outcomes, place)


_SUMS: Rules = {_outcome_p: _summed}

_outcome_p.def_impl(_outcome)
_outcome_p.def_abstract_eval(lambda outcomes, place, **_: [outcomes, place])
ad.primitive_jvps[_outcome_p] = _outcome_jvp
batching.primitive_batchers[_outcome_p] = _outcome_batch
mlir.register_lowering(_outcome_p, mlir.lower_fun(_outcome, multiple_results=True))
