"""Define the JVP rules of the primitives in a circuit, to any order.

Gate equations pass no tangents on.  Tangents go from the vector ``params`` of all gate parameters,
and from the ``perturbation`` of parameters in loops with a dynamic trip count (``dynamic_count``),
directly to the measurement.  The JVP rule of the measurement differentiates by both, and by the
coefficients and matrices of observables::

    state value = quantum_measure[Expval(Z)] state [] [] params perturbation

has the tangent ``value_dot``, where a loop has computed the perturbation's tangent::

    state jacobian saved = quantum_derivative[Expval(Z) order=1] state [] [] params perturbation
    state steps = quantum_call[operation=steps] state
    perturbation_tangent = bellhop_linear_map session number perturbation_tangent angles_dot
    value_dot = dot_general jacobian params_dot                                  f64[1, n]
    more_dot = bellhop_linear_map state steps saved [[perturbation_tangent]]
    value_dot = add value_dot more_dot

Derivatives of any order exist, for three reasons:

* The derivative of order ``k`` is an array with ``k`` axes of length ``n``.  Its own tangent is the
  derivative of order ``k + 1``, multiplied with ``params_dot``.
* A directional derivative is linear in each of its directions.  Its tangent is a sum of directional
  derivatives: one with an additional direction, and for each direction one with that direction's
  tangent in its place.
* Expectation values are linear in the coefficients of observables, and second moments quadratic.
  The tangent by a coefficient is computed from measured values again (``observable_derivatives``),
  multiplied with the coefficient's tangent.

A variance is not linear in the state, but the second moment is.  So ``quantum_derivative``
of a variance gives the derivative of ``E[A**2]``, and ``_compute_value_tangents`` applies the
chain rule.

With the adjoint method the measurement returns the Jacobian too, and the circuit does not run
again.

A derivative along directions is the derivative of the circuit up to ``steps``.  A first derivative
that the session keeps is a ``LinearMap``, whose transpose gives a VJP for reverse mode.
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
    MeasurementSet,
    Query,
    derivative_p,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.observable_derivatives import ValueChange
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    HANDLE,
    INTEGER,
    Amplitudes,
    GateOperands,
    call,
    gates_p,
)
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.precision import Precision
from bellhop.errors import DifferentiableCompileError
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero
from bellhop.tracing.state import override_trace_state, trace_state

# The number under which the session keeps the derivative that the adjoint method computes.
_SAVED_BY_ADJOINT = np.int32(0)


def forbid_gate_derivatives(obstacle: str) -> AbstractContextManager[None]:
    """Return a context in which derivatives by any gate's parameters raise an error.

    Args:
        obstacle: the message of the ``DifferentiableCompileError``. If it is empty, only
            derivatives by gates whose equation has an obstacle raise.
    """
    return override_trace_state(obstacle=obstacle)


def _gates_jvp(
    primals: Sequence[Operand], tangents: Sequence[Any], *, obstacle: str, **static: Any
) -> Any:
    """JVP rule of ``quantum_gates``: apply the gates; the handle's tangent is zero.

    Tangents of parameters reach the measurement through its operand ``params``, not through the
    handle. Amplitudes that have a tangent are marked as differentiated.

    Args:
        primals: the fields of `GateOperands`.
        tangents: their tangents, some of them symbolic zeros.
        obstacle: the error message if the gates have no derivative by their parameters; else empty.
        **static: further parameters of the primitive.

    Raises:
        DifferentiableCompileError: if the gates' parameters have a tangent, and `obstacle` or
            `forbid_gate_derivatives` forbids the derivative.
    """
    if type(GateOperands(*tangents).params) is not ad.Zero:
        reason = trace_state().obstacle or obstacle
        if reason:
            raise DifferentiableCompileError(reason)
        if static["amplitudes"] is Amplitudes.GIVEN:
            static["amplitudes"] = Amplitudes.DIFFERENTIATED
    # The tangents of parameters reach the measurement through its operand ``params``, not through
    # the handle of the state.
    handle = gates_p.bind(*primals, obstacle=obstacle, **static)
    return handle, make_symbolic_zero(handle)


ad.primitive_jvps[gates_p] = _gates_jvp


def _measure_jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    names: Any,
    measuring: MeasurementSet,
    query: Query,
) -> Any:
    """JVP rule of a final measurement: of values, or of values with their Jacobian.

    Args:
        primals: the operands, fields of `MeasureOperands`.
        tangents: their tangents, some of them symbolic zeros.
        names: the names of the operands.
        measuring: the measurements and how they are differentiated.
        query: ``Query.VALUES`` or ``Query.JACOBIAN``.

    Returns:
        the results (the handle first) and their tangents.

    Raises:
        DifferentiableCompileError: if an operand has a tangent and the results have no derivative.
    """
    create = (
        MeasurementJvp.from_operands
        if query is Query.VALUES
        else MeasurementJvp.from_derivative_operands
    )
    jvp = create(names, primals, tangents, measuring.add_variance_means())
    if query is Query.VALUES:
        handle, results, result_tangents = _values_jvp(jvp, measuring)
    elif jvp.is_single_pass and not jvp.has_amplitude_params:
        handle, *results = jvp.bind_measurement(measuring, query)
        result_tangents = jvp.compute_second_tangents(measuring)
    else:
        handle, results, result_tangents = _jacobian_jvp(jvp, measuring)
    return [handle, *results], [make_symbolic_zero(handle), *result_tangents]


def _values_jvp(jvp: MeasurementJvp, measuring: MeasurementSet) -> tuple[Any, list[Any], list[Any]]:
    """Measure values, and compute the values' tangents.

    Args:
        jvp: operands and tangents; its measurements are `measuring`, followed by the expectation
            value of each variance's observable.
        measuring: the measurements whose values are returned.

    Returns:
        the handle of the state afterwards, the values, and their tangents.

    Raises:
        DifferentiableCompileError: if an operand has a tangent and the values have no derivative.
    """
    differentiation = jvp.measuring.differentiation
    if jvp.has_tangents and differentiation.obstacle:
        raise DifferentiableCompileError(differentiation.obstacle)
    if jvp.has_tangents and any(each.is_constant for each in measuring.measurements):
        return _values_with_constants_jvp(jvp, measuring)
    if jvp.is_single_pass:
        handle, *values = jvp.bind_measurement(measuring, Query.VALUES)
        return handle, values, jvp.compute_single_pass_tangents(measuring)
    if jvp.has_gate_tangents and differentiation.is_adjoint:
        handle, *values, jacobian = jvp.bind_measurement(measuring, Query.JACOBIAN)
        handle, dots = _compute_tangents_by_adjoint(handle, jvp, values, jacobian)
        return handle, values, dots
    handle, *values = jvp.bind_measurement(measuring, Query.VALUES)
    if not jvp.has_tangents:
        return handle, values, list(map(make_symbolic_zero, values))
    handle, dots = _compute_tangents_by_rerun(handle, jvp, values)
    return handle, values, dots


def _values_with_constants_jvp(
    jvp: MeasurementJvp, measuring: MeasurementSet
) -> tuple[Any, list[Any], list[Any]]:
    """Measure values, some of which have a zero derivative, and compute their tangents.

    Values with a derivative are measured once more, by a separate measurement that is
    differentiated. With shots, their tangents then may come from other samples than their values.

    Args:
        jvp: operands and tangents, of which some are not zero.
        measuring: the measurements, without variances.

    Returns:
        the handle of the state afterwards, the measured values, and their tangents.
    """
    handle, *values = jvp.bind_measurement(measuring, Query.VALUES)
    tangents = list(map(make_symbolic_zero, values))
    places = [k for k, each in enumerate(measuring.measurements) if not each.is_constant]
    if places:
        others = jvp.measuring.replace_measurements([measuring.measurements[k] for k in places])
        own = jvp._replace(primals=jvp.primals._replace(handle=handle), measuring=others)
        handle, _, found = _values_jvp(own, others)
        for place, tangent in zip(places, found, strict=True):
            tangents[place] = tangent
    return handle, values, tangents


def _jacobian_jvp(
    jvp: MeasurementJvp, measuring: MeasurementSet
) -> tuple[Any, list[Any], list[Any]]:
    """Measure values with their adjoint-method Jacobian; compute both tangents.

    Args:
        jvp: operands and tangents; its measurements are `measuring`, followed by the expectation
            value of each variance's observable.
        measuring: the measurements whose values are returned.

    Returns:
        the handle of the state afterwards; the values and their Jacobian; and the tangents of the
        values and of the Jacobian.
    """
    handle, *values, jacobian = jvp.bind_measurement(measuring, Query.JACOBIAN)
    handle, dots = _compute_tangents_by_adjoint(handle, jvp, values, jacobian)
    handle, dot = _compute_derivative_tangent(handle, jvp, 1)
    dot = jvp.drop_amplitudes(dot, 1)
    if measuring.to_variance_means().measurements:
        handle, dot = _correct_variance_jacobians(handle, jvp, dot)
    return handle, [*values, jvp.drop_amplitudes(jacobian, 1)], [*dots, dot]


def _compute_tangents_by_rerun(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Compute the values' tangents by parameter shifts or finite differences.

    The gates run again, with other parameters. Tangents of observables' coefficients and matrices
    are included.

    Args:
        handle: the handle of the state.
        jvp: operands and tangents; its measurements are followed by the expectation value of each
            variance's observable.
        values: the measured values, without these expectation values.

    Returns:
        the handle of the state afterwards, and a tangent for each value.
    """
    if not jvp.has_gate_tangents:
        return _compute_value_tangents(handle, jvp, values, None)
    measuring, keep = jvp.measuring, jvp.perturbation_tangent is not None
    basis = measuring.differentiation.make_basis(jvp.n_all_params)
    handle, jacobian, saved = jvp.bind_derivative(handle, measuring, 1, keep=keep, basis=basis)
    if basis is not None:
        jacobian = jacobian @ basis / len(basis)
    return _compute_value_tangents(handle, jvp, values, jacobian, saved if keep else None)


def _compute_tangents_by_adjoint(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any
) -> tuple[Any, list[Any]]:
    """Compute the values' tangents from the adjoint method's Jacobian.

    Tangents of observables' coefficients and matrices are included.

    Args:
        handle: the handle of the state.
        jvp: operands and tangents; its measurements are followed by the expectation value of each
            variance's observable.
        values: the measured values, without these expectation values.
        jacobian: derivative of `values` by the parameters, f64[values, p].

    Returns:
        the handle of the state afterwards, and a tangent for each value.
    """
    # The adjoint method differentiates the variance itself and not its second moment, so the
    # tangents by gates need no means of variances.
    own = jvp.measuring.replace_measurements(jvp.measuring.measurements[: len(values)])
    by_data = jvp.keep_tangents("coefficients", "matrices")
    by_gates = jvp.keep_tangents("params", "amplitudes", "perturbation")._replace(measuring=own)
    handle, dots = _compute_value_tangents(handle, by_gates, values, jacobian, _SAVED_BY_ADJOINT)
    if by_data.has_tangents:
        handle, more = _compute_value_tangents(handle, by_data, values, None)
        dots = list(map(operator.add, dots, more))
    return handle, dots


def _compute_value_tangents(
    handle: Handle, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any, saved: Any = None
) -> tuple[Any, list[Any]]:
    """Compute the values' tangents, with the chain rule of variances.

    Args:
        handle: the handle of the state.
        jvp: operands and tangents; its measurements may be followed by the expectation value of
            each variance's observable, for the chain rule.
        values: the measured values, without these expectation values.
        jacobian: the Jacobian by the parameters; None to compute it if they have a tangent. For the
            chain rule, its rows of variances are derivatives of second moments.
        saved: the number by which the runtime finds the first derivative by gate parameters in
            loops with a dynamic trip count, if it has kept this derivative; else None.

    Returns:
        the handle of the state afterwards, and a tangent for each value.
    """
    handle, dot = _compute_derivative_tangent(handle, jvp, 0, jacobian, saved)
    dots = jvp.measuring.unflatten_results(dot)
    n = len(values)
    means = jvp.measuring.replace_measurements(jvp.measuring.measurements[n:])
    if means.measurements:
        handle, mean, _ = jvp.bind_derivative(handle, means, 0)
        for number, square in enumerate(jvp.measuring.find_variance_means()):
            if square >= 0:
                dots[number] -= 2 * mean[square - n] * dots[square]
    return handle, dots[:n]


def _derivative_jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    names: Any,
    measuring: MeasurementSet,
    order: int,
    keep: bool,
) -> Any:
    """JVP rule of ``quantum_derivative``: its tangent is one order higher.

    Args:
        primals: the operands, fields of `MeasureOperands`.
        tangents: their tangents, some of them symbolic zeros.
        names: the names of the operands.
        measuring: the measurements to differentiate.
        order: the order of the derivative.
        keep: whether the runtime keeps the first derivative by gate parameters in loops with a
            dynamic trip count.

    Returns:
        the results (handle, derivative, number of the kept derivative) and their tangents.

    Raises:
        DifferentiableCompileError: if an operand has a tangent and the derivative is along a basis
            (a finite difference), or its method gives no further derivative.
    """
    jvp = MeasurementJvp.from_derivative_operands(names, primals, tangents, measuring)
    if jvp.primals.basis is not None and jvp.has_tangents:
        # Derivatives along a basis are finite differences.
        method = jvp.measuring.differentiation.method
        raise DifferentiableCompileError(DiffMethod.explain_second_difference(method))
    handle, derivative, saved = jvp.bind_derivative(
        jvp.primals.handle, jvp.measuring, order, keep=keep, saved=jvp.primals.saved
    )
    handle, dot = _compute_derivative_tangent(handle, jvp, order)
    derivative, dot = (jvp.drop_amplitudes(each, order) for each in (derivative, dot))
    zero_of_handle, zero_of_saved = map(make_symbolic_zero, (handle, saved))
    return [handle, derivative, saved], [zero_of_handle, dot, zero_of_saved]


def _correct_variance_jacobians(handle: Handle, jvp: MeasurementJvp, dot: Any) -> tuple[Any, Any]:
    """Apply the chain rule of variances to the tangent of a Jacobian.

    The Jacobian's rows of variances are derivatives of ``E[A**2]``; the derivative of ``E[A]**2``
    is subtracted.

    Args:
        handle: the handle of the state.
        jvp: operands and tangents; its measurements are followed by the expectation value of each
            variance's observable.
        dot: the tangent of the Jacobian f64[values, p], with rows for these expectation values.

    Returns:
        the handle of the state afterwards, and the tangent without the rows of these expectation
        values.
    """
    means_jvp = jvp._replace(measuring=jvp.measuring.to_variance_means())
    handle, mean, _ = jvp.bind_derivative(handle, means_jvp.measuring, 0)
    handle, slope, _ = jvp.bind_derivative(handle, means_jvp.measuring, 1)
    handle, mean_dot = _compute_derivative_tangent(handle, means_jvp, 0, slope)
    handle, slope_dot = _compute_derivative_tangent(handle, means_jvp, 1)
    slope, slope_dot = (jvp.drop_amplitudes(each, 1) for each in (slope, slope_dot))
    square_tangents = mean_dot[:, None] * slope + mean[:, None] * slope_dot
    ends = list(itertools.accumulate(jvp.measuring.list_sizes()))
    n = len(ends) - len(mean)
    for number, square in enumerate(jvp.measuring.find_variance_means()):
        if square >= 0:
            dot = dot.at[ends[number] - 1].add(-2 * square_tangents[square - n])
    return handle, dot[: ends[n - 1]]


def _compute_derivative_tangent(
    handle: Handle, jvp: MeasurementJvp, order: int, next_derivative: Any = None, saved: Any = None
) -> tuple[Any, Any]:
    """Compute the tangent of a derivative of any order.

    The tangent is a sum with a contribution for each operand that has a tangent: ``params``, the
    perturbation (a scalar that represents the gate parameters in loops with a dynamic trip count),
    the directions of a directional derivative, and the coefficients and matrices of observables.

    Args:
        handle: the handle of the state.
        jvp: the measurements, and the tangents of operands.
        order: the order of the derivative; order 0 is the values themselves.
        next_derivative: the derivative of the next order; None to compute it if ``params`` has a
            tangent.
        saved: the number by which the runtime finds the first derivative by gate parameters in
            loops with a dynamic trip count, if it has kept this derivative; else None.

    Returns:
        the handle of the state afterwards, and the tangent, in the shape of the derivative.
    """
    measuring, directions, steps = jvp.measuring, jvp.primals.directions, jvp.primals.steps
    rows = () if directions is None else directions.shape[:1]
    dot: Any = jnp.zeros(
        measuring.make_derivative_aval(rows, jvp.n_all_params, order).shape, Precision.real_type()
    )
    if jvp.params_tangent is not None:
        if next_derivative is None:
            handle, next_derivative, _ = jvp.bind_derivative(handle, measuring, order + 1)
        dot += next_derivative @ jvp.params_tangent
    if jvp.perturbation_tangent is not None:
        if directions is None:
            handle, steps = call("steps", [handle], HANDLE, INTEGER)
        extended = _append_direction(directions, jvp.perturbation_tangent)
        dot += jvp.differentiate_along_directions(
            handle, extended, order, steps=steps, saved=saved
        ).reshape(dot.shape)
    if (directions_dot := jvp.tangents_by_name.get("directions")) is not None:
        rows_of_directions = _insert_direction_tangents(directions, directions_dot)
        replaced = jvp.differentiate_along_directions(
            handle, rows_of_directions, order, steps=steps, saved=jvp.primals.saved
        )
        dot += jnp.sum(replaced.reshape(-1, *dot.shape), axis=0)
    changes, terms = jvp.find_data_changes()
    if changes:
        handle, terms_derivative, _ = terms.bind_derivative(handle, terms.measuring, order)
        dot = _add_data_tangents(dot, changes, terms_derivative, measuring, axis=len(rows))
    return handle, dot


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[derivative_p] = _derivative_jvp


def _add_data_tangents(
    dot: Any, changes: Sequence[ValueChange], of_terms: Any, measuring: MeasurementSet, *, axis: int
) -> Any:
    """Add the contributions of observables' coefficients and matrices to a tangent.

    Each contribution is a weighted sum of terms, which are values or derivatives of other
    measurements.

    Args:
        dot: the tangent so far, an array with an axis of values.
        changes: for each contribution, its weights and the measurement to whose values it is added.
        of_terms: the terms of all contributions, concatenated along `axis`.
        measuring: the measurements, for the position of each value on the axis.
        axis: the axis of values.

    Returns:
        the sum, in the shape of `dot`.
    """
    ends = list(itertools.accumulate(measuring.list_sizes()))
    first = 0
    for change in changes:
        last = first + len(change.measurements)
        terms = jax.lax.slice_in_dim(of_terms, first, last, axis=axis)
        # An expectation value is one number.
        index = (slice(None),) * axis + (ends[change.measurement_index] - 1,)
        dot = dot.at[index].add(jnp.tensordot(change.weights, terms, axes=([0], [axis])))
        first = last
    return dot


def _insert_direction_tangents(directions: Any, directions_dot: Any) -> Any:
    """Return, for each k, all rows with the k-th direction replaced by its tangent.

    With one row and ``order = 2``: ``[[u, v]]`` becomes ``[[u_dot, v], [u, v_dot]]``. These rows
    give the terms of the product rule, as a directional derivative is linear in each direction.

    Args:
        directions: array ``[rows, order]``, the directions of one directional derivative per row.
        directions_dot: the tangent of ``directions``, of the same shape.

    Returns:
        array ``[order * rows, order]``; the rows with the first direction replaced come first.
    """
    rows, order = directions.shape
    is_replaced = np.eye(order, dtype=bool)[:, None, :]
    return jnp.where(is_replaced, directions_dot, directions).reshape(order * rows, order)


def _append_direction(directions: Any, direction: Any) -> Any:
    """Append a direction of differentiation to each row of directions.

    A direction is a number by which the runtime finds a vector: a tangent for each gate parameter
    in loops with a dynamic trip count.

    Args:
        directions: array ``[rows, k]``; None if there are none.
        direction: scalar, the direction to append.

    Returns:
        array ``[rows, k + 1]``; ``[1, 1]`` for the first direction.
    """
    if directions is None:
        return jnp.reshape(direction, (1, 1))
    column = jnp.broadcast_to(direction, (directions.shape[0], 1))
    return jax.lax.concatenate([directions, column], 1)
