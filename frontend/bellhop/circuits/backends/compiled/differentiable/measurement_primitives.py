"""The primitives that measure a circuit, and that its derivatives are made of.

``measure`` measures the state as it is.  ``derivative`` runs the gates again: it is the derivative
of order ``order`` of what is measured, by all of ``params``: of order 0 the values in one vector,
of order 1 their Jacobian, of order 2 the Hessians.  With ``directions`` it is that along tangents
of a perturbation as well: the derivatives by parameters that only the run counts.

In a ``batch``, all operands but the handle may have a leading axis of rows, and all results but the
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
from bellhop.circuits.backends.compiled.differentiable.state_primitives import HANDLE, INTEGER
from bellhop.circuits.ir.device_measurements import Expval, Measurement, Score
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.precision import real_type
from bellhop.compiler.lowering_context import allow_bellhop_dialects
from bellhop_mlir.dialects import quantum

# measure: ``MeasureOperands`` -> handle, and what ``Query`` says
measure_p = Primitive("quantum_measure")
# derivative: likewise -> handle, f64[values, p, ..., p], of all rows of directions where it has
#   such, and the number i32[] of the first derivative by dynamic-count parameters, where the
#   session is to keep it
derivative_p = Primitive("quantum_derivative")

_ALL_STEPS = -1

# Up to here, a matrix of an observable is differentiated through its Pauli words.
MOST_MATRIX_WIRES = 4


class Query(enum.Enum):
    """What is asked of a measured state; the attribute of ``quantum.measure``.

    Values:
        VALUES: an array for each measurement.
        JACOBIAN: these, and f64[values, p] by the adjoint method.
        VJP: f64[p] alone, the cotangents of ``params``; by the engine.
        JACOBIAN_JVP: f64[2 * values, p] alone, for each of some expectation values its derivative
            and, of that, the derivative along ``params_dot``; by the engine.
    """

    VALUES = 0
    JACOBIAN = 1
    VJP = 2
    JACOBIAN_JVP = 3


class MeasureOperands(NamedTuple):
    """What is measured.  What is None is no operand.

    Attributes:
        handle: the handle of the state.
        coefficients: of observables, f64[c].
        matrices: of observables, f64[m].
        params: of the gates so far, f64[p].
        amplitudes: that the state is prepared from, f64[a]; none where they are among the
            parameters.
        perturbation: of dynamic-count parameters, f64[]; None where there are none.
        cotangents: of a VJP, f64[values].
        params_tangent: of a derivative along it, f64[p].
        basis: of a derivative, f64[q, p]: the directions that stand for the parameters.
        directions: of a derivative, f64[rows, k]: tangents of the perturbation.
        steps: of one with directions, i32[]: the number of gates and projections before it.
        saved: of one with directions, i32[]: the number of the derivative that the session keeps,
            which is not made again then.
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
        """Return the operands of an equation, or what belongs to each, by their names."""
        return cls(**dict(zip(names, values, strict=True)))

    @classmethod
    def from_equation(cls, eqn: JaxprEqn) -> "MeasureOperands":
        """Return the variables that an equation takes."""
        return cls.from_names(eqn.params["names"], eqn.invars)

    def to_dict(self) -> dict[str, Any]:
        """Return those that there are, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def with_values(self, values: Sequence[Any]) -> "MeasureOperands":
        """Return operands with other values in place of those that there are, in their order."""
        return self.from_names(tuple(self.to_dict()), values)

    def bind(self, primitive: Primitive, **static: Any) -> list[Any]:
        """Bind one of the primitives here."""
        given = self.to_dict()
        return primitive.bind(*given.values(), names=tuple(given), **static)


@dataclass(frozen=True)
class MeasurementSet:
    """What is measured, and how it is differentiated."""

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Any  # of backends/compiled/differentiable/differentiation_choice.py

    @property
    def is_score(self) -> bool:
        """Whether it is the score of what was drawn, and nothing else."""
        return self.measurements == (Score(),)

    def replace_measurements(self, measurements: Sequence[Measurement]) -> "MeasurementSet":
        """Return the same with other measurements."""
        return replace(self, measurements=tuple(measurements))

    def prepare_rerun(self) -> "MeasurementSet":
        """Return the same as derivatives of runs at other parameters are made of it."""
        method = self.differentiation.select_rerun_method(self.measurements)
        return replace(self, differentiation=method)

    def use_single_pass(self) -> "MeasurementSet":
        """Return the same, whose linear part is one sweep of the engine's."""
        return replace(self, differentiation=replace(self.differentiation, single_pass=True))

    @property
    def has_only_expvals(self) -> bool:
        """Whether it is expectation values, and nothing else."""
        return all(isinstance(measurement, Expval) for measurement in self.measurements)

    @property
    def has_large_matrices(self) -> bool:
        """Whether there are matrices on too many wires for a derivative by their entries."""
        return any(
            factor.is_matrix and len(factor.wires) > MOST_MATRIX_WIRES
            for measurement in self.measurements
            for term, _ in measurement.list_terms()
            for factor in term
        )

    def to_variance_means(self) -> "MeasurementSet":
        """Return the same with the expectation value for each variance."""
        return self.replace_measurements(
            [mean for m in self.measurements if (mean := m.to_expval()) is not None]
        )

    def add_variance_means(self) -> "MeasurementSet":
        """Return the same with the means of variances as well, which come last."""
        return self.replace_measurements(
            [*self.measurements, *self.to_variance_means().measurements]
        )

    def list_sizes(self) -> list[int]:
        """Return how many real numbers each measurement gives."""
        return [measurement.count_values(self.device) for measurement in self.measurements]

    def make_derivative_aval(self, rows: Sequence[int], n_params: int, order: int) -> ShapedArray:
        """Return the type of the derivative of some order, of each of some rows."""
        return ShapedArray((*rows, sum(self.list_sizes()), *[n_params] * order), real_type())

    def unflatten_results(self, numbers: Any) -> list[Any]:
        """Return the results of the measurements, of their real numbers in one vector."""
        parts = jnp.split(numbers, np.cumsum(self.list_sizes())[:-1])
        results = [measurement.result_aval(self.device) for measurement in self.measurements]
        return [
            (part[::2] + 1j * part[1::2]).astype(result.dtype)
            if np.issubdtype(result.dtype, np.complexfloating)
            else part.reshape(result.shape)
            for part, result in zip(parts, results, strict=True)
        ]

    def find_variance_means(self) -> list[int]:
        """Return for each variance which measurement is its mean, and -1 for the others.

        The means come last, in their order, or are not among the measurements.
        """
        variances = [m.to_expval() is not None for m in self.measurements]
        means = iter(range(len(variances) - sum(variances), len(variances)))
        return [next(means) if is_variance else -1 for is_variance in variances]


@measure_p.def_abstract_eval
def _measure_abstract_eval(
    *avals: Aval, names: Any, measuring: MeasurementSet, query: Query
) -> list[Any]:
    params = MeasureOperands.from_names(names, avals).params
    if query is Query.VJP:
        return [HANDLE, ShapedArray(params.shape, real_type())]
    *rows, n_params = params.shape
    if query is Query.JACOBIAN_JVP:
        return [
            HANDLE,
            ShapedArray((*rows, 2 * sum(measuring.list_sizes()), n_params), real_type()),
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
    of = MeasureOperands.from_names(names, avals)
    *rows, n_params = of.params.shape
    k = 0
    if of.directions is not None:
        *rows, k = of.directions.shape
    if of.basis is not None:
        n_params = of.basis.shape[0]
    if of.saved is None:
        # Whatever has no rule is an error where it is differentiated.
        measuring.differentiation.make_shift_rules(order, k, keep=keep)
    return [HANDLE, measuring.make_derivative_aval(rows, n_params, order), INTEGER]


def _measure_lower(
    ctx: Any, *operands: Any, names: Any, measuring: MeasurementSet, query: Query
) -> Any:
    allow_bellhop_dialects(ctx)
    of, types = (
        MeasureOperands.from_names(names, operands),
        [ir_type(ctx, a) for a in ctx.avals_out[1:]],
    )
    if measuring.is_score:
        return _score_lower(of.handle, types, has_gradient=query is Query.JACOBIAN)
    data, code = encode_measurements(of.coefficients, of.matrices, measuring.measurements)
    vector = [each for each in (of.cotangents, of.params_tangent) if each is not None]
    return quantum.measure([of.handle, data, *vector], types, code=code, jacobian=query.value)


def _score_lower(handle: Handle, types: Sequence[Any], *, has_gradient: bool) -> list[Any]:
    score = mlir.ir_constant(np.zeros((), real_type()))
    if not has_gradient:
        return [handle, score]
    row = ir.RankedTensorType(types[1])
    vector = ir.RankedTensorType.get(row.shape[1:], row.element_type)
    handle, _, gradient = quantum.score([handle], [vector])
    return [handle, score, stablehlo.reshape(row, gradient)]


def _derivative_lower(
    ctx: Any, *operands: Any, names: Any, measuring: MeasurementSet, order: int, keep: bool
) -> list[Any]:
    of = MeasureOperands.from_names(names, operands)
    result = ir_type(ctx, ctx.avals_out[1])
    if of.saved is not None:
        matrix = ir.RankedTensorType(of.directions.type)
        column = ir.RankedTensorType.get(matrix.shape[:1], matrix.element_type)
        along = [of.handle, stablehlo.reshape(column, of.directions), of.saved]
        return [of.handle, *quantum.jvp(along, [result]), of.saved]
    n_params = ir.RankedTensorType(of.params.type).shape[-1]
    basis = _default_to_constant(of.basis, np.zeros((0, n_params), real_type()))
    directions = _default_to_constant(of.directions, np.zeros((1, 0), real_type()))
    steps = _default_to_constant(of.steps, np.int32(_ALL_STEPS))
    k = ir.RankedTensorType(directions.type).shape[1]
    rules = measuring.differentiation.make_shift_rules(order, k, keep=keep)
    of_parameters = mlir.ir_constant(_compress_repeated(rules.rule_indices))
    data, code = encode_measurements(of.coefficients, of.matrices, measuring.measurements)
    state, saved, derivative = quantum.derivative(
        [of.handle, data, of.params, of_parameters, basis, steps, directions],
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
    return mlir.ir_constant(value) if operand is None else operand


def _compress_repeated(numbers: np.ndarray) -> np.ndarray:
    """Return the same array; one number that is repeated is written to a program once."""
    is_one = numbers.size > 0 and np.all(numbers == numbers[0])
    return np.broadcast_to(numbers[0], numbers.shape) if is_one else numbers


def encode_measurements(
    coefficients: Any, matrices: Any, measurements: Sequence[Measurement]
) -> tuple[Any, list[int]]:
    """Return the data and code of measurements as the runtime takes them."""
    *rows, first_matrix = ir.RankedTensorType(coefficients.type).shape
    code = [number for measurement in measurements for number in measurement.encode(first_matrix)]
    return stablehlo.concatenate([coefficients, matrices], len(rows)), code


for _primitive, _lower in ((measure_p, _measure_lower), (derivative_p, _derivative_lower)):
    _primitive.multiple_results = True
    mlir.register_lowering(_primitive, _lower, cacheable=False)


def is_adjoint_equation(eqn: JaxprEqn) -> bool:
    """Tell whether an equation goes back through the gates of a circuit."""
    return eqn.primitive is measure_p and eqn.params["query"] is not Query.VALUES


def is_derivative_product(eqn: JaxprEqn) -> bool:
    """Tell whether an equation is a product with a derivative of what is measured."""
    return eqn.primitive is measure_p and eqn.params["query"] in (Query.VJP, Query.JACOBIAN_JVP)


def can_plugin_differentiate(eqn: JaxprEqn) -> bool:
    """Tell whether a plugin has the derivative of such an equation, too."""
    return not is_derivative_product(eqn) and all(
        m.has_adjoint for m in eqn.params["measuring"].measurements
    )
