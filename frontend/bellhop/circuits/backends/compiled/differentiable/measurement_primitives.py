"""Define the primitives that measure a circuit and differentiate its values.

``quantum_measure`` measures the state at the end of the circuit.  ``quantum_derivative`` runs the
gates again: it is the derivative of order ``order`` of the measured values, by all of ``params``.
Order 0 is the values in one vector, order 1 their Jacobian, order 2 their Hessians.  With the
operand ``directions``, it is also a directional derivative along tangents of the perturbation,
which represents the dynamic-count parameters.

In a batch, all operands but the handle may have a leading axis of rows, and all results but the
handle have one.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn, Primitive
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop.base.types import Aval, Handle
from bellhop.circuits.backends.compiled.differentiable.internal_measurements import Score
from bellhop.circuits.backends.compiled.differentiable.state_primitives import HANDLE, INTEGER
from bellhop.circuits.ir.device_measurements import Expval, Measurement
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.executors import Executor
from bellhop.circuits.ir.precision import Precision
from bellhop.compiler.lowering_context import allow_bellhop_dialects
from bellhop_mlir.dialects import quantum

# measure: ``MeasureOperands`` -> handle, and the results that ``Query`` lists
measure_p = Primitive("quantum_measure")
# derivative: ``MeasureOperands`` -> handle; the derivative f64[values, p, ..., p], with a leading
#   axis if there are rows of directions; and i32[], the number under which the session keeps the
#   first derivative by dynamic-count parameters, if it keeps one
derivative_p = Primitive("quantum_derivative")

_ALL_STEPS = -1

# The derivative by the matrix of an observable uses all Pauli words of its wires, so it is limited
# to matrices of this many wires.
MOST_MATRIX_WIRES = 4


class Query(enum.Enum):
    """Which results a measurement returns; the attribute of ``quantum.measure``.

    Values:
        VALUES: an array for each measurement.
        JACOBIAN: these arrays, and the Jacobian f64[values, p] by the adjoint method.
        VJP: only f64[p], the cotangents of ``params``; needs the engine.
        JACOBIAN_JVP: only f64[2 * values, p].  For each expectation value, one row is its gradient
            by ``params``, and the next row the derivative of the gradient along
            ``params_tangent``; needs the engine.
    """

    VALUES = 0
    JACOBIAN = 1
    VJP = 2
    JACOBIAN_JVP = 3


class MeasureOperands(NamedTuple):
    """The operands of the measurement primitives, by name.

    A field that is None is not an operand. Fields may also hold other values per operand, such as
    tangents, types or batch axes. In a batch, all operands but the handle may have a leading axis
    of rows.

    Attributes:
        handle: the handle of the state.
        coefficients: f64[c], the coefficients of observables.
        matrices: f64[m], the data of observables' matrices.
        params: f64[p], the traced parameters of all gates so far, without gates in loops with a
            dynamic trip count.
        amplitudes: f64[a], from which the state is prepared; empty if they are part of ``params``.
        perturbation: f64[], a zero that represents all gate parameters in loops with a dynamic trip
            count: its tangent is a number that identifies the vector of their tangents (see
            ``dynamic_count``); None if there are none.
        cotangents: for ``Query.VJP``, f64[values].
        params_tangent: for ``Query.JACOBIAN_JVP``, the tangent of ``params``, f64[p].
        basis: for a derivative, f64[q, p]: directions by which to differentiate instead of by each
            parameter.
        directions: for a derivative, f64[rows, k]: in each row k tangents of the perturbation,
            along which the measurement is differentiated.
        steps: for a derivative with directions, i32[]: the number of gates and projections before
            the measurement.
        saved: for a derivative with directions, i32[]: the number by which the runtime finds the
            derivative, so that it is not computed again.
    """

    handle: Any
    coefficients: Any
    matrices: Any
    params: Any
    amplitudes: Any
    perturbation: Any = None
    cotangents: Any = None
    params_tangent: Any = None
    basis: Any = None
    directions: Any = None
    steps: Any = None
    saved: Any = None

    @classmethod
    def from_names(cls, names: Sequence[str], values: Sequence[Any]) -> "MeasureOperands":
        """Pair operands, or other values for each operand, with the operands' names."""
        return cls(**dict(zip(names, values, strict=True)))

    @classmethod
    def from_equation(cls, eqn: JaxprEqn) -> "MeasureOperands":
        """Return the variables that an equation takes as operands."""
        return cls.from_names(eqn.params["names"], eqn.invars)

    def to_dict(self) -> dict[str, Any]:
        """Return the operands that are not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def with_values(self, values: Sequence[Any]) -> "MeasureOperands":
        """Replace the operands that are not None by other values, in order."""
        return self.from_names(tuple(self.to_dict()), values)

    def bind(self, primitive: Primitive, **static: Any) -> list[Any]:
        """Bind ``measure_p`` or ``derivative_p`` with these operands."""
        operands = self.to_dict()
        return primitive.bind(*operands.values(), names=tuple(operands), **static)


@dataclass(frozen=True)
class MeasurementSet:
    """The final measurements of one device call, and how they are differentiated.

    It is the static parameter ``measuring`` of the measurement primitives.

    Attributes:
        measurements: the measurements, in the order of the results.
        device: the device that runs the circuit.
        differentiation: how the values are differentiated, a ``Differentiation``: the method, the
            frequencies of parameters for shift rules, and the obstacle if a derivative is missing.
    """

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Any  # of backends/compiled/differentiable/differentiation.py

    @property
    def is_score(self) -> bool:
        """Whether the only measurement is the score of the outcomes that were drawn.

        The score is a zero whose derivative is the derivative of the outcomes' log-probability.
        """
        return self.measurements == (Score(),)

    def replace_measurements(self, measurements: Sequence[Measurement]) -> "MeasurementSet":
        """Return a copy with other measurements."""
        return replace(self, measurements=tuple(measurements))

    def prepare_rerun(self) -> "MeasurementSet":
        """Return a copy for derivatives that run the gates again.

        Parameter shifts may replace the adjoint method (`Differentiation.select_rerun_method`,
        which may raise a `DifferentiableCompileError`).
        """
        method = self.differentiation.select_rerun_method(self.measurements)
        return replace(self, differentiation=method)

    def use_single_pass(self) -> "MeasurementSet":
        """Return a copy that is differentiated by one adjoint pass for each VJP.

        Then reverse mode, also the derivative of a VJP, does not compute the Jacobian.
        """
        return replace(self, differentiation=self.differentiation.use_single_pass())

    @property
    def has_only_expvals(self) -> bool:
        """Whether all measurements are expectation values."""
        return all(isinstance(measurement, Expval) for measurement in self.measurements)

    @property
    def has_large_matrices(self) -> bool:
        """Whether an observable's matrix has more than `MOST_MATRIX_WIRES` (four) wires.

        Expectation values have no derivative by such a matrix.
        """
        return any(
            factor.is_matrix and len(factor.wires) > MOST_MATRIX_WIRES
            for measurement in self.measurements
            for term, _ in measurement.list_terms()
            for factor in term
        )

    def to_variance_means(self) -> "MeasurementSet":
        """Return a copy that measures only the expectation value of each variance's observable.

        ``[var(A), expval(B), var(C)]`` becomes ``[expval(A), expval(C)]``.
        """
        return self.replace_measurements(
            [mean for m in self.measurements if (mean := m.to_expval()) is not None]
        )

    def add_variance_means(self) -> "MeasurementSet":
        """Return a copy with the expectation value of each variance's observable appended.

        ``[var(A), expval(B), var(C)]`` becomes ``[var(A), expval(B), var(C), expval(A),
        expval(C)]``.
        """
        return self.replace_measurements(
            [*self.measurements, *self.to_variance_means().measurements]
        )

    def list_sizes(self) -> list[int]:
        """Return the number of real values of each measurement; a complex value counts as two."""
        return [measurement.count_values(self.device) for measurement in self.measurements]

    def make_derivative_aval(self, rows: Sequence[int], n_params: int, order: int) -> ShapedArray:
        """Return the abstract value of a derivative of all values by the parameters.

        Its shape is ``[*rows, values, n_params, ..., n_params]``, with `order` axes of parameters.

        Args:
            rows: the leading axes, of a batch or of directions.
            n_params: the number of parameters.
            order: the order of the derivative; 0 for the values.
        """
        return ShapedArray(
            (*rows, sum(self.list_sizes()), *[n_params] * order), Precision.real_type()
        )

    def unflatten_results(self, numbers: Any) -> list[Any]:
        """Split a vector of all real values into the results of the measurements.

        Args:
            numbers: real vector of all measurements' values; complex numbers count as two.

        Returns:
            for each measurement an array of the measurement's shape and dtype.
        """
        parts = jnp.split(numbers, np.cumsum(self.list_sizes())[:-1])
        results = [measurement.result_aval(self.device) for measurement in self.measurements]
        return [
            (part[::2] + 1j * part[1::2]).astype(result.dtype)
            if np.issubdtype(result.dtype, np.complexfloating)
            else part.reshape(result.shape)
            for part, result in zip(parts, results, strict=True)
        ]

    def find_variance_means(self) -> list[int]:
        """Return for each variance the index of its observable's expectation value; else -1.

        These expectation values are the last measurements, in the order of the variances, as after
        `add_variance_means`. For ``[var(A), expval(B), expval(A)]`` the result is ``[2, -1, -1]``.
        """
        variances = [m.to_expval() is not None for m in self.measurements]
        means = iter(range(len(variances) - sum(variances), len(variances)))
        return [next(means) if is_variance else -1 for is_variance in variances]


@measure_p.def_abstract_eval
def _measure_abstract_eval(
    *avals: Aval, names: Any, measuring: MeasurementSet, query: Query
) -> list[Any]:
    """Return the types of the handle and of the results that the query selects."""
    params = MeasureOperands.from_names(names, avals).params
    if query is Query.VJP:
        return [HANDLE, ShapedArray(params.shape, Precision.real_type())]
    *rows, n_params = params.shape
    if query is Query.JACOBIAN_JVP:
        return [
            HANDLE,
            ShapedArray((*rows, 2 * sum(measuring.list_sizes()), n_params), Precision.real_type()),
        ]
    results = [measurement.result_aval(measuring.device) for measurement in measuring.measurements]
    values = [ShapedArray((*rows, *each.shape), each.dtype) for each in results]
    jacobian = (
        [measuring.make_derivative_aval(rows, n_params, 1)] if query is Query.JACOBIAN else []
    )
    return [HANDLE, *values, *jacobian]


@derivative_p.def_abstract_eval
def _derivative_abstract_eval(
    *avals: Aval, names: Any, measuring: MeasurementSet, order: int, keep: bool
) -> list[ShapedArray]:
    """Return the types of a derivative's results: handle, derivative and an integer.

    The integer is the number by which the runtime finds the first derivative by gate parameters in
    loops with a dynamic trip count, if it keeps this derivative.

    Args:
        order: the order of the derivative by ``params``.
        keep: whether the runtime keeps this derivative.

    Raises:
        DifferentiableCompileError: if `Differentiation.make_shift_rules` raises it. A saved
            derivative (operand ``saved``) needs no rules.
    """
    named = MeasureOperands.from_names(names, avals)
    *rows, n_params = named.params.shape
    k = 0
    if named.directions is not None:
        *rows, k = named.directions.shape
    if named.basis is not None:
        n_params = named.basis.shape[0]
    if named.saved is None:
        # Raises here, while tracing, for a parameter without a shift rule.
        measuring.differentiation.make_shift_rules(order, k, keep=keep)
    return [HANDLE, measuring.make_derivative_aval(rows, n_params, order), INTEGER]


def _measure_lower(
    ctx: Any, *operands: Any, names: Any, measuring: MeasurementSet, query: Query
) -> Any:
    """Lower a measurement to ``quantum.measure``, or a score to ``quantum.score``.

    Returns:
        MLIR values of the handle and of the results that the query selects.
    """
    allow_bellhop_dialects(ctx)
    named, types = (
        MeasureOperands.from_names(names, operands),
        [ir_type(ctx, a) for a in ctx.avals_out[1:]],
    )
    if measuring.is_score:
        return _score_lower(named.handle, types, has_gradient=query is Query.JACOBIAN)
    data, code = encode_measurements(named.coefficients, named.matrices, measuring.measurements)
    vector = [
        operand for operand in (named.cotangents, named.params_tangent) if operand is not None
    ]
    return quantum.measure([named.handle, data, *vector], types, code=code, jacobian=query.value)


def _score_lower(handle: Handle, types: Sequence[Any], *, has_gradient: bool) -> list[Any]:
    """Lower a score: the constant zero and, if it is requested, its gradient by the runtime.

    The gradient is the derivative of the log-probability of the outcomes that were drawn.

    Args:
        handle: MLIR value of the state's handle.
        types: MLIR types of the results after the handle.
        has_gradient: whether the gradient by ``params`` is a result, too.

    Returns:
        MLIR values of the handle, the zero and, with `has_gradient`, the gradient as one row.
    """
    score = mlir.ir_constant(np.zeros((), Precision.real_type()))
    if not has_gradient:
        return [handle, score]
    row = ir.RankedTensorType(types[1])
    vector = ir.RankedTensorType.get(row.shape[1:], row.element_type)
    handle, _, gradient = quantum.score([handle], [vector])
    return [handle, score, stablehlo.reshape(row, gradient)]


def _derivative_lower(
    ctx: Any, *operands: Any, names: Any, measuring: MeasurementSet, order: int, keep: bool
) -> list[Any]:
    """Lower a derivative to ``quantum.derivative``, or to ``quantum.jvp`` if saved.

    If the operand ``saved`` is among `names`, ``quantum.jvp`` multiplies the derivative that the
    runtime has kept with the directions f64[rows, 1], and `measuring`, `order` and `keep` do not
    matter. Otherwise ``quantum.derivative`` runs the gates again.

    Args:
        order: the order of the derivative by ``params``.
        keep: whether the runtime shall keep the first derivative by gate parameters in loops with a
            dynamic trip count.

    Returns:
        MLIR values of the handle, the derivative, and the number by which the runtime finds the
        derivative that it keeps: the operand ``saved`` if it is present, -1 without `keep`.
    """
    named = MeasureOperands.from_names(names, operands)
    result = ir_type(ctx, ctx.avals_out[1])
    if named.saved is not None:
        matrix = ir.RankedTensorType(named.directions.type)
        column = ir.RankedTensorType.get(matrix.shape[:1], matrix.element_type)
        jvp_operands = [named.handle, stablehlo.reshape(column, named.directions), named.saved]
        return [named.handle, *quantum.jvp(jvp_operands, [result]), named.saved]
    n_params = ir.RankedTensorType(named.params.type).shape[-1]
    basis = _default_to_constant(named.basis, np.zeros((0, n_params), Precision.real_type()))
    directions = _default_to_constant(named.directions, np.zeros((1, 0), Precision.real_type()))
    steps = _default_to_constant(named.steps, np.int32(_ALL_STEPS))
    k = ir.RankedTensorType(directions.type).shape[1]
    rules = measuring.differentiation.make_shift_rules(order, k, keep=keep)
    rule_indices = mlir.ir_constant(_compress_repeated(rules.rule_indices))
    data, code = encode_measurements(named.coefficients, named.matrices, measuring.measurements)
    state, saved, derivative = quantum.derivative(
        [named.handle, data, named.params, rule_indices, basis, steps, directions],
        [result],
        code=code,
        sizes=measuring.list_sizes(),
        squares=measuring.find_variance_means(),
        **rules.attributes(),
        order=order,
        adjoint=measuring.differentiation.is_adjoint,
        keep=keep,
    )
    return [state, derivative, saved]


def _default_to_constant(operand: Any, value: Any) -> Any:
    """Return an operand; if it is None, `value` as an MLIR constant."""
    return mlir.ir_constant(value) if operand is None else operand


def _compress_repeated(numbers: np.ndarray) -> np.ndarray:
    """Return the array, as a broadcast of its first element if all elements are equal.

    ``numbers`` is a 1-D array. MLIR writes a broadcast array as a splat of one element.
    """
    is_one = numbers.size > 0 and np.all(numbers == numbers[0])
    return np.broadcast_to(numbers[0], numbers.shape) if is_one else numbers


def encode_measurements(
    coefficients: Any, matrices: Any, measurements: Sequence[Measurement]
) -> tuple[Any, list[int]]:
    """Encode measurements as an operand and an attribute of a runtime operation.

    Args:
        coefficients: MLIR value f64[..., c], the coefficients of observables.
        matrices: MLIR value f64[..., m], the data of observables' matrices.
        measurements: the measurements.

    Returns:
        the operand, the concatenation f64[..., c + m] of coefficients and matrices; and the
        attribute ``code``, a list of the integers that encode the measurements.
    """
    *rows, first_matrix = ir.RankedTensorType(coefficients.type).shape
    code = [number for measurement in measurements for number in measurement.encode(first_matrix)]
    return stablehlo.concatenate([coefficients, matrices], len(rows)), code


for _primitive, _lower in ((measure_p, _measure_lower), (derivative_p, _derivative_lower)):
    _primitive.multiple_results = True
    mlir.register_lowering(_primitive, _lower, cacheable=False)


def is_adjoint_equation(eqn: JaxprEqn) -> bool:
    """Return whether an equation differentiates by an adjoint sweep through the gates."""
    return eqn.primitive is measure_p and eqn.params["query"] is not Query.VALUES


def is_derivative_product(eqn: JaxprEqn) -> bool:
    """Return whether an equation computes a VJP or Hessian-vector product of measurements."""
    return eqn.primitive is measure_p and eqn.params["query"] in (Query.VJP, Query.JACOBIAN_JVP)


def can_plugin_differentiate(eqn: JaxprEqn) -> bool:
    """Return whether a plugin's adjoint method can compute an equation's derivative.

    False if a plugin does not differentiate one of the measurements, or if the equation is a VJP or
    Hessian-vector product, which only the engine computes.

    Args:
        eqn: an equation of the primitive ``quantum_measure``, usually with a Jacobian.
    """
    return not is_derivative_product(eqn) and all(
        m.has_jacobian(Executor.PLUGIN) for m in eqn.params["measuring"].measurements
    )
