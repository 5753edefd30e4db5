"""The primitives that measure a circuit, and those that its derivatives are made of.

In a ``batch``, all operands but the handle may have a leading axis of rows, and all results but the
handle have one.

``derivative`` is the derivative of order ``order`` of what is measured, by all of ``params``: of
order 0 the values in one vector, of order 1 their Jacobian, of order 2 the Hessians.
``directional_derivative`` is the same along the tangents of a perturbation, of which there may be
several: the derivatives by parameters that only the run counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.operations.state_primitives import HANDLE
from bellhop.circuits.precision import real_type
from bellhop.compiler.context import allow_our_dialects
from bellhop_mlir.dialects import quantum

# measure: ``MeasureOperands`` -> handle, values...
measure_p = Primitive("quantum_measure")
# measure_with_jacobian: the same -> handle, values..., f64[values, p], by the adjoint method
measure_with_jacobian_p = Primitive("quantum_measure_with_jacobian")
# measure_tangent: the same without a perturbation, and the tangents f64[p] of params ->
#   f64[values], those of all values; it is never run, but transposed
measure_tangent_p = Primitive("quantum_measure_tangent")
# measure_vjp: the same without a perturbation, and cotangents f64[values] -> handle, f64[p], by
#   the engine
measure_vjp_p = Primitive("quantum_measure_vjp")
# derivative: the same, and a basis f64[q, p] -> handle, f64[values, p, ..., p], and the number
#   i32[] of the first derivative by dynamic-count parameters, where the session is to keep it; a
#   basis that has rows stands for the parameters
derivative_p = Primitive("quantum_derivative")
# directional_derivative: the same as of measure, the step i32[] of the circuit at which it is
#   taken, the number i32[] of a derivative that the session keeps there, directions f64[rows, k]
#   -> f64[rows, values, p, ..., p]; it is not run where it is saved
directional_derivative_p = Primitive("quantum_directional_derivative")
# steps: handle -> handle, the number i32[] of gates and projections recorded so far
steps_p = Primitive("quantum_steps")

_ALL_STEPS = -1


class MeasureOperands(NamedTuple):
    """What is measured, with which the operands of all primitives here begin.

    Attributes:
        handle: the handle of the state.
        coefficients: of observables, f64[c].
        matrices: of observables, f64[m].
        params: of the gates so far, f64[p].
        amplitudes: that the state is prepared from, f64[a]; none where they are among the
            parameters.
        perturbation: of dynamic-count parameters, f64[]; None where there are none.
    """

    handle: Any
    coefficients: Any
    matrices: Any
    params: Any
    amplitudes: Any
    perturbation: Any = None

    def flat(self) -> list[Any]:
        """Return them as arguments of ``bind``."""
        return [operand for operand in self if operand is not None]


@dataclass(frozen=True)
class Measuring:
    """The static parameters of all primitives that measure."""

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Any  # of derivatives/diff_method.py

    def params(self) -> dict[str, Any]:
        """Return these as keyword arguments of ``bind``."""
        return {
            "measurements": self.measurements,
            "device": self.device,
            "differentiation": self.differentiation,
        }

    def of(self, measurements: Sequence[Measurement]) -> "Measuring":
        """Return the same with other measurements."""
        return replace(self, measurements=tuple(measurements))

    def run_again(self) -> "Measuring":
        """Return the same as derivatives of runs at other parameters are made of it."""
        method = self.differentiation.again(self.measurements)
        return replace(self, differentiation=method)

    def by_vjp(self) -> "Measuring":
        """Return the same, linearized for its VJP alone."""
        return replace(self, differentiation=replace(self.differentiation, by_vjp=True))

    def means(self) -> "Measuring":
        """Return the same with the expectation value for each variance."""
        return self.of([mean for m in self.measurements if (mean := m.mean()) is not None])

    def with_means(self) -> "Measuring":
        """Return the same with the means of variances as well, which come last."""
        return self.of([*self.measurements, *self.means().measurements])

    def sizes(self) -> list[int]:
        """Return how many real numbers each measurement gives."""
        return [measurement.n_values(self.device) for measurement in self.measurements]

    def results(self, numbers: Any) -> list[Any]:
        """Return the results of the measurements, of their real numbers in one vector."""
        parts = jnp.split(numbers, np.cumsum(self.sizes())[:-1])
        results = [measurement.result(self.device) for measurement in self.measurements]
        return [
            (part[::2] + 1j * part[1::2]).astype(result.dtype)
            if np.issubdtype(result.dtype, np.complexfloating)
            else part.reshape(result.shape)
            for part, result in zip(parts, results, strict=True)
        ]

    def squares(self) -> list[int]:
        """Return for each variance which measurement is its mean, and -1 for the others.

        The means come last, in their order, or are not among the measurements.
        """
        variances = [m.mean() is not None for m in self.measurements]
        means = iter(range(len(variances) - sum(variances), len(variances)))
        return [next(means) if is_variance else -1 for is_variance in variances]


@measure_p.def_abstract_eval
def _measure_aval(
    *operands: Any, measurements: Sequence[Measurement], device: DeviceSpec, **_: Any
) -> list[Any]:
    rows = MeasureOperands(*operands).params.shape[:-1]
    results = [measurement.result(device) for measurement in measurements]
    return [HANDLE, *(ShapedArray((*rows, *each.shape), each.dtype) for each in results)]


@measure_with_jacobian_p.def_abstract_eval
def _with_jacobian_aval(*operands: Any, **static: Any) -> list[Any]:
    *rows, n_params = MeasureOperands(*operands).params.shape
    return [*_measure_aval(*operands, **static), _derivative(rows, n_params, 1, **static)]


@measure_tangent_p.def_abstract_eval
def _measure_tangent_aval(*_: Any, **static: Any) -> ShapedArray:
    return ShapedArray((sum(Measuring(**static).sizes()),), real_type())


@measure_vjp_p.def_abstract_eval
def _measure_vjp_aval(*operands: Any, **_: Any) -> list[Any]:
    *measured, _cotangents = operands
    return [HANDLE, ShapedArray(MeasureOperands(*measured).params.shape, real_type())]


def _derivative(rows: Sequence[int], n_params: int, order: int, **static: Any) -> ShapedArray:
    width = sum(Measuring(**static).sizes())
    return ShapedArray((*rows, width, *[n_params] * order), real_type())


@derivative_p.def_abstract_eval
def _derivative_aval(*operands: Any, order: int, keep: bool, **static: Any) -> list[Any]:
    # Whatever has no rule is an error where it is differentiated.
    static["differentiation"].rules(order, 0, keep=keep)
    *measured, basis = operands
    *rows, n_params = MeasureOperands(*measured).params.shape
    derivative = _derivative(rows, basis.shape[0] or n_params, order, **static)
    return [HANDLE, derivative, ShapedArray((), np.dtype(np.int32))]


@directional_derivative_p.def_abstract_eval
def _directional_aval(*operands: Any, order: int, is_saved: bool, **static: Any) -> ShapedArray:
    *measured, _steps, _saved, directions = operands
    if not is_saved:
        static["differentiation"].rules(order, directions.shape[1], keep=False)
    n_params = MeasureOperands(*measured).params.shape[-1]
    return _derivative(directions.shape[:1], n_params, order, **static)


@steps_p.def_abstract_eval
def _steps_aval(_: Any) -> list[Any]:
    return [HANDLE, ShapedArray((), np.dtype(np.int32))]


def _measure_lower(
    ctx: Any, *operands: Any, measurements: tuple[Measurement, ...], **_static: Any
) -> Any:
    allow_our_dialects(ctx)
    has_cotangents = ctx.primitive is measure_vjp_p
    cotangents = operands[-1:] if has_cotangents else ()
    measured = MeasureOperands(*operands[:-1] if has_cotangents else operands)
    data, code = data_and_code(measured.coefficients, measured.matrices, measurements)
    types = [ir_type(ctx, aval) for aval in ctx.avals_out[1:]]
    derivative = {measure_p: 0, measure_with_jacobian_p: 1, measure_vjp_p: 2}[ctx.primitive]
    operands = measured.handle, data, *cotangents
    return quantum.measure(operands, types, code=code, jacobian=derivative)


def _derivative_lower(ctx: Any, *operands: Any, keep: bool, **static: Any) -> list[Any]:
    *measured, basis = operands
    steps = mlir.ir_constant(np.int32(_ALL_STEPS))
    directions = mlir.ir_constant(np.zeros((1, 0), real_type()))
    along = MeasureOperands(*measured), basis, steps, directions
    state, saved, derivative = _lower_derivative(ctx, ctx.avals_out[1], *along, keep=keep, **static)
    return [state, derivative, saved]


def _lower_derivative(
    ctx: Any,
    result: Any,
    measured: MeasureOperands,
    basis: Any,
    steps: Any,
    directions: Any,
    *,
    order: int,
    keep: bool,
    **static: Any,
) -> Sequence[Any]:
    measuring = Measuring(**static)
    rules = measuring.differentiation.rules(
        order, ir.RankedTensorType(directions.type).shape[1], keep=keep
    )
    data, code = data_and_code(measured.coefficients, measured.matrices, measuring.measurements)
    of_parameters = mlir.ir_constant(_without_copies(rules.of_parameters))
    return quantum.derivative(
        [measured.handle, data, measured.params, of_parameters, basis, steps, directions],
        [ir_type(ctx, result)],
        code=code,
        sizes=measuring.sizes(),
        squares=measuring.squares(),
        **rules.attributes(),
        order=order,
        adjoint=measuring.differentiation.is_adjoint,
        keep=keep,
    )


def _without_copies(numbers: np.ndarray) -> np.ndarray:
    """Return the same array; one number that is repeated is written to a program once."""
    is_one = numbers.size > 0 and np.all(numbers == numbers[0])
    return np.broadcast_to(numbers[0], numbers.shape) if is_one else numbers


def _directional_lower(ctx: Any, *operands: Any, is_saved: bool, **static: Any) -> list[Any]:
    *others, steps, saved, directions = operands
    measured = MeasureOperands(*others)
    (result,) = ctx.avals_out
    if is_saved:
        row = ir.RankedTensorType(directions.type)
        rows = ir.RankedTensorType.get(row.shape[:1], row.element_type)
        directions = stablehlo.reshape(rows, directions)
        return quantum.jvp([measured.handle, directions, saved], [ir_type(ctx, result)])
    n_params = ir.RankedTensorType(measured.params.type).shape[0]
    along = mlir.ir_constant(np.zeros((0, n_params))), steps, directions
    _, _, derivative = _lower_derivative(ctx, result, measured, *along, keep=False, **static)
    return [derivative]


def data_and_code(
    coefficients: Any, matrices: Any, measurements: Sequence[Measurement]
) -> tuple[Any, list[int]]:
    """Return the data and code of measurements as the runtime takes them."""
    *rows, first_matrix = ir.RankedTensorType(coefficients.type).shape
    code = [number for measurement in measurements for number in measurement.code(first_matrix)]
    return stablehlo.concatenate([coefficients, matrices], len(rows)), code


for _primitive, _lower in (
    (measure_p, _measure_lower),
    (measure_with_jacobian_p, _measure_lower),
    (measure_vjp_p, _measure_lower),
    (derivative_p, _derivative_lower),
    (steps_p, lambda _, state: quantum.steps([state])),
):
    _primitive.multiple_results = True
    mlir.register_lowering(_primitive, _lower, cacheable=False)
mlir.register_lowering(directional_derivative_p, _directional_lower, cacheable=False)


def is_adjoint(eqn: Any) -> bool:
    """Tell whether an equation goes back through the gates of a circuit."""
    return eqn.primitive in (measure_with_jacobian_p, measure_vjp_p)


def plugin_differentiates(eqn: Any) -> bool:
    """Tell whether a plugin has the derivative of such an equation, too."""
    measured = eqn.params["measurements"]
    return eqn.primitive is not measure_vjp_p and all(m.has_adjoint for m in measured)
