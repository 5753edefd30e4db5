"""Quantum functions as jaxprs: gates are equations with an effect, which read and make no state.

The function that ``qml.adjoint`` gets in ::

    def f(y):
        qml.RX(y, 0)
        return bellhop.for_loop(0, 3)(lambda i, z: (qml.CRY(z, [0, 1]), z * i)[1])(y)

    qml.ctrl(lambda: qml.adjoint(f)(2 * x), control=2)()

is traced once, to ::

    { lambda ; x. let
        y = mul 2.0 x
        quantum_region[kind=adjoint body={ lambda ; y. let
            quantum_operations[RX] y
            _ = quantum_for_loop[length=3 body={ lambda ; i z. let
                quantum_operations[CRY] z
                a = mul z i
              in (a,) }] y
          in () }] y
      in () }

Conditionals and ``while`` loops are JAX's own equations.  ``gate_replay`` plays such a jaxpr on a
circuit, forwards, backwards or controlled, as often as one likes: the user's function is not run
again.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Effect, Jaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import cond_p, while_p
from jax.lax import iota_p

from bellhop._jax.jaxprs import convert_constvars_jaxpr
from bellhop._jax.private import register_effect
from bellhop.arguments.flat_tree import make_flat_jaxpr
from bellhop.circuits.ir.vectorize.elementwise import is_elementwise
from bellhop.jaxprs.constant_eval import fold_constant
from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import Rule, interpret_with


class _GateEffect(Effect):
    """The effect of gates, by which JAX neither drops nor moves them."""

    def __str__(self) -> str:
        return "Gates"


register_effect(_GateEffect)
GATE_EFFECT = _GateEffect()

# A loop of more gates compiles faster, and needs less memory, if it stays a loop.
MAX_UNROLLED_GATES = 512

# operands: what is traced in the operations -> ()
operations_p = Primitive("quantum_operations")
# operands: the wire, if it is traced -> the outcome
outcome_p = Primitive("quantum_outcome_of_wire")
# operands: those of the body, and what is traced in the controls -> ()
region_p = Primitive("quantum_region")
# operands: constants, carried values, and the number of iterations unless that is known -> carried
for_loop_p = Primitive("quantum_for_loop")
for _primitive in (operations_p, outcome_p, region_p, for_loop_p):
    _primitive.multiple_results = True


@operations_p.def_effectful_abstract_eval
def _operations_abstract_eval(*_: object, **__: object) -> Any:
    return [], {GATE_EFFECT}


@outcome_p.def_effectful_abstract_eval
def _outcome_abstract_eval(*_: object, **__: object) -> Any:
    return [ShapedArray((), np.dtype(bool))], {GATE_EFFECT}


@region_p.def_effectful_abstract_eval
def _region_abstract_eval(*_: object, body: ClosedJaxpr, **__: object) -> Any:
    # Where there are no gates it is nothing that JAX knows either.
    return [], {GATE_EFFECT, *body.effects}


@for_loop_p.def_effectful_abstract_eval
def _loop_abstract_eval(*_: object, body: ClosedJaxpr, **__: object) -> Any:
    return body.out_avals, {GATE_EFFECT, *body.effects}


def has_gates(eqn: JaxprEqn) -> bool:
    """Tell whether there are gates in an equation."""
    return GATE_EFFECT in eqn.effects


def has_other_effects(eqn: JaxprEqn) -> bool:
    """Tell whether an equation calls Python, say, whether there are gates in it or not."""
    return bool(eqn.effects - {GATE_EFFECT})


@dataclass(frozen=True, eq=False)
class GateJaxpr:
    """A quantum function as traced.

    Attributes:
        closed: takes ``operands``; returns the leaves of what the function returned.
        operands: the values of the program around it that it reads.
        tree: the structure of what it returned.
    """

    closed: ClosedJaxpr
    operands: Sequence[Any]
    tree: Any = None

    @classmethod
    def trace(cls, function: Callable[..., Any], *args: Any) -> "GateJaxpr":
        """Trace a quantum function whose results are arrays.

        Args:
            function: the quantum function; what it closes over becomes operands.
            args: its arguments, arrays.
        """
        closed, types = make_flat_jaxpr(function, *args)
        jaxpr = convert_constvars_jaxpr(closed)
        return cls(ClosedJaxpr(jaxpr, ()), closed.consts, types.tree)


class UnknownValue:
    """Stands for an operand."""


def get_operations(eqn: JaxprEqn, values: Sequence[Any] | None = None) -> Sequence[Any]:
    """Return the operations of an equation, if it has some.

    Args:
        eqn: the equation.
        values: of its operands; without, something unknown stands in their place.
    """
    if eqn.primitive is not operations_p:
        return ()
    values = [UnknownValue() for _ in eqn.invars] if values is None else values
    made: Sequence[Any] = eqn.params["operator"].with_values(values)
    return made


@dataclass(frozen=True)
class ForLoop:
    """A ``quantum_for_loop`` with the values of its operands.

    Attributes:
        body: takes constants, the number of an iteration and carried values; returns the next ones.
        constants: those of the body.
        carried: those of the first iteration.
        length: how many iterations there are: a number, or a tracer if the program computes it.
        is_nest: whether it is made of loops and few gates alone, by values that vectors take.
    """

    body: ClosedJaxpr
    constants: Sequence[Any]
    carried: tuple[Any, ...]
    length: Any
    is_nest: bool

    @classmethod
    def from_equation(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> "ForLoop":
        """Return the loop of an equation."""
        length, rest = eqn.params["length"], list(operands)
        if length is None:
            length = rest.pop()
            length = max(0, int(length)) if isinstance(length, np.ndarray | np.generic) else length
        n, body = eqn.params["n_consts"], eqn.params["body"]
        constants, carried = rest[:n], tuple(rest[n:])
        is_known = isinstance(length, int) and not carried
        loops = (inner.primitive is for_loop_p for inner in iterate_equations(body.jaxpr))
        is_nest = is_known and any(loops) and _has_only_loops(body.jaxpr)
        # Those of more would be gone through for nothing.
        is_nest = is_nest and length * _count_min_gates(body.jaxpr) <= MAX_UNROLLED_GATES
        if is_nest:
            # What its iterations compute of these is known as well.
            constants = list(map(fold_constant, constants))
        return cls(body, constants, carried, length, is_nest)


def _count_min_gates(jaxpr: Jaxpr) -> int:
    """Return how many operations a jaxpr applies, but for loops of a length that is computed."""
    count = 0
    for eqn in filter(has_gates, jaxpr.eqns):
        if eqn.primitive is operations_p:
            count += len(eqn.params["sites"])
        elif eqn.primitive is region_p:
            count += _count_min_gates(eqn.params["body"].jaxpr)
        elif eqn.primitive is for_loop_p:
            count += (eqn.params["length"] or 0) * _count_min_gates(eqn.params["body"].jaxpr)
    return count


def _has_only_loops(jaxpr: Jaxpr) -> bool:
    def is_allowed(eqn: JaxprEqn) -> bool:
        if not has_gates(eqn):
            return is_elementwise(eqn) or (eqn.primitive is iota_p)
        if eqn.primitive is operations_p:
            return True
        is_part = eqn.primitive in (for_loop_p, region_p) and not eqn.outvars
        return is_part and not has_other_effects(eqn) and _has_only_loops(eqn.params["body"].jaxpr)

    return all(map(is_allowed, jaxpr.eqns))


@dataclass(frozen=True)
class WhileLoop:
    """A ``while`` of JAX's with the values of its operands; its attributes are a loop's."""

    condition: Callable[[Sequence[Any]], Any]
    body: ClosedJaxpr
    constants: Sequence[Any]
    carried: tuple[Any, ...]

    @classmethod
    def from_equation(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> "WhileLoop":
        """Return the loop of an equation."""
        ends = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        rest = iter(operands)
        of_condition, of_body = (list(itertools.islice(rest, n)) for n in ends)
        condition = eqn.params["cond_jaxpr"]

        def evaluate_condition(carried: Sequence[Any]) -> Any:
            return eval_jaxpr(condition.jaxpr, condition.consts, *of_condition, *carried)[0]

        return cls(evaluate_condition, eqn.params["body_jaxpr"], of_body, tuple(rest))


def get_region(eqn: JaxprEqn, operands: Sequence[Any]) -> tuple[GateJaxpr, Any]:
    """Return the function of a ``quantum_region``, and its controls and their values, if any."""
    body, controls = eqn.params["body"], eqn.params["controls"]
    n = len(body.in_avals)
    return (
        GateJaxpr(body, operands[:n]),
        None if controls is None else controls.with_values(operands[n:]),
    )


class GateInterpreter(ABC):
    """Goes through the equations of a jaxpr with gates, one after another."""

    def interpret(self, closed: ClosedJaxpr, *inputs: Any) -> list[Any]:
        """Evaluate a jaxpr with gates; return its results."""
        rules: dict[Primitive, Rule] = {
            operations_p: self._interpret_operations,
            outcome_p: self._interpret_outcome,
            region_p: self._interpret_region,
            for_loop_p: self._interpret_for_loop,
            while_p: self._interpret_while_loop,
            cond_p: self._interpret_cond,
        }
        rule_of = lambda eqn: rules[eqn.primitive] if has_gates(eqn) else self._interpret_classical
        return interpret_with(closed, rule_of, *inputs)

    @abstractmethod
    def _interpret_classical(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_operations(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_region(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
    @abstractmethod
    def _interpret_cond(self, eqn: JaxprEqn, *operands: Any) -> Sequence[Any]: ...
