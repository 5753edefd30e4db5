"""The primitives that measure a circuit, and those that its derivatives are made of.

All take the handle of the state, the coefficients and matrices of observables, and the parameters
of the gates so far; their first result is the next handle.  In a ``batch``, all operands but the
handle may have a leading axis of rows, and all results but the handle have one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop._jax.private import ir_type
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.operations.state_primitives import HANDLE
from bellhop.circuits.precision import real_type
from bellhop.compiler.context import allow_our_dialects
from bellhop_mlir.dialects import quantum

# measure: handle, coefficients f64[c], matrices f64[m], params f64[p], and the proxy f64[] of
#   dynamic-count parameters where there are such -> handle, values...
measure_p = Primitive("quantum_measure")
# measure_with_jacobian: the same -> handle, values..., f64[expvals, p]
measure_with_jacobian_p = Primitive("quantum_measure_with_jacobian")
# jacobian: handle, coefficients f64[c], matrices f64[m], params f64[p], and the proxy -> handle,
#   f64[expvals, p]
jacobian_p = Primitive("quantum_jacobian")
# replay: handle, coefficients f64[c], matrices f64[m], params f64[p], index i32[rows, order],
#   amount f64[rows, order], and the proxy -> handle, values of each row...
replay_p = Primitive("quantum_replay")
# replay_jacobian: the same -> handle, f64[rows, expvals, p]
replay_jacobian_p = Primitive("quantum_replay_jacobian")
# shift: handle, coefficients f64[c], matrices f64[m], params f64[p], and coefficients f64[terms]
#   and amounts f64[terms] of the shift rule -> handle, the number i32[] of a derivative by
#   dynamic-count parameters, by parameter shift, which the session keeps
shift_p = Primitive("quantum_shift")
# steps: handle -> handle, the number i32[] of gates and projections recorded so far
steps_p = Primitive("quantum_steps")


def _values(
    operands: Sequence[Any], measurements: Sequence[Measurement], device: DeviceSpec, *points: int
) -> list[ShapedArray]:
    """Return the types of measured values; the rows of a batch come first, and then points."""
    rows = operands[3].shape[:-1]
    results = [measurement.result(device) for measurement in measurements]
    return [ShapedArray((*rows, *points, *result.shape), result.dtype) for result in results]


def _jacobian(
    operands: Sequence[Any], measurements: Sequence[Measurement], *points: int
) -> ShapedArray:
    *rows, n_params = operands[3].shape
    return ShapedArray((*rows, *points, len(measurements), n_params), real_type())


@measure_p.def_abstract_eval
def _measure_aval(*operands: Any, measurements: Any, device: DeviceSpec, **_: Any) -> list[Any]:
    return [HANDLE, *_values(operands, measurements, device)]


@measure_with_jacobian_p.def_abstract_eval
def _both_aval(*operands: Any, measurements: Any, device: DeviceSpec, **_: Any) -> list[Any]:
    jacobian = _jacobian(operands, measurements)
    return [HANDLE, *_values(operands, measurements, device), jacobian]


@jacobian_p.def_abstract_eval
def _jacobian_aval(*operands: Any, measurements: Any, **_: Any) -> list[Any]:
    return [HANDLE, _jacobian(operands, measurements)]


@replay_p.def_abstract_eval
def _replay_aval(*operands: Any, measurements: Any, device: DeviceSpec, **_: Any) -> list[Any]:
    return [HANDLE, *_values(operands, measurements, device, operands[4].shape[0])]


@replay_jacobian_p.def_abstract_eval
def _replay_jacobian_aval(*operands: Any, measurements: Any, **_: Any) -> list[Any]:
    return [HANDLE, _jacobian(operands, measurements, operands[4].shape[0])]


@steps_p.def_abstract_eval
@shift_p.def_abstract_eval
def _number_aval(*_: Any, **__: Any) -> list[Any]:
    return [HANDLE, ShapedArray((), np.dtype(np.int32))]


def _measure_lower(
    ctx: Any,
    state: Any,
    coefficients: Any,
    matrices: Any,
    *_: Any,
    measurements: tuple[Measurement, ...],
    **_static: Any,
) -> Any:
    allow_our_dialects(ctx)
    data, code = data_and_code(coefficients, matrices, measurements)
    types = [ir_type(ctx, aval) for aval in ctx.avals_out[1:]]
    has_jacobian = ctx.primitive is measure_with_jacobian_p
    return quantum.measure([state, data], types, code=code, jacobian=has_jacobian)


def _jacobian_lower(ctx: Any, state: Any, *_: Any, **__: Any) -> Any:
    return quantum.jacobian([state], [ir_type(ctx, ctx.avals_out[1])])


def _replay_lower(
    ctx: Any,
    state: Any,
    coefficients: Any,
    matrices: Any,
    params: Any,
    index: Any,
    amount: Any,
    *_proxy: Any,
    measurements: tuple[Measurement, ...],
    **_: Any,
) -> Any:
    data, code = data_and_code(coefficients, matrices, measurements)
    operands = [state, data, params, index, amount]
    types = [ir_type(ctx, aval) for aval in ctx.avals_out[1:]]
    build = quantum.replay if ctx.primitive is replay_p else quantum.replay_jacobian
    return build(operands, types, code=code)


def _shift_lower(
    ctx: Any,
    state: Any,
    coefficients: Any,
    matrices: Any,
    *others: Any,
    measurements: tuple[Measurement, ...],
    device: DeviceSpec,
    **_: Any,
) -> Any:
    data, code = data_and_code(coefficients, matrices, measurements)
    sizes, squares = sizes_and_squares(measurements, device)
    return quantum.shift([state, data, *others], code=code, sizes=sizes, squares=squares)


def sizes_and_squares(
    measurements: Sequence[Measurement], device: DeviceSpec
) -> tuple[list[int], list[int]]:
    """Return how many numbers measurements give, and for each variance which is its mean.

    The means of variances come last, in their order.
    """
    sizes = [measurement.result(device).size for measurement in measurements]
    variances = [number for number, m in enumerate(measurements) if m.mean() is not None]
    means = iter(range(len(measurements) - len(variances), len(measurements)))
    squares = [next(means) if number in variances else -1 for number in range(len(measurements))]
    return sizes, squares


def data_and_code(
    coefficients: Any, matrices: Any, measurements: Sequence[Measurement]
) -> tuple[Any, list[int]]:
    """Return the data and code of measurements as the runtime takes them."""
    vector = ir.RankedTensorType(coefficients.type)
    *rows, first_matrix = vector.shape
    code = [number for measurement in measurements for number in measurement.code(first_matrix)]
    count = first_matrix + ir.RankedTensorType(matrices.type).shape[-1]
    data = ir.Operation.create(
        "stablehlo.concatenate",
        results=[ir.RankedTensorType.get([*rows, count], vector.element_type)],
        operands=[coefficients, matrices],
        attributes={"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(rows))},
    ).result
    return data, code


for _primitive, _lower in (
    (measure_p, _measure_lower),
    (measure_with_jacobian_p, _measure_lower),
    (jacobian_p, _jacobian_lower),
    (replay_p, _replay_lower),
    (replay_jacobian_p, _replay_lower),
    (shift_p, _shift_lower),
    (steps_p, lambda _, state: quantum.steps([state])),
):
    _primitive.multiple_results = True
    mlir.register_lowering(_primitive, _lower, cacheable=False)
