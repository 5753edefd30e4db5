"""Differentiate by parameters of gates in loops with a dynamic trip count.

Such parameters are *dynamic-count parameters*.  A circuit with such a loop, ::

    for_loop(0, n)(lambda i: qml.RX(x * i, 0))()
    return qml.expval(qml.Z(0))

is traced to a ``while`` that carries the number of the next parameter, and a *perturbation* for the
vector of all these parameters.  (Here each iteration is computed by itself; usually 64 are, see
``record/loop_precompute.py``.)  ::

    state number perturbation = while[
      body={ lambda x; i state number perturbation. let
          angle = mul x i
          state = quantum_gates[RX] state [angle] number
          perturbation = quantum_marked perturbation [angle] session number
          number = add number 1
        in (state, number, perturbation) }
    ] x 0 state 1073741824 0.0
    state value = quantum_measure state coefficients matrices params perturbation

The parameters of gates outside such loops are the vector ``params``, and their tangents and
cotangents are vectors of the program.  A vector of the dynamic-count parameters would have no
static shape.  So the runtime holds their tangents and cotangents, in the session of the circuit.
The program has the perturbation instead, which goes from the gates to the measurement as ``params``
does.  Its value is always 0.0.  Its tangent and cotangent are numbers that identify vectors:

    tangent of the perturbation      the vector, in the session, of these parameters' tangents
    cotangent of the perturbation    the vector, in the session, of these parameters' cotangents

The linear part of ``quantum_marked`` is a ``LinearMap``.  In forward mode, each iteration adds
the tangents of its parameters to the vector of tangents (``direction``).  Then ``derivative_p``
differentiates the measurement along the vector.

In reverse mode, ``vjp`` multiplies the cotangents of the measured values with a Jacobian that the
session keeps.  Then each iteration reads the cotangents of its parameters, by their number
(``cotangents``).  Measurements in several bases have a Jacobian and a VJP each, and JAX adds up the
cotangents of the perturbation.  Therefore these are powers of two: their sum identifies the sum of
the VJPs.

All reads must happen before the circuit ends and its session with it; the call ``after`` orders
them.

Reverse mode also computes the loop a second time, for the residuals of its iterations.  It cannot
measure a second time, so it reads the outcomes of mid-circuit measurements from the session
(``remember``, ``recall``).
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.interpreters import ad

from bellhop._jax.jaxprs import bind_equation
from bellhop.base.types import Handle, Operand
from bellhop.callbacks.linear_map import LinearMap
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    BOOL,
    HANDLE,
    call,
    is_call,
)
from bellhop.circuits.ir.precision import Precision
from bellhop.control_flow.tagged_values import ValueTag, tagged_p
from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import rewrite
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero

# The number of the first dynamic-count parameter, as in runtime/contract.toml.  The parameters
# outside loops of dynamic length have numbers below it.
FIRST_DYNAMIC_COUNT = 1 << 30


@dataclass(frozen=True)
class DynamicParamsTag(ValueTag):
    """Tag that adds gate parameters of a dynamic loop to the perturbation.

    A tag is a parameter of an identity equation and defines the equation's JVP and batching rules.
    The *perturbation* is a scalar zero, which represents all gate parameters in loops with a
    dynamic trip count (dynamic-count parameters). The equation's operands are the old perturbation,
    the new parameters f64[n], a handle by which the runtime finds the circuit's data, and the
    number of the first parameter. The result, the new perturbation, is zero too, but has another
    tangent: a scalar that identifies a vector in the runtime, to which the tangents of the new
    parameters are appended.
    """

    def compute_tangent(self, operands: Sequence[Operand], tangents: Sequence[Any]) -> Any:
        """JVP rule of the tag: append the parameters' tangents to the perturbation's tangent.

        Args:
            operands: the old perturbation, the parameters, the session's handle and the number of
                the first parameter.
            tangents: a tangent or symbolic zero for each operand.

        Returns:
            the tangent of the new perturbation, a scalar that identifies a vector in the runtime
            and is the result of a ``LinearMap``; a symbolic zero if nothing is perturbed.
        """
        *dots, _, _ = tangents
        if all(type(dot) is ad.Zero for dot in dots):
            return make_symbolic_zero(operands[0])
        _, params, session, number = operands
        transpose = functools.partial(
            _direction_transpose, ShapedArray((1, params.size), Precision.real_type())
        )
        linear = LinearMap(
            transpose, _append_to_direction, 2, (ShapedArray((), Precision.real_type()),)
        )
        return linear([session, number], list(map(ad.instantiate_zeros, dots)))[0]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Batching rule: drop the tag, and return the old perturbation, without a mapped axis.

        The value of the perturbation is zero for each element.
        """
        return operands[0]


class SavedOutcomeTag(ValueTag):
    """Tag of a mid-circuit outcome that the runtime keeps for the reverse pass.

    A tag is a parameter of an identity equation. Reverse mode computes loops a second time, but
    cannot measure again: `read_saved_outcomes` replaces tagged outcomes by reads. The equation's
    operands are the outcome, a handle by which the runtime finds the circuit's data, and the number
    of the outcome.
    """


_SAVED_OUTCOME = SavedOutcomeTag()


class DynamicParams(NamedTuple):
    """The gate parameters in loops with a dynamic trip count, while a circuit is traced.

    Such loops carry an instance. The runtime numbers these *dynamic-count parameters* and the saved
    mid-circuit outcomes in one sequence, in the order of execution.

    Attributes:
        next_index: i32[], the number of the next parameter or saved outcome.
        perturbation: f64[], a zero that represents the vector of all parameters so far. Its tangent
            identifies the vector of their tangents in the runtime.
    """

    next_index: Any
    perturbation: Any

    @classmethod
    def make_empty(cls) -> "DynamicParams":
        """Return the initial value, for a circuit without parameters in dynamic loops so far."""
        return cls(np.int32(FIRST_DYNAMIC_COUNT), np.zeros((), Precision.real_type()))

    def add_params(self, session: Handle, params: Any, count: Any) -> "DynamicParams":
        """Return a copy to which the parameters of executed gates are appended.

        Args:
            session: any handle of the circuit, by which the runtime finds the circuit's data.
            params: a vector of parameters.
            count: the number of parameters to append. An int must be the length of `params`. With
                a tracer, the first `count` elements of `params` are appended; the other elements
                are padding, which has no derivative and takes no numbers.
        """
        if not isinstance(count, int):
            params = jnp.where(jnp.arange(params.size) < count, params, 0.0)
        perturbation = DynamicParamsTag().tag(self.perturbation, params, session, self.next_index)
        return DynamicParams(self.next_index + jnp.int32(count), perturbation)

    def save_outcome(
        self, handle: Handle, session: Any, outcome: Any
    ) -> tuple["DynamicParams", Any, Any]:
        """Store a mid-circuit outcome in the runtime, for the reverse pass to read.

        Args:
            handle: the handle of the state after the measurement.
            session: any handle of the circuit, by which the runtime finds the circuit's data.
            outcome: the outcome, a boolean scalar.

        Returns:
            a copy of this object with the next free number, as the outcome takes a number; the
            handle of the state afterwards; and the outcome, tagged so that the reverse pass finds
            it.
        """
        (handle,) = call("remember", [handle, outcome, self.next_index], HANDLE)
        outcome = _SAVED_OUTCOME.tag(outcome, session, self.next_index)
        return DynamicParams(self.next_index + jnp.int32(1), self.perturbation), handle, outcome


def read_saved_outcomes(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace mid-circuit outcomes in a jaxpr by reads of the outcomes that were saved.

    Reverse mode computes loops a second time, and cannot measure a second time. The measurements
    stay in the jaxpr, as dead code that the caller removes.

    Args:
        closed: a jaxpr in which saved outcomes are tagged (`SavedOutcomeTag`).

    Returns:
        a jaxpr with the same inputs and outputs; ``closed`` itself if it has no tagged outcome.
    """

    def recall(eqn: JaxprEqn, value: Any, *others: Any) -> Any:
        """Bind an equation; if it tags a saved outcome, read the outcome from the runtime."""
        if SavedOutcomeTag.is_tagging(eqn):
            return call("recall", others, BOOL)
        return bind_equation(eqn, value, *others)

    if not any(SavedOutcomeTag.is_tagging(eqn) for eqn in iterate_equations(closed.jaxpr)):
        return closed
    return rewrite(closed, {tagged_p: recall})


def has_session_reads(circuit: ClosedJaxpr) -> bool:
    """Return whether a circuit reads derivatives or saved outcomes from the runtime.

    The runtime keeps them, until the circuit ends, for loops with a dynamic trip count.
    """
    return any(is_call(eqn, "after") for eqn in iterate_equations(circuit.jaxpr))


def compute_perturbation_cotangent(handle: Handle, saved: Any, values_bar: Any) -> Any:
    """Compute the VJP by gate parameters in loops with a dynamic trip count.

    The runtime multiplies a Jacobian that it keeps with the cotangents of measured values. It keeps
    the resulting vectors, the cotangents of these gate parameters, one vector for each row.

    Args:
        handle: a handle of the circuit.
        saved: the number by which the runtime finds the Jacobian, i32[].
        values_bar: cotangents of measured values, f64[rows, values].

    Returns:
        f64[rows], for each vector a number by which the runtime finds it. The numbers are the
        cotangents of the perturbation, the scalar that represents these parameters in the program.
    """
    result = ShapedArray(values_bar.shape[:1], Precision.real_type())
    return call("vjp", [handle, values_bar, saved], result, bits=_count_exact_bits())[0]


def _count_exact_bits() -> int:
    """Return the largest n so that the real dtype holds all integers up to 2**n."""
    return int(jnp.finfo(Precision.real_type()).nmant) + 1


def _append_to_direction(cursor: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Append tangents of gate parameters to the direction that the runtime stores.

    The direction is a vector with the tangents of all gate parameters in loops with a dynamic trip
    count. In the jaxpr a real scalar identifies it, the tangent of the perturbation. This function
    evaluates the ``LinearMap`` of `DynamicParamsTag`.

    Args:
        cursor: a handle by which the runtime finds the circuit's data, and the number of the first
            parameter.
        tangents: the scalar that identifies the direction so far, and an array with the tangents
            of the parameters.

    Returns:
        a list of one scalar, which identifies the longer direction.
    """
    session, number = cursor
    # Reshaping is faster to trace than indexing.
    operands = [session, *(dot.reshape(1, *dot.shape) for dot in tangents), number]
    (after,) = call(
        "direction", operands, ShapedArray((1,), Precision.real_type()), bits=_count_exact_bits()
    )
    return [after.reshape(())]


def _direction_transpose(
    result: ShapedArray, cursor: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Transpose of `_append_to_direction`: read cotangents of gate parameters from the runtime.

    The runtime has a vector with the cotangents of all gate parameters in loops with a dynamic trip
    count. In the jaxpr, the cotangent of one scalar, the perturbation, represents the vector.

    Args:
        result: the type of the parameters' cotangents, with an axis of length one in front.
        cursor: a handle by which the runtime finds the circuit's data, and the number of the first
            parameter.
        cotangents: a list of one scalar, the cotangent of the perturbation, by which the runtime
            identifies the vector.

    Returns:
        a list: the same scalar, as the cotangent of the perturbation before
        `_append_to_direction`, and the cotangents of the parameters.
    """
    session, number = cursor
    (bar,) = cotangents
    (of_params,) = call("cotangents", [session, bar.reshape(1), number], result)
    return [bar, of_params.reshape(result.shape[1:])]
