"""The primitive that a QNode is: one circuit, from allocation to release.

Batching must not enter a circuit, and differentiation must keep every quantum operation
where its inputs are known; so the circuit's own jaxpr is a parameter of the primitive.
"""

import enum
from collections.abc import Sequence
from typing import Any

import jax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Effect, Primitive
from jax.interpreters import ad, mlir

from bellhop._jax_compat import (
    hold_weakly_in_caches,
    jvp_jaxpr,
    partial_eval_jaxpr_nounits,
    register_effect,
)
from bellhop.batching import batch_one_by_one
from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.primitives import HANDLE, recorded, undifferentiable_gates
from bellhop.errors import DifferentiableCompileError
from bellhop.lowering import allow_our_dialects, lowering_in_progress
from bellhop.plain_jit import lower_alone
from bellhop_mlir.dialects import quantum


class Randomness(enum.Enum):
    """What becomes of the random outcomes in a circuit.

    Values:
        NONE: there are none.
        DRAWN: they are drawn, from other random numbers at each run.
        TREE: the circuit runs with each combination of them.
    """

    NONE = "none"
    DRAWN = "drawn"
    TREE = "tree"


_OBSTACLES = {
    Randomness.NONE: "",
    Randomness.DRAWN: (
        "its results are random (it has shots, or mid-circuit measurements) and gates in it are "
        "differentiated, which the adjoint method cannot do. Use a circuit without shots for the "
        "derivative."
    ),
    Randomness.TREE: (
        "it has mid-circuit measurements and gates in it are differentiated; the adjoint method "
        "goes back through gates only. Use default.qubit, where the probabilities of outcomes are "
        "differentiated too."
    ),
}


class _RandomEffect(Effect):
    """Keeps JAX from making a random circuit once where the program makes it several times."""

    def __str__(self) -> str:
        return "Random"


# Not in jax.checkpoint, which would draw other outcomes when it runs a circuit again.
register_effect(_RandomEffect, in_checkpoint=False)
_random_effect = _RandomEffect()

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
    body: CircuitBody,
    inputs: Sequence[Any],
    *,
    device: DeviceSpec,
    name: str,
    record: bool,
    randomness: Randomness = Randomness.NONE,
) -> list[Any]:
    """Run a circuit.

    Args:
        body: takes the handle of a fresh state and the inputs; returns the handle after the
            last operation and the results.
        inputs: arrays.
        device: where it runs.
        name: the QNode's name.
        record: whether the device records the gates, to differentiate them.
        randomness: what becomes of random outcomes.
    """
    static = {"device": device, "name": name, "record": record, "randomness": randomness}
    return circuit_p.bind(*inputs, body=body, **static)


@circuit_p.def_effectful_abstract_eval
def _aval(*_: Any, body: CircuitBody, randomness: Randomness, **__: Any) -> tuple[list[Any], Any]:
    # Printing in the quantum function is an effect of the program.
    effects = body.closed.effects
    if randomness is Randomness.DRAWN:
        effects = effects | {_random_effect}
    return body.closed.out_avals[1:], effects


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
    randomness: Randomness,
) -> tuple[list[Any], list[Any]]:
    """Linearize the circuit: one that returns residuals as well, and linear algebra after it.

    The second part holds no quantum operation, so JAX transposes and batches it as usual.
    """
    del record
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    try:
        with undifferentiable_gates(_OBSTACLES[randomness]):
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
    outs = bind(
        CircuitBody(known, body.where),
        primals,
        device=device,
        name=name,
        # What is random is not differentiated, and its device need not record.
        record=randomness is Randomness.NONE,
        randomness=randomness,
    )
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
    randomness: Randomness,
) -> Any:
    lowering = lowering_in_progress()
    if lowering is None:
        static = {"device": device, "name": name, "record": record, "randomness": randomness}
        return lower_alone(ctx, circuit_p, operands, {"body": body, **static})
    allow_our_dialects(ctx)
    is_drawn = randomness is Randomness.DRAWN
    seeds = [quantum.seed(lowering.number_random_circuit())] if is_drawn else []
    state = quantum.begin(
        [*seeds, *operands],
        library=device.library,
        factory=device.factory,
        kwargs=device.kwargs,
        qubits=device.qubits,
        shots=device.shots,
        record=record,
        tree=randomness is Randomness.TREE,
        seeded=is_drawn,
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
