"""The JVP rules of the primitives in a circuit, to any order.

Gates have no JVP rule of their own: tangents go from the vector of gate parameters to the
measurement.  There, derivatives by parameters, coefficients and matrices of observables are taken::

    state value = quantum_measure[Expval(Z)] state [] [] params

has, by the adjoint method, the JVP ::

    state jacobian = quantum_jacobian[Expval(Z)] state [] [] params     f64[1, n]
    value_dot = dot_general jacobian params_dot

and by parameter shift ::

    state shifted = quantum_replay[Expval(Z)] state [] [] params index amount
    value_dot = dot_general weights shifted      weights: coefficients of the rule times params_dot

``quantum_replay`` runs the recorded gates again, at each point of ``index`` and ``amount``, and
``quantum_replay_jacobian`` gives the Jacobians at such points.  So the derivative of either is
again one of these, at more points.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bellhop.circuits.derivatives.diff_method import ADJOINT
from bellhop.circuits.derivatives.directional_derivative import (
    directional_derivative,
    dynamic_count_rule,
    jvp_by_dynamic_count,
    place_here,
)
from bellhop.circuits.derivatives.shifted_points import (
    Measuring,
    all_shifts,
    data_changes,
    means_at,
)
from bellhop.circuits.derivatives.tangents import is_given, without_tangents, zero_tangent
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.operations.measurement_primitives import (
    jacobian_p,
    measure_p,
    replay_jacobian_p,
    replay_p,
    shift_p,
    steps_p,
)
from bellhop.circuits.operations.state_primitives import gates_p, mid_measure_p, restart_p
from bellhop.circuits.precision import real_type
from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.state import trace_state, tracing_with


def undifferentiable_gates(obstacle: str) -> AbstractContextManager[None]:
    """Make the derivative by parameters of gates an error while a circuit is differentiated."""
    return tracing_with(obstacle=obstacle)


def _gates_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str, **static: Any
) -> Any:
    reason = trace_state().obstacle or obstacle
    if reason and type(tangents[1]) is not ad.Zero:
        raise DifferentiableCompileError(reason)
    # The derivative reaches the measurement through its parameters, not through the state.
    handle = gates_p.bind(*primals, obstacle=obstacle, **static)
    return handle, zero_tangent(handle)


ad.primitive_jvps[gates_p] = _gates_jvp
without_tangents(mid_measure_p)
without_tangents(restart_p)
# What these keep is differentiated where it is read.
without_tangents(shift_p)
without_tangents(steps_p)


def _measure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Differentiate the measurements at the end of a circuit."""
    measuring = Measuring(**params)
    obstacle = measuring.differentiation.obstacle
    if obstacle and any(map(is_given, tangents[1:])):
        raise DifferentiableCompileError(obstacle)
    handle, *values = measure_p.bind(*primals, **params)
    if not any(map(is_given, tangents[1:])):
        return [handle, *values], [zero_tangent(value) for value in (handle, *values)]
    operands = (*primals[1:4], *_no_shift(), *primals[4:])
    rows = [value[None] for value in values]
    rows_dot = [jnp.zeros_like(row) for row in rows]
    has_proxy_dot = any(map(is_given, tangents[4:]))
    kept: Any = None
    if measuring.differentiation.method == ADJOINT and (is_given(tangents[3]) or has_proxy_dot):
        # The device has recorded the circuit, so it need not run again.
        handle, jacobian = jacobian_p.bind(handle, *primals[1:], **params)
        kept = jnp.int32(0)
        if is_given(tangents[3]):
            rows_dot = list((jacobian @ tangents[3])[:, None])
    elif is_given(tangents[3]):
        handle, rows_dot = _moved_by_shifts(handle, operands, tangents[3], rows, measuring)
    if has_proxy_dot and kept is None:
        rule = dynamic_count_rule(measuring.differentiation)
        more = measuring.with_means().params()
        handle, kept = shift_p.bind(handle, *primals[1:4], *rule, **more)
    others = *tangents[1:3], *tangents[4:]
    handle, rows_dot = _moved_by_others(handle, operands, others, rows, rows_dot, measuring, kept)
    return [handle, *values], [zero_tangent(handle), *(row[0] for row in rows_dot)]


def _replay_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    measuring = Measuring(**params)
    handle, *values = replay_p.bind(*primals, **params)
    operands = primals[1:]
    values_dot = [jnp.zeros_like(value) for value in values]
    if is_given(tangents[3]):
        if measuring.differentiation.method == ADJOINT:
            handle, jacobians = replay_jacobian_p.bind(handle, *operands, **params)
            values_dot = list(jnp.moveaxis(jacobians @ tangents[3], 1, 0))
        else:
            handle, values_dot = _moved_by_shifts(handle, operands, tangents[3], values, measuring)
    others = *tangents[1:3], *tangents[6:]
    handle, values_dot = _moved_by_others(handle, operands, others, values, values_dot, measuring)
    return [handle, *values], [zero_tangent(handle), *values_dot]


def _moved_by_others(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    values: Sequence[Any],
    values_dot: list[Any],
    measuring: Measuring,
    kept: Any = None,
) -> tuple[Any, list[Any]]:
    """Add the change of values by the data of observables, and by dynamic-count parameters."""
    for proxy_dot in filter(is_given, tangents[2:]):
        handle, moved = jvp_by_dynamic_count(handle, operands, proxy_dot, values, measuring, kept)
        values_dot = [a + b for a, b in zip(values_dot, moved, strict=True)]

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, *rows = replay_p.bind(handle, *operands, **measuring.of(terms).params())
        return handle, rows

    return _moved_by_data(handle, operands, tangents[:2], values_dot, measuring, evaluate)


def _jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobian = jacobian_p.bind(*primals, **params)
    operands = (*primals[1:4], *_no_shift(), *primals[4:])
    tangents = (*tangents[:4], None, None, *tangents[4:])
    measuring = Measuring(**params)
    handle, moved = _moved_jacobians(handle, operands, tangents, jacobian[None], measuring)
    return [handle, jacobian], [zero_tangent(handle), moved[0]]


def _replay_jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobians = replay_jacobian_p.bind(*primals, **params)
    measuring = Measuring(**params)
    handle, moved = _moved_jacobians(handle, primals[1:], tangents, jacobians, measuring)
    return [handle, jacobians], [zero_tangent(handle), moved]


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[jacobian_p] = _jacobian_jvp
ad.primitive_jvps[replay_p] = _replay_jvp
ad.primitive_jvps[replay_jacobian_p] = _replay_jacobian_jvp


def _no_shift() -> tuple[Any, Any]:
    """Return the operands of one point where nothing is shifted."""
    return np.zeros((1, 0), np.int32), np.zeros((1, 0), real_type())


def _moved_by_shifts(
    handle: Any,
    operands: Sequence[Any],
    params_dot: Any,
    values: Sequence[Any],
    measuring: Measuring,
) -> tuple[Any, list[Any]]:
    """Return the change of values when the parameters change, by values at shifted points.

    The rules hold for what is linear in the state: expectation values and probabilities.  The
    square ``E[A**2]`` is such, and a variance is that less the square of ``E[A]``.
    """
    rule, shifted_operands = all_shifts(operands, measuring)
    more = measuring.with_means().params()
    handle, *shifted = replay_p.bind(handle, *shifted_operands, **more)
    handle, means = means_at(handle, operands, measuring)
    weights, unshifted_weight = rule.weights(params_dot)
    rows = operands[3].shape[0]

    def moved(at_shifts: Any, here: Any) -> Any:
        by_row = at_shifts.reshape(rows, weights.shape[0], *here.shape[1:])
        return jnp.einsum("s,rs...->r...", weights, by_row) + unshifted_weight * here

    n = len(measuring.measurements)
    variances = iter(zip(shifted[n:], means, strict=True))
    values_dot = []
    for measurement, at_shifts, here in zip(measuring.measurements, shifted, values, strict=False):
        if measurement.mean() is not None:
            mean_at_shifts, mean = next(variances)
            squares = moved(at_shifts + mean_at_shifts**2, here + mean**2)
            values_dot.append(squares - 2 * mean * moved(mean_at_shifts, mean))
        else:
            values_dot.append(moved(at_shifts, here))
    return handle, values_dot


def _moved_jacobians(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    jacobians: Any,
    measuring: Measuring,
) -> tuple[Any, Any]:
    """Return the change of adjoint Jacobians ``[rows, expvals, p]``."""
    rows, n_expvals, n_params = jacobians.shape
    jacobians_dot = jnp.zeros_like(jacobians)
    if is_given(tangents[3]):
        rule, shifted_operands = all_shifts(operands, measuring)
        handle, shifted = replay_jacobian_p.bind(handle, *shifted_operands, **measuring.params())
        weights, _ = rule.weights(tangents[3])
        by_row = shifted.reshape(rows, weights.shape[0], n_expvals, n_params)
        jacobians_dot = jnp.einsum("s,rsep->rep", weights, by_row)
    for proxy_dot in filter(is_given, tangents[6:]) if n_params else ():
        # The other way round: how the derivative by dynamic-count parameters depends on the others.
        rule, shifted_operands = all_shifts(operands, measuring)
        handle, place = place_here(handle)
        direction = jnp.reshape(proxy_dot, (1, 1))
        (shifted,) = directional_derivative(
            place, shifted_operands, direction, **measuring.params()
        )
        by_term = shifted.reshape(rows, -1, n_expvals) * rule.coefficients()[:, None]
        of_param = jnp.moveaxis(by_term, 1, 2)
        jacobians_dot = jacobians_dot.at[..., rule.indices()].add(of_param)

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, of_terms = replay_jacobian_p.bind(handle, *operands, **measuring.of(terms).params())
        return handle, list(jnp.moveaxis(of_terms, 1, 0))

    by_measurement = list(jnp.moveaxis(jacobians_dot, 1, 0))
    handle, moved = _moved_by_data(
        handle, operands, tangents[1:3], by_measurement, measuring, evaluate
    )
    return handle, jnp.stack(moved, axis=1)


def _moved_by_data(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    values_dot: list[Any],
    measuring: Measuring,
    evaluate: Callable[[Any, Sequence[Measurement]], tuple[Any, list[Any]]],
) -> tuple[Any, list[Any]]:
    """Add the change of values when the data of observables change."""
    changes = data_changes(measuring, operands, tangents)
    if not changes:
        return handle, values_dot
    handle, values = evaluate(handle, [m for change in changes for m in change.measurements])
    result, rest = list(values_dot), iter(values)
    for change in changes:
        moved = change.sum_of(list(itertools.islice(rest, len(change.measurements))))
        result[change.of] = result[change.of] + moved
    return handle, result
