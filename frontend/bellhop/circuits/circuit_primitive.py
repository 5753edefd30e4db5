"""The primitive that a QNode is: one circuit, from allocation to release.

Batching must not enter a circuit, and differentiation must keep every quantum operation
where its inputs are known; so the circuit's own jaxpr is a parameter of the primitive.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, mlir

from bellhop._jax_compat import (
    hold_weakly_in_caches,
    jvp_jaxpr,
    partial_eval_jaxpr_nounits,
)
from bellhop.batching import batch_one_by_one
from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.primitives import HANDLE, recorded
from bellhop.errors import DifferentiableCompileError
from bellhop.lowering import allow_our_dialects, lowering_in_progress
from bellhop.plain_jit import lower_alone
from bellhop_mlir.dialects import quantum

circuit_p = Primitive("quantum_circuit")
circuit_p.multiple_results = True


class CircuitBody:
    """The jaxpr of a circuit: handle and inputs to handle and results.

    Attributes:
        closed: the jaxpr.
        where: the QNode and its line, for errors.
    """

    def __init__(self, closed: ClosedJaxpr, where: str) -> None:
        self.closed = closed
        self.where = where

    def __repr__(self) -> str:
        return str(self.closed.jaxpr)


hold_weakly_in_caches(CircuitBody)


def bind(
    body: CircuitBody, inputs: Sequence[Any], *, device: DeviceSpec, name: str, record: bool
) -> list[Any]:
    """Run a circuit.

    Args:
        body: takes the handle of a fresh state and the inputs; returns the handle after the
            last operation and the results.
        inputs: arrays.
        device: where it runs.
        name: the QNode's name.
        record: whether the device records the gates, to differentiate them.
    """
    return circuit_p.bind(*inputs, body=body, device=device, name=name, record=record)


@circuit_p.def_effectful_abstract_eval
def _aval(*_: Any, body: CircuitBody, **__: Any) -> tuple[list[Any], Any]:
    # Printing in the quantum function is an effect of the program.
    return body.closed.out_avals[1:], body.closed.effects


circuit_p.def_impl(
    lambda *inputs, **params: jax.jit(lambda *args: circuit_p.bind(*args, **params))(*inputs)
)


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    body: CircuitBody,
    device: DeviceSpec,
    name: str,
    record: bool,
) -> tuple[list[Any], list[Any]]:
    """Linearize the circuit: one that returns residuals as well, and linear algebra after it.

    The second part holds no quantum operation, so JAX transposes and batches it as usual.
    """
    del record
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    try:
        jvp, out_nonzero = jvp_jaxpr(body.closed, [False, *nonzero], instantiate=False)
    except DifferentiableCompileError as error:
        if str(error).startswith(body.where):
            raise
        raise DifferentiableCompileError(f"{body.where}: {error}") from error
    n_out = len(body.closed.out_avals)
    n_in = 1 + len(primals)
    known, linear, _, residual_avals = partial_eval_jaxpr_nounits(
        jvp,
        [False] * n_in + [True] * sum(nonzero),
        instantiate=[False] * n_out + [True] * sum(out_nonzero),
    )
    outs = bind(CircuitBody(known, body.where), primals, device=device, name=name, record=True)
    results = outs[: n_out - 1]
    residuals = outs[len(outs) - len(residual_avals) :] if residual_avals else []
    given = [tangent for tangent, yes in zip(tangents, nonzero, strict=True) if yes]
    linear_outs = iter(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *given))
    result_tangents = [
        next(linear_outs) if yes else ad.Zero(aval.to_tangent_aval())
        for aval, yes in zip(body.closed.out_avals[1:], out_nonzero[1:], strict=True)
    ]
    return results, result_tangents


ad.primitive_jvps[circuit_p] = _jvp


batch_one_by_one(circuit_p)


def _lower(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    body: CircuitBody,
    device: DeviceSpec,
    name: str,
    record: bool,
) -> Any:
    if lowering_in_progress() is None:
        params = {"body": body, "device": device, "name": name, "record": record}
        return lower_alone(ctx, circuit_p, operands, params)
    allow_our_dialects(ctx)
    state = quantum.begin(
        operands,
        library=device.library,
        factory=device.factory,
        kwargs=device.kwargs,
        qubits=device.qubits,
        shots=device.shots,
        record=record,
        passes=device.passes,
    )

    inner = ctx.replace(
        primitive=None, avals_in=[HANDLE, *ctx.avals_in], avals_out=[HANDLE, *ctx.avals_out]
    )
    symbol = f"circuit_{name}_recorded" if record else f"circuit_{name}"
    with recorded(record):
        state, *results = mlir.core_call_lowering(
            inner, state, *operands, name=symbol, call_jaxpr=body.closed
        )
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    quantum.end(state)
    return results


mlir.register_lowering(circuit_p, _lower, cacheable=False)
