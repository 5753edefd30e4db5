"""The JVP rules of the primitives in a circuit, to any order.

Gates have no JVP rule of their own: tangents go from the vector of gate parameters to the
measurement, with the tangent of a *proxy* where only the run counts parameters (``dynamic_count``).
There, derivatives by parameters, coefficients and matrices of observables are taken::

    state value = quantum_measure[Expval(Z)] state [] [] params proxy

has the JVP ::

    state jacobian kept = quantum_derivative[Expval(Z) order=1] state [] [] params proxy
    state steps = quantum_steps state
    value_dot = dot_general jacobian params_dot                                  f64[1, n]
    more_dot = quantum_directional_derivative[Expval(Z) order=0 is_kept=True]
        state [] [] params proxy steps kept [[proxy_dot]]
    value_dot = add value_dot more_dot

The derivative of order ``k`` is an array with an axis for each order, so its own derivative is that
of order ``k + 1``, multiplied with ``params_dot``.  One in directions is linear in each of them, so
its derivative has one direction more, or another one in the place of each.  Values are linear in
what is measured, so that a coefficient changes them by the value of its term.  That is all, and
there is no highest order.

A variance is linear in nothing, but the second moment is: ``derivative`` of a variance is that of
``E[A**2]``, and the chain rule is applied where it was measured.

By the adjoint method, the Jacobian of what was measured comes from the device's own record, as
``quantum_jacobian``; the circuit need not run again.

A derivative in directions leaves the circuit's own state as it is, at the step that ``steps``
names.  The one of order one that the session keeps has a transpose too, a VJP, for reverse mode.
"""

import functools
import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching

from bellhop.circuits.derivatives.diff_method import DIFFERENCES_OF_DIFFERENCES
from bellhop.circuits.derivatives.dynamic_count import vjp_p
from bellhop.circuits.derivatives.observable_derivatives import Change, changes_by_data
from bellhop.circuits.derivatives.tangents import is_given, split, without_tangents, zero_tangent
from bellhop.circuits.operations.measurement_primitives import (
    Measuring,
    derivative_p,
    directional_derivative_p,
    jacobian_p,
    measure_p,
    steps_p,
)
from bellhop.circuits.operations.state_primitives import gates_p, mid_measure_p, restart_p
from bellhop.circuits.precision import real_type
from bellhop.errors import DifferentiableCompileError
from bellhop.tracing.state import trace_state, tracing_with

# The number of the derivative that the device's own record gives.
_BY_RECORD = np.int32(0)
_NOT_KEPT = np.int32(-1)


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
without_tangents(steps_p)


class _Point(NamedTuple):
    """What is differentiated.

    Attributes:
        data: coefficients and matrices of observables, the parameters, and the proxy if there is
            one.
        dots: their tangents.
        measuring: what is measured.
    """

    data: Sequence[Any]
    dots: Sequence[Any]
    measuring: Measuring

    @property
    def moves(self) -> bool:
        """Whether anything has a tangent."""
        return any(map(is_given, self.dots))

    @property
    def params_dot(self) -> Any:
        """The tangent of the parameters; None where they have none."""
        return self.dots[2] if is_given(self.dots[2]) else None

    @property
    def proxy_dot(self) -> Any:
        """The tangent of the proxy; None where it has none."""
        return next(filter(is_given, self.dots[3:]), None)

    def derivative(
        self,
        handle: Any,
        measuring: Measuring,
        order: int,
        *,
        keep: bool = False,
        basis: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Return the handle, a derivative by parameters, and the number of that by the proxy."""
        if basis is None:
            basis = np.zeros((0, self.data[2].shape[-1]), real_type())
        operands = *self.data[:3], basis, *self.data[3:]
        return derivative_p.bind(handle, *operands, order=order, keep=keep, **measuring.params())

    def changes(self) -> list[Change]:
        """Return how values change by the tangents of coefficients and of matrices."""
        dots = [dot if is_given(dot) else None for dot in self.dots[:2]]
        return list(changes_by_data(self.measuring.measurements, self.data[0], *dots))

    def terms_of(self, changes: Sequence[Change]) -> Measuring:
        """Return what is to be measured for changes."""
        return self.measuring.of([m for change in changes for m in change.measurements])

    def along(
        self, handle: Any, place: "_Place", directions: Any, measuring: Measuring, order: int
    ) -> Any:
        """Return a derivative in directions as well, each a tangent of the proxy."""
        return directional_derivative_p.bind(
            handle,
            *self.data,
            *place,
            directions,
            order=order,
            is_kept=place.kept is not _NOT_KEPT,
            **measuring.params(),
        )


class _Place(NamedTuple):
    """The step of a circuit at which a derivative is taken.

    Attributes:
        steps: how many gates and projections were applied before it.
        kept: the number of the first derivative by the proxy that the session has there.
    """

    steps: Any
    kept: Any = _NOT_KEPT


def _measure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
    """Differentiate the measurements at the end of a circuit."""
    measuring = Measuring(**static)
    point = _Point(primals[1:], tangents[1:], measuring.with_means())
    obstacle = measuring.differentiation.obstacle
    if obstacle and point.moves:
        raise DifferentiableCompileError(obstacle)
    handle, *values = measure_p.bind(*primals, **static)
    if not point.moves:
        return [handle, *values], [zero_tangent(value) for value in (handle, *values)]
    kept, jacobian = _NOT_KEPT, None
    if point.params_dot is not None or point.proxy_dot is not None:
        handle, jacobian, kept = _first_derivative(handle, point)
    handle, dot = _moved(handle, point, 0, jacobian, kept)
    handle, dots = _with_variances(handle, point, values, dot)
    return [handle, *values], [zero_tangent(handle), *dots]


def _first_derivative(handle: Any, point: _Point) -> tuple[Any, Any, Any]:
    """Return the handle, the Jacobian, and the number of the derivative by the proxy."""
    measuring, keep = point.measuring, point.proxy_dot is not None
    if measuring.differentiation.is_adjoint:
        # The device has recorded the circuit, so it need not run again.
        handle, jacobian = jacobian_p.bind(handle, *point.data, **measuring.params())
        return handle, jacobian, _BY_RECORD
    basis = measuring.differentiation.basis(point.data[2].shape[-1])
    handle, jacobian, kept = point.derivative(handle, measuring, 1, keep=keep, basis=basis)
    if basis is not None:
        jacobian = jacobian @ basis / len(basis)
    return handle, jacobian, kept


def _with_variances(
    handle: Any, point: _Point, values: Sequence[Any], dot: Any
) -> tuple[Any, list[Any]]:
    """Return the handle and the tangents of values, of which ``dot`` has the moments."""
    measured = point.measuring.measurements
    dots = split(dot, [m.result(point.measuring.device).shape for m in measured])
    n = len(values)
    means = point.measuring.of(measured[n:])
    if means.measurements:
        handle, mean, _ = point.derivative(handle, means, 0)
        for number, square in enumerate(point.measuring.squares()):
            if square >= 0:
                dots[number] -= 2 * mean[square - n] * dots[square]
    return handle, dots[:n]


def _derivative_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, order: int, keep: bool, **static: Any
) -> Any:
    results = derivative_p.bind(*primals, order=order, keep=keep, **static)
    data, dots = ((*each[1:4], *each[5:]) for each in (primals, tangents))
    point = _Point(data, dots, Measuring(**static))
    if primals[4].shape[0] > 0 and point.moves:
        # What is taken along the rows of a basis is a difference.
        raise DifferentiableCompileError(DIFFERENCES_OF_DIFFERENCES)
    handle, dot = _moved_derivative(results[0], point, order)
    return [handle, *results[1:]], [zero_tangent(handle), dot, zero_tangent(results[2])]


def _jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
    handle, jacobian = jacobian_p.bind(*primals, **static)
    point = _Point(primals[1:], tangents[1:], Measuring(**static))
    handle, dot = _moved_derivative(handle, point, 1)
    return [handle, jacobian], [zero_tangent(handle), dot]


def _moved_derivative(handle: Any, point: _Point, order: int) -> tuple[Any, Any]:
    """Return the handle and the tangent of a derivative of this order."""
    more = None
    if point.params_dot is not None:
        handle, more, _ = point.derivative(handle, point.measuring, order + 1)
    return _moved(handle, point, order, more)


def _moved(
    handle: Any, point: _Point, order: int, more: Any, kept: Any = _NOT_KEPT
) -> tuple[Any, Any]:
    """Return the handle and the tangent of a derivative.

    Args:
        handle: the circuit's handle.
        point: what is differentiated.
        order: that of the derivative; of order 0 it is the values.
        more: the derivative of one order more, where the parameters have a tangent.
        kept: the number of the first derivative by the proxy, where the session keeps it.
    """
    width, n_params = sum(point.measuring.sizes()), point.data[2].shape[-1]
    dot = jnp.zeros((width, *[n_params] * order), real_type())
    if point.params_dot is not None:
        dot += more @ point.params_dot
    if point.proxy_dot is not None:
        handle, steps = steps_p.bind(handle)
        directions = jnp.reshape(point.proxy_dot, (1, 1))
        place = _Place(steps, kept)
        dot += point.along(handle, place, directions, point.measuring, order)[0]
    changes = point.changes()
    if changes:
        handle, of_terms, _ = point.derivative(handle, point.terms_of(changes), order)
        dot = _moved_by_data(dot, changes, of_terms, point.measuring, axis=0)
    return handle, dot


def _directional_derivative_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    order: int,
    is_kept: bool,
    **static: Any,
) -> Any:
    value = directional_derivative_p.bind(*primals, order=order, is_kept=is_kept, **static)
    handle, *data, steps, kept, directions = primals
    point = _Point(data, tangents[1:-3], Measuring(**static))
    along = functools.partial(point.along, handle)
    here, again = _Place(steps, kept if is_kept else _NOT_KEPT), _Place(steps)
    dot = jnp.zeros_like(value)
    if is_given(tangents[-1]):
        each = _with_tangent(directions, tangents[-1])
        moved = along(here, each, point.measuring, order)
        dot += jnp.sum(moved.reshape(-1, *value.shape), axis=0)
    if point.proxy_dot is not None:
        dot += along(again, _with_another(directions, point.proxy_dot), point.measuring, order)
    if point.params_dot is not None:
        dot += along(again, directions, point.measuring, order + 1) @ point.params_dot
    changes = point.changes()
    if changes:
        of_terms = along(again, directions, point.terms_of(changes), order)
        dot = _moved_by_data(dot, changes, of_terms, point.measuring, axis=1)
    return value, dot


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[jacobian_p] = _jacobian_jvp
ad.primitive_jvps[derivative_p] = _derivative_jvp
ad.primitive_jvps[directional_derivative_p] = _directional_derivative_jvp


def _moved_by_data(
    dot: Any, changes: Sequence[Change], of_terms: Any, measuring: Measuring, *, axis: int
) -> Any:
    """Add the derivatives of terms, times the tangents of what they are multiplied with.

    Args:
        dot: the tangent so far.
        changes: of measurements.
        of_terms: the derivatives of all of their terms, one after another.
        measuring: what is measured.
        axis: that of values.
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
    """Return rows of directions with the k-th one replaced by its tangent, for each k."""
    rows, order = directions.shape
    is_replaced = np.eye(order, dtype=bool)[:, None, :]
    return jnp.where(is_replaced, directions_dot, directions).reshape(order * rows, order)


def _with_another(directions: Any, direction: Any) -> Any:
    """Return the directions with one more in each row."""
    column = jnp.broadcast_to(direction, (directions.shape[0], 1))
    return jax.lax.concatenate([directions, column], 1)


def _batch(operands: Sequence[Any], dims: Sequence[Any], **static: Any) -> Any:
    # Only the directions may be mapped: they are of one circuit.
    *others, directions = operands
    assert all(dim is None for dim in dims[:-1])
    directions = jnp.moveaxis(directions, dims[-1], 0)
    size, rows, order = directions.shape
    value = directional_derivative_p.bind(*others, directions.reshape(size * rows, order), **static)
    return value.reshape(size, rows, *value.shape[1:]), 0


def _transpose(values_bar: Any, handle: Any, *operands: Any, is_kept: bool, **_: Any) -> list[Any]:
    assert is_kept
    *others, kept, _directions = operands
    directions_bar = None
    if type(values_bar) is not ad.Zero:
        directions_bar = vjp_p.bind(handle, values_bar, kept)[:, None]
    return [None] * (2 + len(others)) + [directions_bar]


batching.primitive_batchers[directional_derivative_p] = _batch
ad.primitive_transposes[directional_derivative_p] = _transpose
