"""The primitives inside a circuit: gates, measurements, restarts and the adjoint derivative.

All take the handle of the state before them and return the one after: ``uint32[2]``.  In a
``batch``, parameters and data may have an axis of rows in front, and results but for the handle
have one.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters.mlir import ir

from bellhop._jax_compat import ir_type
from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.differentiation import (
    jacobian_p,
    measurement_jvp,
    replay_jacobian_p,
    replay_p,
    shift_p,
)
from bellhop.circuits.measurements import VAR, Measurement
from bellhop.errors import CompileError, DifferentiableCompileError
from bellhop.lowering import allow_our_dialects
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.quantum import Gate
from bellhop_mlir.transforms.fuse_gates import encode

# The offset of parameters without a derivative, in runtime/contract.toml.
NOT_DIFFERENTIABLE = -1

HANDLE = ShapedArray((2,), np.dtype(np.uint32))

# gates: handle, params f64[n], offset i32[], dynamic_wires i32[m] -> handle; a loop of them:
#   handle, params f64[most * n], offset, dynamic_wires i32[most * m], turns i32[] -> handle
gates_p = Primitive("quantum_gates")
# mid_measure: handle, wire i32[] -> handle, outcome bool[]
mid_measure_p = Primitive("quantum_mid_measure")
mid_measure_p.multiple_results = True
# restart: handle -> handle, more bool[]
restart_p = Primitive("quantum_restart")
restart_p.multiple_results = True
# measure: handle, coefficients f64[c], matrices f64[m], params f64[p], and the token f64[] of
#   uncounted parameters where there are such -> handle, values...
measure_p = Primitive("quantum_measure")
measure_p.multiple_results = True
# measure_with_jacobian: the same -> handle, values..., f64[expvals, p]
measure_with_jacobian_p = Primitive("quantum_measure_with_jacobian")
measure_with_jacobian_p.multiple_results = True


_circuit_obstacle: contextvars.ContextVar[str] = contextvars.ContextVar(
    "bellhop_circuit_obstacle", default=""
)


@contextlib.contextmanager
def undifferentiable_gates(obstacle: str) -> Iterator[None]:
    """Make the derivative by parameters of gates an error while a circuit is differentiated."""
    token = _circuit_obstacle.set(obstacle)
    try:
        yield
    finally:
        _circuit_obstacle.reset(token)


@gates_p.def_abstract_eval
def _gates_aval(*_: Any, **__: Any) -> ShapedArray:
    return HANDLE


def _gates_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str, **static: Any
) -> Any:
    reason = _circuit_obstacle.get() or obstacle
    if reason and type(tangents[1]) is not ad.Zero:
        raise DifferentiableCompileError(reason)
    # The derivative reaches the measurement through its parameters, not through the state.
    return gates_p.bind(*primals, obstacle=obstacle, **static), _no_tangent()


def _no_tangent() -> Any:
    return ad.Zero(HANDLE.to_tangent_aval())


ad.primitive_jvps[gates_p] = _gates_jvp


@mid_measure_p.def_abstract_eval
def _mid_measure_aval(*_: Any, **__: Any) -> list[ShapedArray]:
    return [HANDLE, ShapedArray((), np.dtype(bool))]


@restart_p.def_abstract_eval
def _restart_aval(*_: Any) -> list[ShapedArray]:
    return [HANDLE, ShapedArray((), np.dtype(bool))]


def _without_tangents(primitive: Primitive) -> None:
    """Let derivatives pass by what has none: they reach the measurements and stop there."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
        del tangents
        results = primitive.bind(*primals, **static)
        return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]

    ad.primitive_jvps[primitive] = jvp


_without_tangents(mid_measure_p)
_without_tangents(restart_p)


def _mid_measure_lower(ctx: Any, state: Any, wire: Any, **static: Any) -> Any:
    allow_our_dialects(ctx)
    return quantum.mid_measure(state, wire, **static)


def _restart_lower(ctx: Any, state: Any) -> Any:
    allow_our_dialects(ctx)
    return quantum.restart(state)


mlir.register_lowering(mid_measure_p, _mid_measure_lower, cacheable=False)
mlir.register_lowering(restart_p, _restart_lower, cacheable=False)


# undifferentiable: x -> x
_undifferentiable_p = Primitive("quantum_undifferentiable")
_undifferentiable_p.def_impl(lambda x, **_: x)
_undifferentiable_p.def_abstract_eval(lambda x, **_: x)
batching.defvectorized(_undifferentiable_p)


def undifferentiable(x: Any, obstacle: str) -> Any:
    """Return ``x``, whose derivative is an error that names the obstacle.

    It stands in front of values that have one to JAX, and a wrong one.
    """
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return _undifferentiable_p.bind(x, obstacle=obstacle)


def _undifferentiable_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str) -> Any:
    if type(tangents[0]) is not ad.Zero:
        raise DifferentiableCompileError(obstacle)
    return _undifferentiable_p.bind(*primals, obstacle=obstacle), tangents[0]


ad.primitive_jvps[_undifferentiable_p] = _undifferentiable_jvp
mlir.register_lowering(_undifferentiable_p, lambda _, x, **__: [x])


_is_recorded: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "bellhop_circuit_is_recorded", default=True
)


@contextlib.contextmanager
def recorded(record: bool) -> Iterator[None]:
    """Lower what runs inside for a device that records its gates, or not."""
    token = _is_recorded.set(record)
    try:
        yield
    finally:
        _is_recorded.reset(token)


def _gates_lower(
    ctx: Any,
    state: Any,
    params: Any,
    offset: Any,
    wires: Any,
    *turns: Any,
    gates: tuple[Gate, ...],
    **_: Any,
) -> Any:
    allow_our_dialects(ctx)
    if not _is_recorded.get():
        # Nobody asks where the parameters stand, so loops need not count them.
        offset = mlir.ir_constant(np.int32(NOT_DIFFERENTIABLE))
    if turns:
        # Gates that the passes look at are those of one turn.
        return [quantum.gates(state, [params, offset, wires, *turns], *encode(gates))]
    for gate in gates:
        state = quantum.gate(state, params, offset, wires, gate)
    return [state]


mlir.register_lowering(gates_p, _gates_lower, cacheable=False)


@measure_p.def_abstract_eval
def _measure_aval(
    _handle: Any,
    _coefficients: Any,
    _matrices: Any,
    params: Any,
    *_token: Any,
    measurements: tuple[Measurement, ...],
    device: DeviceSpec,
    **_: Any,
) -> list[ShapedArray]:
    rows = params.shape[:-1]
    shapes = [measurement.result_shape(device) for measurement in measurements]
    return [HANDLE, *(ShapedArray((*rows, *shape), np.dtype(dtype)) for shape, dtype in shapes)]


@measure_with_jacobian_p.def_abstract_eval
def _measure_with_jacobian_aval(
    *operands: Any, measurements: tuple[Measurement, ...], **static: Any
) -> list[ShapedArray]:
    results = _measure_aval(*operands, measurements=measurements, **static)
    *rows, n_params = operands[3].shape
    shape = (*rows, len(measurements), n_params)
    return [*results, ShapedArray(shape, np.dtype(np.float64))]


def _measure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> Any:
    return measurement_jvp(measure_p, primals, tangents, **static)


ad.primitive_jvps[measure_p] = _measure_jvp


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
    data, code = _data_and_code(coefficients, matrices, measurements)
    types = [ir_type(ctx, aval) for aval in ctx.avals_out[1:]]
    has_jacobian = ctx.primitive is measure_with_jacobian_p
    return quantum.measure(state, data, code, types, jacobian=has_jacobian)


def _data_and_code(
    coefficients: Any, matrices: Any, measurements: Sequence[Measurement]
) -> tuple[Any, list[int]]:
    """Return the data and code of measurements as the runtime takes them."""
    *rows, offset = ir.RankedTensorType(coefficients.type).shape
    code = [
        number
        for measurement in measurements
        for number in _with_matrices_at(offset, measurement).code()
    ]
    count = offset + ir.RankedTensorType(matrices.type).shape[-1]
    data = ir.Operation.create(
        "stablehlo.concatenate",
        results=[ir.RankedTensorType.get([*rows, count], ir.F64Type.get())],
        operands=[coefficients, matrices],
        attributes={"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(rows))},
    ).result
    return data, code


def _with_matrices_at(offset: int, measurement: Measurement) -> Measurement:
    """Move the indices of matrices behind the coefficients, where the runtime reads them."""
    terms = tuple(tuple(_moved(list(term), offset)) for term in measurement.terms)
    return replace(measurement, terms=terms)


def _moved(code: list[int], offset: int) -> list[int]:
    head = code.pop(0)
    if head <= 4:
        return [head, code.pop(0)]
    count = code.pop(0)
    if head == 5:
        wires = [code.pop(0) for _ in range(count)]
        return [head, count, *wires, code.pop(0) + offset]
    return [head, count, *(number for _ in range(count) for number in _moved(code, offset))]


mlir.register_lowering(measure_p, _measure_lower, cacheable=False)
mlir.register_lowering(measure_with_jacobian_p, _measure_lower, cacheable=False)


def _jacobian_lower(ctx: Any, state: Any, *_: Any, **__: Any) -> Any:
    return quantum.jacobian(state, ir_type(ctx, ctx.avals_out[1]))


mlir.register_lowering(jacobian_p, _jacobian_lower, cacheable=False)


def _replay_lower(
    ctx: Any,
    state: Any,
    coefficients: Any,
    matrices: Any,
    params: Any,
    index: Any,
    amount: Any,
    *,
    measurements: tuple[Measurement, ...],
    **_: Any,
) -> Any:
    data, code = _data_and_code(coefficients, matrices, measurements)
    operands = [state, data, params, index, amount]
    types = [ir_type(ctx, aval) for aval in ctx.avals_out[1:]]
    if ctx.primitive is replay_p:
        return quantum.replay(operands, code, types)
    return quantum.replay_jacobian(operands, code, types[0])


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
    data, code = _data_and_code(coefficients, matrices, measurements)
    sizes = [math.prod(measurement.result_shape(device)[0]) for measurement in measurements]
    # The means of variances come last, in their order.
    variances = [number for number, m in enumerate(measurements) if m.kind == VAR]
    means = iter(range(len(measurements) - len(variances), len(measurements)))
    squares = [next(means) if number in variances else -1 for number in range(len(measurements))]
    return quantum.shift([state, data, *others], code, sizes, squares)


mlir.register_lowering(shift_p, _shift_lower, cacheable=False)
mlir.register_lowering(replay_p, _replay_lower, cacheable=False)
mlir.register_lowering(replay_jacobian_p, _replay_lower, cacheable=False)


def check_x64(where: str) -> None:
    """Refuse to trace a circuit without 64-bit types, which the device computes in."""
    if not jax.config.jax_enable_x64:
        raise CompileError(
            f"{where}: circuits need JAX's 64-bit types. Set "
            "jax.config.update('jax_enable_x64', True)."
        )
