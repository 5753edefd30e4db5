"""The JVP rules of the primitives in a circuit, for derivatives of any order.

Tangents do not go through gates.  They go from the vector ``params`` of all gate parameters, and
from the ``perturbation`` of those in loops of dynamic length (``dynamic_count``), directly to the
measurement.  Its JVP rule differentiates by both, and by the coefficients and matrices of
observables::

    state value = quantum_measure[Expval(Z)] state [] [] params perturbation

has the tangent ``value_dot``, where a loop has made that of the perturbation, computed by ::

    state jacobian saved = quantum_derivative[Expval(Z) order=1] state [] [] params perturbation
    state steps = quantum_call[operation=steps] state
    perturbation_dot = bellhop_linear_map session number perturbation_dot angles_dot
    value_dot = dot_general jacobian params_dot                                  f64[1, n]
    more_dot = bellhop_linear_map state steps saved [[perturbation_dot]]
    value_dot = add value_dot more_dot

There is no highest order, for three reasons:

* The derivative of order ``k`` is an array with ``k`` axes of length ``n``.  Its own tangent is the
  derivative of order ``k + 1``, multiplied with ``params_dot``.
* A directional derivative is linear in each of its directions.  Its tangent is a sum of directional
  derivatives: one with an additional direction, and for each direction one with that direction's
  tangent in its place.
* Expectation values are linear in the coefficients of observables, and second moments quadratic.
  The tangent by a coefficient is made of values again (``observable_derivatives``), multiplied
  with the coefficient's tangent.

A variance is not linear in the state, but the second moment is.  So ``quantum_derivative``
of a variance gives the derivative of ``E[A**2]``, and ``_moved_values`` applies the chain rule.

With the adjoint method the measurement has the Jacobian too, and the circuit does not run again.

A derivative along directions is that of the circuit as far as ``steps``.  One of order one that the
session keeps is a ``LinearMap``, whose transpose gives a VJP for reverse mode.
"""

import itertools
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bellhop.base.types import Handle, Operand
from bellhop.circuits.backends.compiled.differentiable.measurement_jvp import MeasurementJvp
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    Measuring,
    Query,
    derivative_p,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.observable_derivatives import Change
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    HANDLE,
    INTEGER,
    Amplitudes,
    GateOperands,
    call,
    gates_p,
)
from bellhop.circuits.ir.diff_method import DIFFERENCES_OF_DIFFERENCES
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.tangents import symbolic_zero
from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.state import override_trace_state, trace_state

# The number under which the session keeps the derivative that the adjoint method gives.
_BY_ADJOINT_METHOD = np.int32(0)


def undifferentiable_gates(obstacle: str) -> AbstractContextManager[None]:
    """Make derivatives by gate parameters an error inside of the ``with`` block.

    Args:
        obstacle: the message of the error; empty for no error.
    """
    return override_trace_state(obstacle=obstacle)


def _gates_jvp(
    primals: Sequence[Operand], tangents: Sequence[Any], *, obstacle: str, **static: Any
) -> Any:
    if type(GateOperands(*tangents).params) is not ad.Zero:
        reason = trace_state().obstacle or obstacle
        if reason:
            raise DifferentiableCompileError(reason)
        if static["amplitudes"] is Amplitudes.GIVEN:
            static["amplitudes"] = Amplitudes.DIFFERENTIATED
    # The tangents of parameters reach the measurement through its operand ``params``, not through
    # the handle of the state.
    handle = gates_p.bind(*primals, obstacle=obstacle, **static)
    return handle, symbolic_zero(handle)


ad.primitive_jvps[gates_p] = _gates_jvp


def _measure_jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    names: Any,
    measuring: Measuring,
    query: Query,
) -> Any:
    """Differentiate the measurements at the end of a circuit, and their Jacobian where asked."""
    of = MeasurementJvp.of if query is Query.VALUES else MeasurementJvp.again
    jvp = of(names, primals, tangents, measuring.with_means())
    if query is Query.VALUES:
        handle, results, dots = _values_jvp(jvp, measuring)
    elif jvp.is_by_sweep:
        handle, *results = jvp.measure(measuring, query)
        dots = jvp.along(measuring)
    else:
        handle, results, dots = _jacobian_jvp(jvp, measuring)
    return [handle, *results], [symbolic_zero(handle), *dots]


def _values_jvp(jvp: MeasurementJvp, measuring: Measuring) -> tuple[Any, list[Any], list[Any]]:
    """Return the handle, the values of measurements, and the tangents of these."""
    differentiation = jvp.measuring.differentiation
    if jvp.moves and differentiation.obstacle:
        raise DifferentiableCompileError(differentiation.obstacle)
    if jvp.is_by_sweep:
        handle, *values = jvp.measure(measuring, Query.VALUES)
        return handle, values, jvp.by_sweep(measuring)
    if jvp.moves_by_gates and differentiation.is_adjoint:
        handle, *values, jacobian = jvp.measure(measuring, Query.JACOBIAN)
        handle, dots = _moved_by_adjoint_method(handle, jvp, values, jacobian)
        return handle, values, dots
    handle, *values = jvp.measure(measuring, Query.VALUES)
    if not jvp.moves:
        return handle, values, list(map(symbolic_zero, values))
    handle, dots = _moved_by_derivative(handle, jvp, values)
    return handle, values, dots


def _jacobian_jvp(jvp: MeasurementJvp, measuring: Measuring) -> tuple[Any, list[Any], list[Any]]:
    """Return the same of values and their Jacobian, each of which the device gave."""
    handle, *values, jacobian = jvp.measure(measuring, Query.JACOBIAN)
    handle, dots = _moved_by_adjoint_method(handle, jvp, values, jacobian)
    handle, dot = _moved(handle, jvp, 1)
    dot = jvp.without_amplitudes(dot, 1)
    if measuring.means().measurements:
        handle, dot = _with_jacobians_of_variances(handle, jvp, dot)
    return handle, [*values, jvp.without_amplitudes(jacobian, 1)], [*dots, dot]


def _moved_by_derivative(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Return the handle and the tangents of values, by a derivative that runs the gates again."""
    if not jvp.moves_by_gates:
        return _moved_values(handle, jvp, values, None)
    measuring, keep = jvp.measuring, jvp.perturbation_dot is not None
    basis = measuring.differentiation.basis(jvp.all_params)
    handle, jacobian, saved = jvp.derivative(handle, measuring, 1, keep=keep, basis=basis)
    if basis is not None:
        jacobian = jacobian @ basis / len(basis)
    return _moved_values(handle, jvp, values, jacobian, saved if keep else None)


def _moved_by_adjoint_method(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any
) -> tuple[Any, list[Any]]:
    """Return the handle and the tangents of values, of which the device gave the Jacobian."""
    # The Jacobian of a variance by the adjoint method is its own, not that of its moment.
    own = jvp.measuring.of(jvp.measuring.measurements[: len(values)])
    by_data = jvp.with_tangents_of("coefficients", "matrices")
    by_gates = jvp.with_tangents_of("params", "amplitudes", "perturbation")._replace(measuring=own)
    handle, dots = _moved_values(handle, by_gates, values, jacobian, _BY_ADJOINT_METHOD)
    if by_data.moves:
        handle, more = _moved_values(handle, by_data, values, None)
        dots = list(map(operator.add, dots, more))
    return handle, dots


def _moved_values(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any, saved: Any = None
) -> tuple[Any, list[Any]]:
    """Return the handle and the tangents of values.

    Args:
        handle: the handle of the state.
        jvp: what is measured, with the mean of each variance at the end.
        values: the measured values, without these means.
        jacobian: by the parameters, if they have a tangent; that of a variance is of its moment.
        saved: the number of the first derivative by the perturbation, if the session keeps it.
    """
    handle, dot = _moved(handle, jvp, 0, jacobian, saved)
    dots = jvp.measuring.results(dot)
    n = len(values)
    means = jvp.measuring.of(jvp.measuring.measurements[n:])
    if means.measurements:
        handle, mean, _ = jvp.derivative(handle, means, 0)
        for number, square in enumerate(jvp.measuring.squares()):
            if square >= 0:
                dots[number] -= 2 * mean[square - n] * dots[square]
    return handle, dots[:n]


def _derivative_jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    names: Any,
    measuring: Measuring,
    order: int,
    keep: bool,
) -> Any:
    jvp = MeasurementJvp.again(names, primals, tangents, measuring)
    if jvp.primals.basis is not None and jvp.moves:
        # Derivatives along a basis are finite differences.
        raise DifferentiableCompileError(DIFFERENCES_OF_DIFFERENCES)
    handle, derivative, saved = jvp.derivative(
        jvp.primals.handle, jvp.measuring, order, keep=keep, saved=jvp.primals.saved
    )
    handle, dot = _moved(handle, jvp, order)
    derivative, dot = (jvp.without_amplitudes(each, order) for each in (derivative, dot))
    return [handle, derivative, saved], [symbolic_zero(handle), dot, symbolic_zero(saved)]


def _with_jacobians_of_variances(handle: Handle, jvp: MeasurementJvp, dot: Any) -> tuple[Any, Any]:
    """Return the handle and the tangent of a Jacobian, of which ``dot`` has that of moments."""
    of_means = jvp._replace(measuring=jvp.measuring.means())
    handle, mean, _ = jvp.derivative(handle, of_means.measuring, 0)
    handle, slope, _ = jvp.derivative(handle, of_means.measuring, 1)
    handle, mean_dot = _moved(handle, of_means, 0, slope)
    handle, slope_dot = _moved(handle, of_means, 1)
    slope, slope_dot = (jvp.without_amplitudes(each, 1) for each in (slope, slope_dot))
    of_squares = mean_dot[:, None] * slope + mean[:, None] * slope_dot
    ends = list(itertools.accumulate(jvp.measuring.sizes()))
    n = len(ends) - len(mean)
    for number, square in enumerate(jvp.measuring.squares()):
        if square >= 0:
            dot = dot.at[ends[number] - 1].add(-2 * of_squares[square - n])
    return handle, dot[: ends[n - 1]]


def _moved(
    handle: Handle, jvp: MeasurementJvp, order: int, more: Any = None, saved: Any = None
) -> tuple[Any, Any]:
    """Return the handle and the tangent of a derivative, along directions if it has such.

    Args:
        handle: the handle of the state.
        jvp: what is measured, and the tangents.
        order: the order of the derivative; order 0 is the values themselves.
        more: the derivative of the next order, if there is one already.
        saved: the number of the first derivative by the perturbation, if the session keeps it.
    """
    measuring, directions, steps = jvp.measuring, jvp.primals.directions, jvp.primals.steps
    rows = () if directions is None else directions.shape[:1]
    dot: Any = jnp.zeros(measuring.derivative(rows, jvp.all_params, order).shape, real_type())
    if jvp.params_dot is not None:
        if more is None:
            handle, more, _ = jvp.derivative(handle, measuring, order + 1)
        dot += more @ jvp.params_dot
    if jvp.perturbation_dot is not None:
        if directions is None:
            handle, steps = call("steps", [handle], HANDLE, INTEGER)
        another = _with_another(directions, jvp.perturbation_dot)
        dot += jvp.along_perturbations(handle, another, order, steps=steps, saved=saved).reshape(
            dot.shape
        )
    if (directions_dot := jvp.given.get("directions")) is not None:
        each = _with_tangent(directions, directions_dot)
        moved = jvp.along_perturbations(handle, each, order, steps=steps, saved=jvp.primals.saved)
        dot += jnp.sum(moved.reshape(-1, *dot.shape), axis=0)
    changes, terms = jvp.changes()
    if changes:
        handle, of_terms, _ = terms.derivative(handle, terms.measuring, order)
        dot = _moved_by_data(dot, changes, of_terms, measuring, axis=len(rows))
    return handle, dot


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[derivative_p] = _derivative_jvp


def _moved_by_data(
    dot: Any, changes: Sequence[Change], of_terms: Any, measuring: Measuring, *, axis: int
) -> Any:
    """Add to a tangent what it gets from the tangents of coefficients and matrices.

    Args:
        dot: the tangent so far.
        changes: how measurements change by these tangents.
        of_terms: the derivatives of all terms of all changes, one after another.
        measuring: what is measured.
        axis: the axis of values.
    """
    ends = list(itertools.accumulate(measuring.sizes()))
    first = 0
    for change in changes:
        last = first + len(change.measurements)
        terms = jax.lax.slice_in_dim(of_terms, first, last, axis=axis)
        # An expectation value is one number.
        place = (slice(None),) * axis + (ends[change.of] - 1,)
        dot = dot.at[place].add(jnp.tensordot(change.weights, terms, axes=([0], [axis])))
        first = last
    return dot


def _with_tangent(directions: Any, directions_dot: Any) -> Any:
    """Return, for each k, all rows of directions with the k-th direction as its tangent."""
    rows, order = directions.shape
    is_replaced = np.eye(order, dtype=bool)[:, None, :]
    return jnp.where(is_replaced, directions_dot, directions).reshape(order * rows, order)


def _with_another(directions: Any, direction: Any) -> Any:
    """Return the rows of directions with an additional direction at the end of each."""
    if directions is None:
        return jnp.reshape(direction, (1, 1))
    column = jnp.broadcast_to(direction, (directions.shape[0], 1))
    return jax.lax.concatenate([directions, column], 1)
