"""Quantum functions as jaxprs: gates are equations with an effect.

The argument of ``qml.adjoint`` in ::

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

Conditionals and ``while`` loops are JAX's own equations.  An ``Interpreter`` (``interpreter``)
interprets such a jaxpr, any number of times: the user's function is not called again.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Effect, Jaxpr, JaxprEqn, Primitive
from jax.lax import iota_p

from bellhop._jax.jaxprs import convert_constvars_jaxpr
from bellhop._jax.private import register_effect
from bellhop.arguments.flat_tree import make_flat_jaxpr
from bellhop.circuits.ir.vectorize.elementwise import is_elementwise
from bellhop.jaxprs.constant_eval import fold_constant
from bellhop.jaxprs.equations import inner_jaxprs


class _GateEffect(Effect):
    """The effect of gate equations, so that JAX does not remove or reorder them."""

    def __str__(self) -> str:
        return "Gates"


register_effect(_GateEffect)
GATE_EFFECT = _GateEffect()

# The program computes the iteration indices of longer loops, instead of storing a constant.
_MAX_CONSTANT_SIZE = 64

# operands: the tracers in the operations -> (). ``allocates``: whether any of them allocates wires.
operations_p = Primitive("quantum_operations")
# operands: the wire if it is traced -> the outcome
outcome_p = Primitive("quantum_outcome_of_wire")
# operands: the operands of the body, and the tracers in the controls -> ()
region_p = Primitive("quantum_region")
# operands: constants, carried values, and the trip count if it is dynamic -> carried values
for_loop_p = Primitive("quantum_for_loop")
for _primitive in (operations_p, outcome_p, region_p, for_loop_p):
    _primitive.multiple_results = True


@operations_p.def_effectful_abstract_eval
def _operations_abstract_eval(*_: object, **__: object) -> Any:
    """Return no results, and the gate effect."""
    return [], {GATE_EFFECT}


@outcome_p.def_effectful_abstract_eval
def _outcome_abstract_eval(*_: object, **__: object) -> Any:
    """Return the type of an outcome, a bool scalar, and the gate effect."""
    return [ShapedArray((), np.dtype(bool))], {GATE_EFFECT}


@region_p.def_effectful_abstract_eval
def _region_abstract_eval(*_: object, body: ClosedJaxpr, **__: object) -> Any:
    """Return no results, and the effects of gates and of the body."""
    # The gate effect is kept even if the body has no gates, since JAX has no rule for a region.
    return [], {GATE_EFFECT, *body.effects}


@for_loop_p.def_effectful_abstract_eval
def _loop_abstract_eval(*_: object, body: ClosedJaxpr, **__: object) -> Any:
    """Return the types of the carried values, and the effects of gates and of the body."""
    return body.out_avals, {GATE_EFFECT, *body.effects}


def has_gates(eqn: JaxprEqn) -> bool:
    """Return whether an equation or its inner jaxprs apply gates."""
    return GATE_EFFECT in eqn.effects


def has_other_effects(eqn: JaxprEqn) -> bool:
    """Return whether an equation has effects other than gates, such as callbacks."""
    return bool(eqn.effects - {GATE_EFFECT})


def _iterate_gates(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr that apply gates, also in inner jaxprs.

    An equation with inner jaxprs (a region, a loop, a conditional) comes before the equations in
    these jaxprs.
    """
    for eqn in filter(has_gates, jaxpr.eqns):
        yield eqn
        if eqn.primitive not in (operations_p, outcome_p):
            for inner in inner_jaxprs(eqn):
                yield from _iterate_gates(inner)


@dataclass(frozen=True, eq=False)
class GateJaxpr:
    """A quantum function traced to a jaxpr with gates.

    It is the body of a loop, or the argument of ``qml.adjoint`` or ``qml.ctrl``.  An object without
    operands wraps a jaxpr whose gates are only inspected.

    Attributes:
        closed: jaxpr, ``(*operands, *arguments) -> leaves of the function's result``.
        operands: the values of the enclosing program that the function closes over.
        tree: the tree structure of the function's result; None if the result is not needed.
    """

    closed: ClosedJaxpr
    operands: Sequence[Any]
    tree: Any = None

    @classmethod
    def trace(cls, function: Callable[..., Any], *args: Any) -> "GateJaxpr":
        """Trace a quantum function whose results are arrays.

        Values of the enclosing program that the function closes over become ``operands``.  The
        arguments are not stored: they are inputs of ``closed`` after the operands.

        Args:
            function: the quantum function, which applies gates to the circuit that is being traced.
            args: example arguments of the function, arrays.

        Returns:
            the traced function, whose ``tree`` is the structure of its result.
        """
        closed, types = make_flat_jaxpr(function, *args)
        jaxpr = convert_constvars_jaxpr(closed)
        return cls(ClosedJaxpr(jaxpr, ()), closed.consts, types.tree)

    @classmethod
    def from_region(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> tuple["GateJaxpr", Any]:
        """Return the quantum function and the controls of a ``quantum_region`` equation.

        Such an equation is the adjoint of a quantum function, or a controlled quantum function.

        Args:
            eqn: the ``quantum_region`` equation.
            operands: the values of the equation's operands, in order.

        Returns:
            the quantum function, before inversion or control; and a tuple of control wires and
            control values, or None for an adjoint.
        """
        body, controls = eqn.params["body"], eqn.params["controls"]
        n = len(body.in_avals)
        return (
            cls(body, operands[:n]),
            None if controls is None else controls.with_values(operands[n:]),
        )

    def iterate_gates(self) -> Iterator[JaxprEqn]:
        """Yield the equations that apply gates, also inside of loops, branches and regions."""
        return _iterate_gates(self.closed.jaxpr)

    @staticmethod
    def bind_operations(operator: Any, operands: Sequence[Any], **params: Any) -> None:
        """Append an equation for a sequence of gates to the jaxpr that is being traced.

        Args:
            operator: a ``TracedOperator``, the template of the operations with placeholders for
                tracers.
            operands: the tracers that fill the placeholders, in order.
            params: ``sites``, the user's ``file:line`` of each operation, and ``allocates``,
                whether any operation allocates or deallocates wires.
        """
        operations_p.bind(*operands, operator=operator, **params)

    @staticmethod
    def bind_outcome(wire: Any, operands: Sequence[Any], **params: Any) -> Any:
        """Append an equation for a mid-circuit measurement to the jaxpr being traced.

        Args:
            wire: a ``TracedOperator``, the template of a list with the wire label, which is a
                placeholder if the label is traced.
            operands: the label's tracer, or empty.
            params: ``reset``, ``postselect``, ``site`` and ``is_joint`` of the measurement, as in
                ``Interpreter.mid_measure``.

        Returns:
            the outcome, a bool tracer.
        """
        [outcome] = outcome_p.bind(*operands, operator=wire, **params)
        return outcome

    def bind_region(self, controls: Any, control_operands: Sequence[Any]) -> None:
        """Append a ``quantum_region`` equation to the jaxpr that is being traced.

        The equation is for the adjoint of this function, or for the function with controls.

        Args:
            controls: a ``TracedOperator``, the template of the pair of control wires and control
                values with placeholders for tracers; None for the adjoint.
            control_operands: the tracers that fill the placeholders, in order.
        """
        region_p.bind(*self.operands, *control_operands, body=self.closed, controls=controls)

    @property
    def outcomes(self) -> list[JaxprEqn]:
        """The equations of mid-circuit measurements, also inside of loops and branches."""
        return [eqn for eqn in self.iterate_gates() if eqn.primitive is outcome_p]

    @property
    def has_outcomes(self) -> bool:
        """Whether the function has mid-circuit measurements."""
        return bool(self.outcomes)

    @property
    def is_straight(self) -> bool:
        """Whether the function's equations with gates are operations, regions and for loops only.

        A region is an adjoint or controlled function. False for a mid-circuit measurement, and for
        a while loop or conditional with gates, also inside of regions and loops. Equations without
        gates do not count.
        """
        straight = (operations_p, region_p, for_loop_p)
        return all(eqn.primitive in straight for eqn in self.iterate_gates())

    @property
    def has_regions(self) -> bool:
        """Whether the function contains adjoint or controlled functions."""
        return any(eqn.primitive is region_p for eqn in self.iterate_gates())

    @property
    def has_nested_loops(self) -> bool:
        """Whether this function has a for loop in another for loop."""
        loops = (eqn for eqn in self.iterate_gates() if eqn.primitive is for_loop_p)
        return any(
            inner.primitive is for_loop_p
            for loop in loops
            for inner in _iterate_gates(loop.params["body"].jaxpr)
        )

    @property
    def has_allocations(self) -> bool:
        """Whether the function allocates or deallocates wires."""
        return any(eqn.params.get("allocates") for eqn in self.iterate_gates())


class UnknownValue:
    """Placeholder for an operand whose value is not available."""


def get_operations(eqn: JaxprEqn, values: Sequence[Any] | None = None) -> Sequence[Any]:
    """Rebuild the PennyLane operations of a ``quantum_operations`` equation.

    Args:
        eqn: any equation.
        values: the values of the equation's operands, which replace the tracers in the operations;
            None to replace each tracer by an ``UnknownValue``.

    Returns:
        the operations in order; an empty tuple for an equation of another primitive.
    """
    if eqn.primitive is not operations_p:
        return ()
    values = [UnknownValue() for _ in eqn.invars] if values is None else values
    operations: Sequence[Any] = eqn.params["operator"].with_values(values)
    return operations


@dataclass(frozen=True)
class ForLoop:
    """A ``quantum_for_loop`` equation with the values of its operands.

    Attributes:
        body: jaxpr of one iteration, ``(*constants, index, *carried) -> carried``.
        constants: the loop-invariant operands of the body.
        carried: the initial carried values.
        length: the trip count: an int, or a tracer if it is dynamic.
        can_unroll: whether the loop can be unrolled with vectorized parameters: it nests other
            loops, has a static trip count and no carried values, applies few gates, and computes
            their parameters elementwise.
        MAX_UNROLLED_GATES: a loop with more gates is not unrolled: it compiles faster as a loop,
            and needs less memory.
    """

    body: ClosedJaxpr
    constants: Sequence[Any]
    carried: tuple[Any, ...]
    length: Any
    can_unroll: bool

    MAX_UNROLLED_GATES: ClassVar[int] = 512

    @staticmethod
    def bind(body: GateJaxpr, carried: Sequence[Any], length: Any) -> list[Any]:
        """Append a ``quantum_for_loop`` equation to the jaxpr that is being traced.

        Args:
            body: the traced function of one iteration, ``(index, *carried) -> carried``.
            carried: the initial carried values.
            length: the trip count: an int, or a tracer if it is dynamic.

        Returns:
            the carried values after the last iteration.
        """
        is_static = isinstance(length, int)
        last: list[Any] = for_loop_p.bind(
            *body.operands,
            *carried,
            *([] if is_static else [length]),
            body=body.closed,
            n_consts=len(body.operands),
            length=length if is_static else None,
        )
        return last

    @classmethod
    def from_equation(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> "ForLoop":
        """Build the loop from a ``quantum_for_loop`` equation, and decide ``can_unroll``.

        If the loop can be unrolled (``can_unroll``), integer constants that can be evaluated become
        NumPy arrays.

        Args:
            eqn: the ``quantum_for_loop`` equation.
            operands: the values of the equation's operands: constants, initial carried values and,
                unless it is a parameter of the equation, the trip count. A NumPy trip count becomes
                an int, and 0 if it is negative; a tracer stays a tracer.

        Returns:
            the loop, with the body and the values of its operands; nothing is applied.
        """
        length, rest = eqn.params["length"], list(operands)
        if length is None:
            length = rest.pop()
            length = max(0, int(length)) if isinstance(length, np.ndarray | np.generic) else length
        n, body = eqn.params["n_consts"], eqn.params["body"]
        constants, carried = rest[:n], tuple(rest[n:])
        is_known = isinstance(length, int) and not carried
        loops = (inner.primitive is for_loop_p for inner in _iterate_gates(body.jaxpr))
        can_unroll = is_known and any(loops) and _can_unroll_body(body.jaxpr)
        can_unroll = can_unroll and length * _count_min_gates(body.jaxpr) <= cls.MAX_UNROLLED_GATES
        if can_unroll:
            # With folded constants, the iterations' wires and parameters may be static.
            constants = list(map(fold_constant, constants))
        return cls(body, constants, carried, length, can_unroll)

    @staticmethod
    def make_indices(n_iterations: int) -> Any:
        """Return the iteration indices ``0, ..., n_iterations - 1`` for ``jax.lax.scan``.

        A short array is a NumPy constant, which saves the kernel that XLA would generate to fill
        it.
        """
        return (np if n_iterations <= _MAX_CONSTANT_SIZE else jnp).arange(n_iterations)


def _count_min_gates(jaxpr: Jaxpr) -> int:
    """Return a lower bound of the number of operations that a jaxpr applies.

    Operations in a loop count once for each iteration.  Loops with a dynamic trip count, ``while``
    loops and conditionals count as zero.
    """
    count = 0
    for eqn in filter(has_gates, jaxpr.eqns):
        if eqn.primitive is operations_p:
            count += len(eqn.params["sites"])
        elif eqn.primitive is region_p:
            count += _count_min_gates(eqn.params["body"].jaxpr)
        elif eqn.primitive is for_loop_p:
            count += (eqn.params["length"] or 0) * _count_min_gates(eqn.params["body"].jaxpr)
    return count


def _can_unroll_body(jaxpr: Jaxpr) -> bool:
    """Return whether the iterations of a loop around a jaxpr can be unrolled together.

    The parameters of all iterations are then computed as arrays, so equations without gates must be
    elementwise (or ``iota``).  Gates, for loops and regions (adjoint or controlled functions) are
    allowed.  Loops that carry values, loops and regions with effects such as callbacks, mid-circuit
    measurements, conditionals, while loops and allocations of wires are excluded.
    """

    def is_allowed(eqn: JaxprEqn) -> bool:
        """Return whether one equation of the jaxpr permits unrolling.

        True for an elementwise equation or ``iota``, for gates that allocate no wires, and for a
        for loop or region that has no results and no effects but gates, and only such equations.
        """
        # Loops must not carry values, and regions and loops must not call Python.
        if not has_gates(eqn):
            return is_elementwise(eqn) or (eqn.primitive is iota_p)
        if eqn.primitive is operations_p:
            # The wires that an allocation frees depend on the code around the loop.
            return not eqn.params["allocates"]
        is_part = eqn.primitive in (for_loop_p, region_p) and not eqn.outvars
        return is_part and not has_other_effects(eqn) and _can_unroll_body(eqn.params["body"].jaxpr)

    return all(map(is_allowed, jaxpr.eqns))


@dataclass(frozen=True)
class WhileLoop:
    """A ``while`` equation of JAX with the values of its operands.

    Attributes:
        condition: ``carried -> bool``, whether another iteration follows; ``carried`` is a
            sequence.
        body: jaxpr of one iteration, ``(*constants, *carried) -> carried``.
        constants: the loop-invariant operands of the body.
        carried: the initial carried values.
    """

    condition: Callable[[Sequence[Any]], Any]
    body: ClosedJaxpr
    constants: Sequence[Any]
    carried: tuple[Any, ...]

    @classmethod
    def from_equation(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> "WhileLoop":
        """Build the loop from a ``while`` equation of JAX.

        Args:
            eqn: the ``while`` equation.
            operands: the values of the equation's operands: the constants of the condition, the
                constants of the body, and the initial carried values.

        Returns:
            the loop. Its ``condition`` has the condition's constants bound; nothing is evaluated.
        """
        counts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        rest = iter(operands)
        cond_consts, body_consts = (list(itertools.islice(rest, n)) for n in counts)
        condition = eqn.params["cond_jaxpr"]

        def evaluate_condition(carried: Sequence[Any]) -> Any:
            return eval_jaxpr(condition.jaxpr, condition.consts, *cond_consts, *carried)[0]

        return cls(evaluate_condition, eqn.params["body_jaxpr"], body_consts, tuple(rest))
