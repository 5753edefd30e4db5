"""Derivatives of what runs in a circuit, to any order.

Gates pass none.  Derivatives are taken where the measurements are made, by the vector of all gate
parameters, the coefficients of observables, and their matrices.  By parameters there are two
native ways: the adjoint Jacobian, and to run the recorded gates again with shifted parameters.
Either can be done at many points at once, so the derivative of one is the other at shifted
points.
"""

import contextlib
import contextvars
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad

from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.diff_method import ADJOINT, FINITE_DIFFERENCES, Differentiation
from bellhop.circuits.measurement_primitives import (
    jacobian_p,
    measure_p,
    replay_jacobian_p,
    replay_p,
    shift_p,
)
from bellhop.circuits.measurements import EXPVAL, VAR, Measurement
from bellhop.circuits.observable_derivatives import changes_by_data
from bellhop.circuits.shift_rules import ShiftRule
from bellhop.circuits.state_primitives import gates_p, mid_measure_p, restart_p
from bellhop.circuits.uncounted import values_tangent
from bellhop.errors import DifferentiableCompileError

_obstacle: contextvars.ContextVar[str] = contextvars.ContextVar(
    "bellhop_obstacle_of_gates", default=""
)


@contextlib.contextmanager
def undifferentiable_gates(obstacle: str) -> Iterator[None]:
    """Make the derivative by parameters of gates an error while a circuit is differentiated."""
    token = _obstacle.set(obstacle)
    try:
        yield
    finally:
        _obstacle.reset(token)


def _gates_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str, **static: Any
) -> Any:
    reason = _obstacle.get() or obstacle
    if reason and type(tangents[1]) is not ad.Zero:
        raise DifferentiableCompileError(reason)
    # The derivative reaches the measurement through its parameters, not through the state.
    handle = gates_p.bind(*primals, obstacle=obstacle, **static)
    return handle, _zero(handle)


def _without_tangents(primitive: Primitive) -> None:
    """Let derivatives pass by what has none: they reach the measurements and stop there."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
        del tangents
        results = primitive.bind(*primals, **static)
        return results, list(map(_zero, results))

    ad.primitive_jvps[primitive] = jvp


ad.primitive_jvps[gates_p] = _gates_jvp
_without_tangents(mid_measure_p)
_without_tangents(restart_p)


@dataclass(frozen=True)
class _Static:
    """What all primitives that measure know when the program is compiled."""

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Differentiation

    def params(self) -> dict[str, Any]:
        return {
            "measurements": self.measurements,
            "device": self.device,
            "differentiation": self.differentiation,
        }

    def of(self, measurements: Sequence[Measurement]) -> "_Static":
        return replace(self, measurements=tuple(measurements))


def _measure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Differentiate the measurements at the end of a circuit."""
    static = _Static(**params)
    obstacle = static.differentiation.obstacle
    if obstacle and any(map(_is_given, tangents[1:])):
        raise DifferentiableCompileError(obstacle)
    handle, *values = measure_p.bind(*primals, **params)
    if not any(map(_is_given, tangents[1:])):
        return [handle, *values], [_zero(value) for value in (handle, *values)]
    operands = (*primals[1:4], *_NO_SHIFT)
    values_dot = [jnp.zeros_like(value) for value in values]
    tokens_dot = list(filter(_is_given, tangents[4:]))
    is_adjoint = static.differentiation.method == ADJOINT
    if is_adjoint and (_is_given(tangents[3]) or tokens_dot):
        # The device has recorded the circuit, so it need not run again.
        handle, jacobian = jacobian_p.bind(handle, *primals[1:4], **params)
        if _is_given(tangents[3]):
            values_dot = list(jacobian @ tangents[3])
        for token_dot in tokens_dot:
            moved = values_tangent(token_dot, handle, jnp.int32(0), len(values))
            values_dot = [a + b for a, b in zip(values_dot, moved, strict=True)]
    elif _is_given(tangents[3]):
        rows = [value[None] for value in values]
        handle, moved = _moved_by_shifts(handle, operands, tangents[3], rows, static)
        values_dot = [row[0] for row in moved]
    for token_dot in [] if is_adjoint else tokens_dot:
        handle, moved = _moved_by_uncounted_shifts(handle, operands, token_dot, values, static)
        values_dot = [a + b for a, b in zip(values_dot, moved, strict=True)]

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(terms).params())
        return handle, [row[0] for row in rows]

    handle, values_dot = _moved_by_data(handle, operands, tangents, values_dot, static, evaluate)
    return [handle, *values], [_zero(handle), *values_dot]


def _replay_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    static = _Static(**params)
    handle, *values = replay_p.bind(*primals, **params)
    operands = primals[1:]
    values_dot = [jnp.zeros_like(value) for value in values]
    if _is_given(tangents[3]):
        if static.differentiation.method == ADJOINT:
            handle, jacobians = replay_jacobian_p.bind(handle, *operands, **params)
            values_dot = list(jnp.moveaxis(jacobians @ tangents[3], 1, 0))
        else:
            handle, values_dot = _moved_by_shifts(handle, operands, tangents[3], values, static)

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(terms).params())
        return handle, rows

    handle, values_dot = _moved_by_data(handle, operands, tangents, values_dot, static, evaluate)
    return [handle, *values], [_zero(handle), *values_dot]


def _jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobian = jacobian_p.bind(*primals, **params)
    operands = (*primals[1:], *_NO_SHIFT)
    handle, moved = _moved_jacobians(handle, operands, tangents, jacobian[None], _Static(**params))
    return [handle, jacobian], [_zero(handle), moved[0]]


def _replay_jacobian_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    handle, jacobians = replay_jacobian_p.bind(*primals, **params)
    static = _Static(**params)
    handle, moved = _moved_jacobians(handle, primals[1:], tangents, jacobians, static)
    return [handle, jacobians], [_zero(handle), moved]


ad.primitive_jvps[measure_p] = _measure_jvp
ad.primitive_jvps[jacobian_p] = _jacobian_jvp
ad.primitive_jvps[replay_p] = _replay_jvp
ad.primitive_jvps[replay_jacobian_p] = _replay_jacobian_jvp

_NO_SHIFT = np.zeros((1, 0), np.int32), np.zeros((1, 0))


def _is_given(tangent: Any) -> bool:
    return type(tangent) is not ad.Zero and tangent.size > 0


def _zero(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _all_shifts(index: Any, amount: Any, rule: ShiftRule) -> tuple[Any, Any]:
    """Return points, each of which is shifted in every way of a rule."""

    def product(rows: Any, terms: Any) -> Any:
        n_rows, n_terms = rows.shape[0], terms.shape[0]
        repeated = jnp.repeat(rows, n_terms, axis=0)
        return jnp.concatenate([repeated, jnp.tile(terms, n_rows)[:, None]], axis=1)

    return product(index, rule.indices()), product(amount, rule.amounts())


def _weights(rule: ShiftRule, params_dot: Any) -> tuple[Any, Any]:
    """Return the weights of the values at each shift, and of the value without one."""
    return rule.coefficients() * params_dot[rule.indices()], rule.unshifted @ params_dot


def _moved_by_shifts(
    handle: Any,
    operands: Sequence[Any],
    params_dot: Any,
    values: Sequence[Any],
    static: _Static,
) -> tuple[Any, list[Any]]:
    """Return the change of values when the parameters change, by values at shifted points.

    The rules hold for what is linear in the state: expectation values and probabilities.  The
    square ``E[A**2]`` is such, and a variance is that less the square of ``E[A]``.
    """
    coefficients, matrices, params, index, amount = operands
    _refuse_differences_of_differences(index, static)
    rule = static.differentiation.rule(params.shape[0])
    points = _all_shifts(index, amount, rule)
    of_variances = [replace(m, kind=EXPVAL) for m in static.measurements if m.kind == VAR]
    more = static.of([*static.measurements, *of_variances]).params()
    handle, *shifted = replay_p.bind(handle, coefficients, matrices, params, *points, **more)
    means: list[Any] = []
    if of_variances:
        only = static.of(of_variances).params()
        handle, *means = replay_p.bind(handle, *operands, **only)
    weights, unshifted_weight = _weights(rule, params_dot)
    rows = index.shape[0]

    def moved(at_shifts: Any, here: Any) -> Any:
        by_row = at_shifts.reshape(rows, weights.shape[0], *here.shape[1:])
        return jnp.einsum("s,rs...->r...", weights, by_row) + unshifted_weight * here

    n = len(static.measurements)
    variances = iter(zip(shifted[n:], means, strict=True))
    values_dot = []
    for measurement, at_shifts, here in zip(static.measurements, shifted, values, strict=False):
        if measurement.kind == VAR:
            mean_at_shifts, mean = next(variances)
            squares = moved(at_shifts + mean_at_shifts**2, here + mean**2)
            values_dot.append(squares - 2 * mean * moved(mean_at_shifts, mean))
        else:
            values_dot.append(moved(at_shifts, here))
    return handle, values_dot


def _moved_by_uncounted_shifts(
    handle: Any,
    operands: Sequence[Any],
    token_dot: Any,
    values: Sequence[Any],
    static: _Static,
) -> tuple[Any, list[Any]]:
    """Return the change of values when parameters change that only the run counts.

    The rule is one for all of them, and what the device gives of a variance is the derivative of
    ``E[A**2]``.
    """
    of_variances = [replace(m, kind=EXPVAL) for m in static.measurements if m.kind == VAR]
    all_measured = static.of([*static.measurements, *of_variances])
    rule = static.differentiation.rule_of_uncounted()
    weights, amounts = rule.coefficients(), rule.amounts()
    if rule.unshifted[0]:
        weights = jnp.concatenate([weights, rule.unshifted])
        amounts = jnp.concatenate([amounts, jnp.zeros(1)])
    handle, derivative = shift_p.bind(
        handle, *operands[:3], weights, amounts, **all_measured.params()
    )
    n = len(static.measurements)
    shapes = [value.shape for value in values]
    means: Iterator[Any] = iter(())
    if of_variances:
        handle, *rows = replay_p.bind(handle, *operands, **static.of(of_variances).params())
        means = iter(row[0] for row in rows)
    sizes = [math.prod(shape) for shape in shapes] + [1] * len(of_variances)
    moved = values_tangent(token_dot, handle, derivative, sum(sizes))
    ends = [0, *itertools.accumulate(sizes)]
    parts = [moved[start:end] for start, end in itertools.pairwise(ends)]
    of_means = iter(parts[n:])
    values_dot = []
    for measurement, part, shape in zip(static.measurements, parts, shapes, strict=False):
        if measurement.kind == VAR:
            part = part - 2 * next(means) * next(of_means)
        values_dot.append(part.reshape(shape))
    return handle, values_dot


def _moved_jacobians(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    jacobians: Any,
    static: _Static,
) -> tuple[Any, Any]:
    """Return the change of adjoint Jacobians ``[rows, expvals, p]``."""
    coefficients, matrices, params, index, amount = operands
    jacobians_dot = jnp.zeros_like(jacobians)
    if _is_given(tangents[3]):
        rule = static.differentiation.rule(params.shape[0])
        points = _all_shifts(index, amount, rule)
        handle, shifted = replay_jacobian_p.bind(
            handle, coefficients, matrices, params, *points, **static.params()
        )
        weights, _ = _weights(rule, tangents[3])
        by_row = shifted.reshape(index.shape[0], weights.shape[0], *jacobians.shape[1:])
        jacobians_dot = jnp.einsum("s,rsep->rep", weights, by_row)

    def evaluate(handle: Any, terms: Sequence[Measurement]) -> Any:
        handle, of_terms = replay_jacobian_p.bind(handle, *operands, **static.of(terms).params())
        return handle, list(jnp.moveaxis(of_terms, 1, 0))

    by_measurement = list(jnp.moveaxis(jacobians_dot, 1, 0))
    handle, moved = _moved_by_data(handle, operands, tangents, by_measurement, static, evaluate)
    return handle, jnp.stack(moved, axis=1)


def _moved_by_data(
    handle: Any,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    values_dot: list[Any],
    static: _Static,
    evaluate: Callable[[Any, Sequence[Measurement]], tuple[Any, list[Any]]],
) -> tuple[Any, list[Any]]:
    """Add the change of values when the data of observables change."""
    coefficients_dot, matrices_dot = (dot if _is_given(dot) else None for dot in tangents[1:3])
    changes = list(
        changes_by_data(static.measurements, operands[0], coefficients_dot, matrices_dot)
    )
    if not changes:
        return handle, values_dot
    handle, of_products = evaluate(handle, [change.measurement for change in changes])
    result = list(values_dot)
    for change, value in zip(changes, of_products, strict=True):
        result[change.of] = result[change.of] + change.weight * value
    return handle, result


def _refuse_differences_of_differences(index: Any, static: _Static) -> None:
    if static.differentiation.method == FINITE_DIFFERENCES and index.shape[1]:
        raise DifferentiableCompileError(
            "it is differentiated twice, and finite differences of finite differences are mostly "
            "rounding errors. Use diff_method='best' or 'parameter-shift'."
        )
