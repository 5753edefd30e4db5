"""Derivatives of measured values along tangents of dynamic-count parameters, to any order.

The derivative by ``x`` of the circuit in ``dynamic_count`` is traced to a second loop, for the
tangents, and this primitive::

    state value = quantum_measure state coefficients matrices params proxy
    state steps = quantum_steps state
    direction = while[ ... quantum_dynamic_count_tangent direction [angle_dot] ticket number ... ]
    value_dot = quantum_directional_derivative[is_kept=True] state 0 steps
        coefficients matrices params index amount proxy direction weights amounts

A direction is the tangent of a proxy: it names a vector that the circuit's session holds.  The
derivative of order ``k`` takes ``k`` directions and is linear in each of them.  So its own JVP is
made of the same primitive, and there is no highest order:

    tangent of a direction        the product rule: that direction replaced by its tangent
    tangent of the proxy          order k + 1, with that tangent as one more direction
    tangents of ``params``        parameter shifts: the same derivative at shifted points

It runs gates again from the session's record and leaves the circuit's own state as it is, at the
step of the circuit that ``Place`` names.  The derivative of order one that the session already has
(``is_kept``) has a transpose too, a VJP, for reverse mode.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.private import ir_type
from bellhop.circuits.derivatives.diff_method import ADJOINT, Differentiation
from bellhop.circuits.derivatives.dynamic_count import vjp_p
from bellhop.circuits.derivatives.shifted_points import (
    Measuring,
    all_shifts,
    data_changes,
    means_at,
    refuse_differences_of_differences,
)
from bellhop.circuits.derivatives.tangents import is_given, split
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.operations.measurement_primitives import (
    data_and_code,
    sizes_and_squares,
    steps_p,
)
from bellhop.circuits.precision import real_type
from bellhop_mlir.dialects import quantum

# directional_derivative: handle, number of a kept derivative i32[], steps i32[], coefficients
#   f64[c], matrices f64[m], params f64[p], index i32[points, order], amount f64[points, order],
#   proxy f64[], directions f64[rows, k], weights f64[terms], amounts f64[terms]
#   -> f64[rows, points, values]
directional_derivative_p = Primitive("quantum_directional_derivative")

_NOT_KEPT = -1


class Place(NamedTuple):
    """The step of a circuit at which a derivative is taken.

    Attributes:
        handle: any handle of the circuit.
        steps: how many gates and projections were applied before it.
        kept: the number of the first-order derivative that the session has there, or -1.
    """

    handle: Any
    steps: Any
    kept: Any


def place_here(handle: Any, kept: Any = None) -> tuple[Any, Place]:
    """Return the handle, and the current step of the circuit as a ``Place``."""
    handle, steps = steps_p.bind(handle)
    return handle, Place(handle, steps, jnp.int32(_NOT_KEPT) if kept is None else kept)


def directional_derivative(
    place: Place,
    operands: Sequence[Any],
    directions: Any,
    *,
    is_kept: bool = False,
    **static: Any,
) -> Any:
    """Return the derivatives of measured values, ``f64[rows, points, values]``.

    Args:
        place: the step of the circuit.
        operands: coefficients, matrices, params, index and amount of the points, and the proxy.
        directions: tangents of the proxy, ``f64[rows, order]``.
        is_kept: whether it is the first-order derivative that the session already has.
        static: the fields of ``Measuring``.  The means of variances come last, and in place of
            the derivative of a variance that of its second moment is returned.

    Raises:
        DifferentiableCompileError: where a parameter has no shift rule.
    """
    differentiation: Differentiation = static["differentiation"]
    order = directions.shape[-1]
    n_shifts = order - 1 if differentiation.method == ADJOINT else order
    weights = amounts = np.zeros(0, real_type())
    if not is_kept and n_shifts > 0:
        refuse_differences_of_differences(differentiation, order - 1 + operands[3].shape[1])
        weights, amounts = dynamic_count_rule(differentiation)
    return directional_derivative_p.bind(
        place.handle,
        place.kept,
        place.steps,
        *operands,
        directions,
        weights,
        amounts,
        is_kept=is_kept,
        **static,
    )


def jvp_by_dynamic_count(
    handle: Any,
    operands: Sequence[Any],
    proxy_dot: Any,
    values: Sequence[Any],
    measuring: Measuring,
    kept: Any = None,
) -> tuple[Any, list[Any]]:
    """Return the JVP of measured values by dynamic-count parameters.

    The runtime differentiates ``E[A**2]``; that of the variance follows by the chain rule.

    Args:
        handle: the circuit's handle.
        operands: those of the primitive that measured the values.
        proxy_dot: the tangent of the proxy.
        values: the measured values at each point.
        measuring: what is measured.
        kept: the number of the first-order derivative, where the session has it.
    """
    handle, of_means = means_at(handle, operands, measuring)
    handle, place = place_here(handle, kept)
    measured = measuring.with_means().params()
    direction = jnp.reshape(proxy_dot, (1, 1))
    (moved,) = directional_derivative(
        place, operands, direction, is_kept=kept is not None, **measured
    )
    parts = split(moved, [value.shape[1:] for value in (*values, *of_means)])
    means = iter(zip(of_means, parts[len(values) :], strict=True))
    values_dot = []
    for measurement, part in zip(measuring.measurements, parts, strict=False):
        if measurement.mean() is not None:
            mean, mean_dot = next(means)
            part = part - 2 * mean * mean_dot
        values_dot.append(part)
    return handle, values_dot


def dynamic_count_rule(differentiation: Differentiation) -> tuple[Any, Any]:
    """Return coefficients and shifts of the shift rule that holds for all such parameters."""
    rule = differentiation.dynamic_count_rule()
    weights, amounts = rule.coefficients(), rule.amounts()
    if rule.unshifted[0]:
        weights = jnp.concatenate([weights, rule.unshifted])
        amounts = jnp.concatenate([amounts, jnp.zeros(1)])
    return weights, amounts


@directional_derivative_p.def_abstract_eval
def _aval(
    *operands: Any, measurements: tuple[Measurement, ...], device: DeviceSpec, **_static: Any
) -> ShapedArray:
    index, directions = operands[6], operands[9]
    sizes, _ = sizes_and_squares(measurements, device)
    shape = (directions.shape[0], index.shape[0], sum(sizes))
    return ShapedArray(shape, real_type())


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, is_kept: bool, **static: Any) -> Any:
    measuring = Measuring(**static)
    handle, kept, steps, *operands = primals[:9]
    directions = primals[9]
    value = directional_derivative_p.bind(*primals, is_kept=is_kept, **static)
    place = Place(handle, steps, kept)
    rows, points, width = value.shape
    value_dot = jnp.zeros_like(value)
    if is_given(tangents[9]):
        order = directions.shape[1]
        each = _with_tangent(directions, tangents[9]).reshape(order * rows, order)
        moved = directional_derivative(place, operands, each, is_kept=is_kept, **static)
        value_dot += jnp.sum(moved.reshape(order, *value.shape), axis=0)
    if is_given(tangents[8]):
        more = _with_another(directions, tangents[8])
        value_dot += directional_derivative(place, operands, more, **static)
    if is_given(tangents[5]):
        rule, shifted_operands = all_shifts(operands, measuring)
        shifted = directional_derivative(place, shifted_operands, directions, **static)
        weights, unshifted_weight = rule.weights(tangents[5])
        by_point = shifted.reshape(rows, points, weights.shape[0], width)
        value_dot += jnp.einsum("s,rpsv->rpv", weights, by_point) + unshifted_weight * value
    changes = data_changes(measuring, operands, tangents[3:5])
    if changes:
        of_terms = measuring.of([m for change in changes for m in change.measurements]).params()
        of_changes = directional_derivative(place, operands, directions, **of_terms)
        sizes, _ = sizes_and_squares(measuring.measurements, measuring.device)
        ends = list(itertools.accumulate(sizes))
        for change in changes:
            of_change, of_changes = jnp.split(of_changes, [len(change.measurements)], axis=-1)
            # An expectation value is one number, at the end of its measurement's columns.
            value_dot = value_dot.at[..., ends[change.of] - 1].add(of_change @ change.weights)
    return value, value_dot


def _batch(operands: Sequence[Any], dims: Sequence[Any], **static: Any) -> Any:
    # Only the directions may be mapped: they are of one circuit.
    assert [number for number, dim in enumerate(dims) if dim is not None] == [9]
    directions = jnp.moveaxis(operands[9], dims[9], 0)
    size, rows, order = directions.shape
    operands = [*operands[:9], directions.reshape(size * rows, order), *operands[10:]]
    value = directional_derivative_p.bind(*operands, **static)
    return value.reshape(size, rows, *value.shape[1:]), 0


def _transpose(
    values_bar: Any, handle: Any, kept: Any, *operands: Any, is_kept: bool, **_: Any
) -> list[Any]:
    assert is_kept
    result: list[Any] = [None] * (2 + len(operands))
    if type(values_bar) is not ad.Zero:
        # Shape [1, 1, values]: one row, at one point.
        result[9] = vjp_p.bind(handle, values_bar[0], kept)[:, None]
    return result


def _lower(
    ctx: Any,
    handle: Any,
    kept: Any,
    steps: Any,
    coefficients: Any,
    matrices: Any,
    params: Any,
    index: Any,
    amount: Any,
    _proxy: Any,
    directions: Any,
    weights: Any,
    amounts: Any,
    *,
    is_kept: bool,
    measurements: tuple[Measurement, ...],
    device: DeviceSpec,
    differentiation: Differentiation,
) -> Any:
    data, code = data_and_code(coefficients, matrices, measurements)
    operands = [handle, data, params, weights, amounts, kept, steps, index, amount, directions]
    sizes, squares = sizes_and_squares(measurements, device)
    return quantum.directional_derivative(
        operands,
        [ir_type(ctx, ctx.avals_out[0])],
        code=code,
        sizes=sizes,
        squares=squares,
        adjoint=differentiation.method == ADJOINT,
        kept=is_kept,
    )


ad.primitive_jvps[directional_derivative_p] = _jvp
batching.primitive_batchers[directional_derivative_p] = _batch
ad.primitive_transposes[directional_derivative_p] = _transpose
mlir.register_lowering(directional_derivative_p, _lower, cacheable=False)


def _with_tangent(directions: Any, directions_dot: Any) -> Any:
    """Return the directions with the k-th one replaced by its tangent, for each k."""
    order = directions.shape[-1]
    is_replaced = np.eye(order, dtype=bool)[:, None, :]
    return jnp.where(is_replaced, directions_dot, directions)


def _with_another(directions: Any, direction: Any) -> Any:
    """Return the directions with one more in each row."""
    column = jnp.broadcast_to(direction, (directions.shape[0], 1))
    return jax.lax.concatenate([directions, column], 1)
