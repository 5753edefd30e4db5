"""The JVP rules of the primitives in a circuit, for derivatives of any order.

Tangents do not go through gates.  They go from the vector ``params`` of all gate parameters, and
from the ``perturbation`` of those in loops of dynamic length (``dynamic_count``), directly to the
measurement.  Its JVP rule differentiates by both, and by the coefficients and matrices of
observables::

    state value = quantum_measure[Expval(Z)] state [] [] params perturbation

has the tangent ``value_dot``, computed by ::

    state jacobian saved = quantum_derivative[Expval(Z) order=1] state [] [] params perturbation
    state steps = quantum_steps state
    value_dot = dot_general jacobian params_dot                                  f64[1, n]
    more_dot = quantum_directional_derivative[Expval(Z) order=0 is_saved=True]
        state [] [] params perturbation steps saved [[perturbation_dot]]
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

With the adjoint method it is ``quantum_measure_with_jacobian`` that measures, and the circuit does
not run again.

A directional derivative does not change the state of the circuit.  It is that of the circuit as far
as ``steps``.  A directional derivative of order one that the session keeps can be transposed, which
gives a VJP for reverse mode.
"""

import functools
import itertools
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bellhop.circuits.derivatives.diff_method import DIFFERENCES_OF_DIFFERENCES
from bellhop.circuits.derivatives.dynamic_count import vjp_p
from bellhop.circuits.derivatives.measurement_jvp import NOT_SAVED, MeasurementJvp, Place
from bellhop.circuits.derivatives.observable_derivatives import Change
from bellhop.circuits.derivatives.tangents import (
    batch_as_rows,
    is_given,
    without_tangents,
    zero_tangent,
)
from bellhop.circuits.operations.measurement_primitives import (
    MeasureOperands,
    Measuring,
    derivative_p,
    directional_derivative_p,
    measure_p,
    measure_tangent_p,
    measure_with_jacobian_p,
    steps_p,
)
from bellhop.circuits.operations.state_primitives import (
    Amplitudes,
    GateOperands,
    gates_p,
    mid_measure_p,
    restart_p,
)
from bellhop.circuits.precision import real_type
from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.state import trace_state, tracing_with

# The number under which the session keeps the derivative that the adjoint method gives.
_BY_ADJOINT_METHOD = np.int32(0)


def undifferentiable_gates(obstacle: str) -> AbstractContextManager[None]:
    """Make derivatives by gate parameters an error inside of the ``with`` block.

    Args:
        obstacle: the message of the error; empty for no error.
    """
    return tracing_with(obstacle=obstacle)


def _gates_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str, **static: Any
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
    return handle, zero_tangent(handle)


ad.primitive_jvps[gates_p] = _gates_jvp
without_tangents(mid_measure_p)
without_tangents(restart_p)
without_tangents(steps_p)


def _measure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
    """Differentiate the measurements at the end of a circuit."""
    measuring = Measuring(**static)
    moved = MeasureOperands(*tangents)
    jvp = MeasurementJvp.of(MeasureOperands(*primals), moved, measuring.with_means())
    obstacle = jvp.measuring.differentiation.obstacle
    if obstacle and jvp.moves:
        raise DifferentiableCompileError(obstacle)
    operands, own = jvp.primals.flat(), jvp.own(measuring).params()
    by_gates = jvp.params_dot is not None or jvp.perturbation_dot is not None
    by_params_alone = set(jvp.given) == {"params"} and not jvp.has_more
    by_vjp = measuring.differentiation.by_vjp and by_params_alone
    if by_gates and not by_vjp and jvp.measuring.differentiation.is_adjoint:
        handle, *values, jacobian = measure_with_jacobian_p.bind(*operands, **own)
        handle, dots = _moved_by_adjoint_method(handle, jvp, values, jacobian)
        return [handle, *values], [zero_tangent(handle), *dots]
    handle, *values = measure_p.bind(*operands, **own)
    if not jvp.moves:
        return [handle, *values], [zero_tangent(value) for value in (handle, *values)]
    if by_vjp:
        tangent = measure_tangent_p.bind(*primals, moved.params, **static)
        return [handle, *values], [zero_tangent(handle), *measuring.results(tangent)]
    saved, jacobian = NOT_SAVED, None
    if by_gates:
        handle, jacobian, saved = _first_derivative(handle, jvp)
    handle, dots = _moved_values(handle, jvp, values, jacobian, saved)
    return [handle, *values], [zero_tangent(handle), *dots]


def _first_derivative(handle: Any, jvp: MeasurementJvp) -> tuple[Any, Any, Any]:
    """Return the handle, the Jacobian, and the number of the derivative by the perturbation."""
    measuring, keep = jvp.measuring, jvp.perturbation_dot is not None
    basis = measuring.differentiation.basis(jvp.all_params)
    handle, jacobian, saved = jvp.derivative(handle, measuring, 1, keep=keep, basis=basis)
    if basis is not None:
        jacobian = jacobian @ basis / len(basis)
    return handle, jacobian, saved


def _moved_by_adjoint_method(
    handle: Any, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any
) -> tuple[Any, list[Any]]:
    """Return the handle and the tangents of values, of which the device gave the Jacobian."""
    # The Jacobian of a variance by the adjoint method is its own, not that of its moment.
    own = jvp.measuring.of(jvp.measuring.measurements[: len(values)])
    by_gates, by_data = jvp.apart_from_data._replace(measuring=own), jvp.by_data_alone
    handle, dots = _moved_values(handle, by_gates, values, jacobian, _BY_ADJOINT_METHOD)
    if by_data.moves:
        handle, more = _moved_values(handle, by_data, values, None)
        dots = list(map(operator.add, dots, more))
    return handle, dots


def _moved_values(
    handle: Any, jvp: MeasurementJvp, values: Sequence[Any], jacobian: Any, saved: Any = NOT_SAVED
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
    primals: Sequence[Any], tangents: Sequence[Any], *, order: int, keep: bool, **static: Any
) -> Any:
    *measured, basis = primals
    *dots, _ = tangents
    jvp = MeasurementJvp.again(
        MeasureOperands(*measured), MeasureOperands(*dots), Measuring(**static)
    )
    if basis.shape[0] > 0 and jvp.moves:
        # Derivatives along a basis are finite differences.
        raise DifferentiableCompileError(DIFFERENCES_OF_DIFFERENCES)
    basis = None if jvp.has_more else basis
    handle, derivative, saved = jvp.derivative(
        jvp.primals.handle, jvp.measuring, order, keep=keep, basis=basis
    )
    handle, dot = _moved_derivative(handle, jvp, order)
    results = [handle, jvp.without_amplitudes(derivative, order), saved]
    return results, [zero_tangent(handle), dot, zero_tangent(saved)]


def _with_jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
    measuring = Measuring(**static)
    jvp = MeasurementJvp.again(
        MeasureOperands(*primals), MeasureOperands(*tangents), measuring.with_means()
    )
    own = jvp.own(measuring).params()
    handle, *values, jacobian = measure_with_jacobian_p.bind(*jvp.primals.flat(), **own)
    handle, dots = _moved_by_adjoint_method(handle, jvp, values, jacobian)
    handle, dot = _moved_derivative(handle, jvp, 1)
    if measuring.means().measurements:
        handle, dot = _with_jacobians_of_variances(handle, jvp, dot)
    results = [handle, *values, jvp.without_amplitudes(jacobian, 1)]
    return results, [zero_tangent(handle), *dots, dot]


def _with_jacobians_of_variances(handle: Any, jvp: MeasurementJvp, dot: Any) -> tuple[Any, Any]:
    """Return the handle and the tangent of a Jacobian, of which ``dot`` has that of moments."""
    of_means = jvp._replace(measuring=jvp.measuring.means())
    handle, mean, _ = jvp.derivative(handle, of_means.measuring, 0)
    handle, slope, _ = jvp.derivative(handle, of_means.measuring, 1)
    handle, mean_dot = _moved(handle, of_means, 0, slope)
    handle, slope_dot = _moved_derivative(handle, of_means, 1)
    slope = jvp.without_amplitudes(slope, 1)
    of_squares = mean_dot[:, None] * slope + mean[:, None] * slope_dot
    ends = list(itertools.accumulate(jvp.measuring.sizes()))
    n = len(ends) - len(mean)
    for number, square in enumerate(jvp.measuring.squares()):
        if square >= 0:
            dot = dot.at[ends[number] - 1].add(-2 * of_squares[square - n])
    return handle, dot[: ends[n - 1]]


def _moved_derivative(handle: Any, jvp: MeasurementJvp, order: int) -> tuple[Any, Any]:
    """Return the handle and the tangent of a derivative of some order."""
    more = None
    if jvp.params_dot is not None:
        handle, more, _ = jvp.derivative(handle, jvp.measuring, order + 1)
    handle, dot = _moved(handle, jvp, order, more)
    return handle, jvp.without_amplitudes(dot, order)


def _moved(
    handle: Any, jvp: MeasurementJvp, order: int, more: Any, saved: Any = NOT_SAVED
) -> tuple[Any, Any]:
    """Return the handle and the tangent of a derivative.

    Args:
        handle: the handle of the state.
        jvp: what is measured, and the tangents.
        order: the order of the derivative; order 0 is the values themselves.
        more: the derivative of the next order, if the parameters have a tangent.
        saved: the number of the first derivative by the perturbation, if the session keeps it.
    """
    width, n_params = sum(jvp.measuring.sizes()), jvp.all_params
    dot = jnp.zeros((width, *[n_params] * order), real_type())
    if jvp.params_dot is not None:
        dot += more @ jvp.params_dot
    if jvp.perturbation_dot is not None:
        handle, steps = steps_p.bind(handle)
        directions = jnp.reshape(jvp.perturbation_dot, (1, 1))
        place = Place(steps, saved)
        dot += jvp.along(handle, place, directions, jvp.measuring, order)[0]
    changes, terms = jvp.changes()
    if changes:
        handle, of_terms, _ = terms.derivative(handle, terms.measuring, order)
        dot = _moved_by_data(dot, changes, of_terms, jvp.measuring, axis=0)
    return handle, dot


def _directional_derivative_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    order: int,
    is_saved: bool,
    **static: Any,
) -> Any:
    *measured, steps, saved, directions = primals
    *dots, _, _, directions_dot = tangents
    jvp = MeasurementJvp.again(
        MeasureOperands(*measured), MeasureOperands(*dots), Measuring(**static)
    )
    handle = jvp.primals.handle
    along = functools.partial(jvp.along, handle)
    here, again = Place(steps, saved if is_saved else NOT_SAVED), Place(steps)
    value = along(here, directions, jvp.measuring, order)
    dot = jnp.zeros_like(value)
    if is_given(directions_dot):
        each = _with_tangent(directions, directions_dot)
        moved = along(here, each, jvp.measuring, order)
        dot += jnp.sum(moved.reshape(-1, *value.shape), axis=0)
    if jvp.perturbation_dot is not None:
        dot += along(again, _with_another(directions, jvp.perturbation_dot), jvp.measuring, order)
    if jvp.params_dot is not None:
        dot += along(again, directions, jvp.measuring, order + 1) @ jvp.params_dot
    changes, terms = jvp.changes()
    if changes:
        of_terms = terms.along(handle, again, directions, terms.measuring, order)
        dot = _moved_by_data(dot, changes, of_terms, jvp.measuring, axis=1)
    return tuple(jvp.without_amplitudes(each, order) for each in (value, dot))


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[measure_with_jacobian_p] = _with_jacobian_jvp
ad.primitive_jvps[derivative_p] = _derivative_jvp
ad.primitive_jvps[directional_derivative_p] = _directional_derivative_jvp


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
    column = jnp.broadcast_to(direction, (directions.shape[0], 1))
    return jax.lax.concatenate([directions, column], 1)


def _transpose(values_bar: Any, *operands: Any, is_saved: bool, **_: Any) -> list[Any]:
    assert is_saved
    *measured, _steps, saved, _directions = operands
    directions_bar = None
    if type(values_bar) is not ad.Zero:
        handle = MeasureOperands(*measured).handle
        directions_bar = vjp_p.bind(handle, saved, values_bar)[:, None]
    return [*(None for _ in operands[:-1]), directions_bar]


batch_as_rows(directional_derivative_p)
ad.primitive_transposes[directional_derivative_p] = _transpose
