"""The primitive to which a call of a QNode is traced: one circuit, from allocation to release.

A call ``g(x)`` of the QNode in ``straight_circuit`` is traced to ::

    value = quantum_circuit[
      body={ lambda ; state x. let ... quantum_gates ... quantum_measure ... in (state, value) }
      batch=None derivative_order=0 randomness=NONE ...
    ] x

``jax.grad(g)(x)`` is traced to a circuit that also returns its Jacobian.  The classical equations
after it are what JAX made of the linear part, by its own transposition::

    _ jacobian = quantum_circuit[
      body={ lambda ; state x. let
          ...
          state value = quantum_measure ...
          state jacobian = quantum_jacobian ...
        in (state, value, jacobian) }
      derivative_order=1 ...
    ] x
    angle_bar = dot_general [1.0] jacobian
    x_bar = mul 2.0 angle_bar

The body is a parameter of the primitive, not part of the program around it, for two reasons.
Derivatives must leave all quantum operations between the beginning and the end of the circuit.  And
``vmap`` must not map them: it only notes a ``Batch`` beside the body, which is mapped when the
circuit is lowered.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop._jax.private import hold_weakly_in_caches, jvp_jaxpr, partial_eval_jaxpr_nounits
from bellhop.base.equations import equations_of
from bellhop.circuits.circuit.batch import (
    Batch,
    batched,
    has_effects_by_row,
    map_in_parts,
    of_rows,
    rows_at_once,
    rows_together,
)
from bellhop.circuits.circuit.randomness import OUTCOMES_ARE_DRAWN, Randomness
from bellhop.circuits.circuit.tree import apply_derivative, run_with_derivative, through_tree
from bellhop.circuits.derivatives.differentiation import undifferentiable_gates
from bellhop.circuits.derivatives.dynamic_count import reads_the_session
from bellhop.circuits.derivatives.score import score_gradient_p, score_p
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.memory import check_result_fits
from bellhop.circuits.operations.measurement_primitives import jacobian_p, measure_with_jacobian_p
from bellhop.circuits.operations.seeds import random_effect
from bellhop.circuits.operations.state_primitives import HANDLE, Amplitudes, gates_p
from bellhop.compiler.batching import call_one_by_one
from bellhop.compiler.context import allow_our_dialects, lowering_in_progress, lowering_with
from bellhop.compiler.plain_jit import lower_alone
from bellhop.control_flow.reverse_mode import has_loop_of_unknown_length
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.explicit_mesh import apart_from_mesh
from bellhop.mesh.manual_axes import differ, varying_as
from bellhop_mlir.dialects import quantum

_VARIES = (
    "{where}: it is differentiated inside jax.shard_map, which keeps track of what differs between "
    "devices, and gates do not tell it. Give jax.shard_map check_vma=False."
)


circuit_p = Primitive("quantum_circuit")
circuit_p.multiple_results = True


class CircuitBody:
    """The jaxpr of a circuit, from handle and inputs to handle and results.

    Attributes:
        closed: the jaxpr.
        where: the QNode and its line, for errors.
        site: ``file:line`` of the call.
        again: None, or a function that returns a jaxpr with the same results.  That one is
            differentiated instead of ``closed``, since its derivatives are in forward mode.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        where: str,
        site: str,
        again: Callable[[], ClosedJaxpr] | None = None,
    ) -> None:
        self.closed = closed
        self.where = where
        self.site = site
        self.again = again

    def __repr__(self) -> str:
        return str(self.closed.jaxpr)


hold_weakly_in_caches(CircuitBody)


def bind(
    body: CircuitBody,
    inputs: Sequence[Any],
    *,
    device: DeviceSpec,
    name: str,
    derivative_order: int,
    randomness: Randomness = Randomness.NONE,
    batch: Batch | None = None,
) -> list[Any]:
    """Bind the primitive: run a circuit.

    Args:
        body: takes the handle of a fresh state and the inputs; returns the handle after the last
            operation, and the results.  Of a tree, this is one run.
        inputs: arrays; of a batch, the inputs of all rows.
        device: the device that runs it.
        name: the QNode's name.
        derivative_order: how often it was differentiated.  If it was, the runtime records its
            gates.
        randomness: what it does about random outcomes.
        batch: the rows, if it is a batch.
    """
    # JAX is patched here, since JAX applies the rules of transformations before it evaluates the
    # abstract value.
    keep_effects_in_loops()
    return circuit_p.bind(
        *inputs,
        body=body,
        batch=batch,
        device=device,
        name=name,
        derivative_order=derivative_order,
        randomness=randomness,
    )


@circuit_p.def_effectful_abstract_eval
def _aval(
    *avals: Any, body: CircuitBody, randomness: Randomness, batch: Batch | None, **__: Any
) -> tuple[list[Any], Any]:
    # The effects of the quantum function, such as a print, are effects of the circuit.
    effects = body.closed.effects
    if randomness.is_drawn:
        effects = effects | {random_effect}
    results = [of_rows(aval, batch) for aval in body.closed.out_avals[1:]]
    return varying_as(avals, results), effects


@circuit_p.def_impl
def _run_now(*inputs: Any, **params: Any) -> Any:
    # Under ``jax.disable_jit`` too, a circuit is compiled as a whole.
    with jax.disable_jit(False):
        return jax.jit(lambda *args: circuit_p.bind(*args, **params))(*inputs)


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    body: CircuitBody,
    derivative_order: int,
    randomness: Randomness,
    batch: Batch | None,
    **static: Any,
) -> tuple[list[Any], list[Any]]:
    """Linearize a circuit: bind one that also returns residuals, and linear equations after it.

    The linear equations have no quantum operations, so JAX transposes and batches them as usual.
    Of a batch, the body of one row is linearized, and the linear equations are mapped by ``vmap``.
    """
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    if differ(primals):
        raise DifferentiableCompileError(_VARIES.format(where=body.where))
    try:
        is_drawn = randomness.has_drawn_outcomes and not _has(body.closed, score_p)
        with apart_from_mesh(()), undifferentiable_gates(OUTCOMES_ARE_DRAWN if is_drawn else ""):
            closed = body.closed if body.again is None else body.again()
            jvp, out_nonzero = jvp_jaxpr(closed, [False, *nonzero], instantiate=False)
    except DifferentiableCompileError as error:
        if str(error).startswith(body.where):
            raise
        raise DifferentiableCompileError(f"{body.where}: {error}") from error
    n_out = len(body.closed.out_avals)
    n_in = 1 + len(primals)
    with apart_from_mesh(()):
        known, linear, _, residual_avals = partial_eval_jaxpr_nounits(
            jvp,
            [False] * n_in + [True] * sum(nonzero),
            instantiate=[False] * n_out + [True] * sum(out_nonzero),
        )
    static |= {"derivative_order": derivative_order + 1, "randomness": randomness, "batch": batch}
    given = [tangent for tangent, yes in zip(tangents, nonzero, strict=True) if yes]
    if linear.out_avals and (randomness is Randomness.TREE or has_loop_of_unknown_length(linear)):
        # The residuals of all runs of a tree, or of a loop of dynamic length, have no static shape.
        # So the circuit returns its Jacobian instead of residuals.
        derived = functools.partial(
            run_with_derivative, known, linear, n_out, len(given), body.where
        )
        runs = derived()
        again = functools.partial(derived, forward=True) if reads_the_session(runs) else None
        outs = bind(CircuitBody(runs, body.where, body.site, again), primals, **static)
        residuals = outs[n_out - 1 :]

        def evaluate(*args: Any) -> list[Any]:
            derivatives, given = args[: len(residuals)], args[len(residuals) :]
            return apply_derivative(derivatives, given, sum(out_nonzero[1:]))
    else:
        outs = bind(CircuitBody(known, body.where, body.site), primals, **static)
        residuals = outs[len(outs) - len(residual_avals) :] if residual_avals else []
        evaluate = functools.partial(eval_jaxpr, linear.jaxpr, linear.consts)
    if batch is not None:
        axes = [axis for axis, yes in zip(batch.axes, nonzero, strict=True) if yes]
        in_axes = (*(0 for _ in residuals), *axes)
        evaluate = jax.vmap(evaluate, in_axes=in_axes, axis_size=batch.rows)
    linear_outs = iter(evaluate(*residuals, *given))
    results = outs[: n_out - 1]
    result_tangents = [
        next(linear_outs) if yes else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result, yes in zip(results, out_nonzero[1:], strict=True)
    ]
    return results, result_tangents


ad.primitive_jvps[circuit_p] = _jvp


def _batch(
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    body: CircuitBody,
    randomness: Randomness,
    batch: Batch | None,
    **static: Any,
) -> tuple[list[Any], list[int]]:
    """Make a batch of the circuits of all elements of a mapped axis.

    Two kinds of circuits run one after another instead: those with mid-circuit measurements, whose
    outcomes differ from element to element, and those with effects that depend on the element,
    which must keep their order.
    """
    params = {"body": body, "randomness": randomness, "batch": batch, **static}
    is_straight = randomness in (Randomness.NONE, Randomness.SAMPLES)
    of_batch = batch.mapped if batch else [False] * len(dims)
    mapped = [dim is not None or by_row for dim, by_row in zip(dims, of_batch, strict=True)]
    if not is_straight or has_effects_by_row(body.closed, mapped):
        outs, axes = call_one_by_one(circuit_p, operands, dims, **params)
        _check_results_fit(outs, body.where, **static)
        return outs, axes
    all_rows, inputs = batched(batch, operands, dims)
    if all_rows.rows == 0:
        outs = [jnp.zeros(of_rows(a, all_rows).shape, a.dtype) for a in body.closed.out_avals[1:]]
    else:
        outs = circuit_p.bind(*inputs, **{**params, "batch": all_rows})
    if batch is not None:
        elements = all_rows.rows // batch.rows
        outs = [out.reshape(elements, batch.rows, *out.shape[1:]) for out in outs]
    _check_results_fit(outs, body.where, **static)
    return outs, [0] * len(outs)


def _check_results_fit(results: Sequence[Any], where: str, *, device: DeviceSpec, **_: Any) -> None:
    for result in results:
        rows, *shape = result.shape
        check_result_fits(tuple(shape), result.dtype, device.qubits, where, rows=rows)


batching.primitive_batchers[circuit_p] = _batch


def _lower(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    body: CircuitBody,
    device: DeviceSpec,
    name: str,
    derivative_order: int,
    randomness: Randomness,
    batch: Batch | None,
) -> Any:
    static: dict[str, Any] = {
        "body": body,
        "device": device,
        "name": name,
        "derivative_order": derivative_order,
        "randomness": randomness,
    }
    lowering = lowering_in_progress()
    if lowering is None:
        return lower_alone(ctx, circuit_p, operands, {"batch": batch, **static})
    closed = body.closed
    if batch is not None:
        together = rows_together(closed, batch)
        at_once = 1 if together is None else rows_at_once(closed)
        if together is None or at_once < batch.rows:
            one = functools.partial(circuit_p.bind, batch=None, **static)
            parts = functools.partial(map_in_parts, one, batch, rows=at_once)
            in_parts = mlir.lower_fun(lambda *inputs: parts(inputs=inputs), multiple_results=True)
            return in_parts(ctx, *operands)
        closed = together
    allow_our_dialects(ctx)
    is_drawn = randomness.is_drawn
    seeds = quantum.seed([], circuit=lowering.number_random_circuit()) if is_drawn else []
    asked = {"passes": " ".join(device.passes)} if device.passes else {}
    (state,) = quantum.begin(
        [*seeds, *operands],
        library=device.library,
        factory=device.factory,
        kwargs=device.kwargs,
        qubits=device.qubits,
        shots=device.shots,
        record=_record(closed) if derivative_order else 0,
        tree=randomness.tree(derivative_order),
        seeded=is_drawn,
        rows=0 if batch is None else batch.rows,
        engine=device.engine,
        name=name,
        site=body.site,
        **asked,
    )

    inner = ctx.replace(
        primitive=None, avals_in=[HANDLE, *ctx.avals_in], avals_out=[HANDLE, *ctx.avals_out]
    )
    symbol = f"circuit_{name}_recorded" if derivative_order else f"circuit_{name}"
    if randomness is Randomness.TREE:
        closed = through_tree(closed)
    with lowering_with(records=bool(derivative_order), has_passes=bool(device.passes)):
        state, *results = mlir.core_call_lowering(
            inner, state, *operands, name=symbol, call_jaxpr=closed
        )
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    quantum.end([state])
    return results


def _has(closed: ClosedJaxpr, primitive: Primitive) -> bool:
    return any(eqn.primitive is primitive for eqn in equations_of(closed.jaxpr))


def _record(closed: ClosedJaxpr) -> int:
    """Return the runtime's ``record`` attribute of a circuit that is differentiated."""
    by_device = (jacobian_p, measure_with_jacobian_p)
    if _has(closed, score_gradient_p):
        return 3
    equations = list(equations_of(closed.jaxpr))
    if not any(eqn.primitive in by_device for eqn in equations):
        return 1
    by_amplitudes = any(
        eqn.primitive is gates_p and eqn.params["amplitudes"] is Amplitudes.DIFFERENTIATED
        for eqn in equations
    )
    return 3 if by_amplitudes else 2


mlir.register_lowering(circuit_p, _lower, cacheable=False)
