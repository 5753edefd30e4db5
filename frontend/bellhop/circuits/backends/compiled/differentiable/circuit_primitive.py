"""Define the primitive of a circuit, from allocation to release of its state.

A call ``g(x)`` of the QNode in ``recorded_gates`` is traced to ::

    value = quantum_circuit[
      body={ lambda ; state x. let ... quantum_gates ... quantum_measure ... in (state, value) }
      batch=None
    ] x

``jax.grad(g)(x)`` is traced to a circuit that also returns its Jacobian.  JAX derives the classical
equations after the circuit by transposing the linear part::

    _ jacobian = quantum_circuit[
      body={ lambda ; state x. let
          state = quantum_gates ...
          state value jacobian = quantum_measure[query=JACOBIAN] ...
        in (state, value, jacobian) }
      batch=None
    ] x
    angle_bar = dot_general [1.0] jacobian
    x_bar = mul 2.0 angle_bar

The body is a parameter of the primitive and not inlined into the program, for two reasons.
Derivatives must keep all quantum operations between the beginning and the end of the circuit.  And
``vmap`` must not map the body: the batching rule only records a ``Batch`` next to the body, and the
body is mapped when the circuit is lowered.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import batching, mlir

from bellhop._jax.jaxprs import lower_high_primitives
from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.types import Aval, Operand
from bellhop.circuits.backends.compiled.differentiable.batch import (
    Batch,
    add_row_axis,
    count_rows_per_call,
    has_row_dependent_effects,
    merge_batch,
    vectorize_rows,
)
from bellhop.circuits.backends.compiled.differentiable.engine_support import (
    choose_record_mode,
    find_engine_obstacle,
)
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import measure_p
from bellhop.circuits.backends.compiled.differentiable.outcome_tree import (
    run_all_outcomes,
)
from bellhop.circuits.backends.compiled.differentiable.state_primitives import HANDLE
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Executor, Outcomes
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.seeds import random_effect
from bellhop.compiler.batching import map_sequentially, sequential_batch
from bellhop.compiler.compile_timing import add_note
from bellhop.compiler.invalid_results import check_debug_flags
from bellhop.compiler.lower_in_jax_jit import lower_as_program
from bellhop.compiler.lowering_context import (
    allow_bellhop_dialects,
    current_lowering,
    override_lowering_state,
)
from bellhop.jaxprs.equations import iterate_equations
from bellhop.mesh.manual_axes import vary_types_like
from bellhop.tracing.dce import register_droppable
from bellhop_mlir.dialects import quantum

circuit_p = Primitive("quantum_circuit")
circuit_p.multiple_results = True


@dataclass(frozen=True, eq=False)
class CircuitBody:
    """The jaxpr of a circuit, with the device and the options that run it.

    It is a static parameter of the primitive ``circuit_p``: made for each traced QNode call, and
    copied with another jaxpr for each derivative.

    Attributes:
        closed: the jaxpr, from state handle and inputs to state handle and results. If results are
            summed over runs (``Outcomes.is_summed``), the jaxpr of one run with one combination of
            outcomes.
        name: the QNode's name.
        where: the QNode's name and line, for errors.
        site: ``file:line`` of the call.
        device: the device that runs the circuit.
        traced_plan: how the circuit is executed, without the choice between engine and plugin.
        derivative_order: how many times the circuit has been differentiated. If it is positive, the
            runtime records the gates.
        make_differentiable_jaxpr: None, or a function that returns a jaxpr with the same results as
            ``closed``. The circuit's derivative is then the derivative of the returned jaxpr, which
            is written in forward mode and so can be differentiated again.
    """

    closed: ClosedJaxpr
    name: str
    where: str
    site: str
    device: DeviceSpec
    traced_plan: ExecutionPlan
    derivative_order: int = 0
    make_differentiable_jaxpr: Callable[[], ClosedJaxpr] | None = None

    @functools.cached_property
    def obstacle(self) -> str:
        """The reason why the device's plugin runs the circuit instead of Bellhop's engine.

        It is empty if the engine, Bellhop's own simulator, runs the circuit.
        """
        return find_engine_obstacle(
            self.closed, self.device, self.derivative_order, self.traced_plan.outcomes
        )

    @property
    def outcomes(self) -> Outcomes:
        """How the circuit treats random outcomes: for instance none, sampled, or summed over."""
        return self.traced_plan.outcomes

    @functools.cached_property
    def plan(self) -> ExecutionPlan:
        """The executor of the circuit and its settings: `traced_plan` with engine or plugin chosen.

        If all final measurements are differentiated by the same method, the plan names that method.
        """
        executor = Executor.PLUGIN if self.obstacle else Executor.ENGINE
        plan = replace(self.traced_plan, executor=executor, reason=self.obstacle)
        methods = {
            eqn.params["measuring"].differentiation.method
            for eqn in iterate_equations(self.closed.jaxpr)
            if eqn.primitive is measure_p
        }
        return replace(plan, diff_method=methods.pop()) if len(methods) == 1 else plan

    @property
    def result_avals(self) -> list[Any]:
        """The abstract values of the results, without the handle."""
        return self.closed.out_avals[1:]

    def replace_jaxpr(self, closed: ClosedJaxpr) -> "CircuitBody":
        """Return a copy of this body with another jaxpr of the same types."""
        return replace(self, closed=closed)

    def __repr__(self) -> str:
        return str(self.closed.jaxpr)


hold_weakly_in_caches(CircuitBody)
register_droppable(circuit_p)


@circuit_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Aval, body: CircuitBody, batch: Batch | None) -> tuple[list[Any], Any]:
    """Return the types of a circuit's results (without the handle), and its effects.

    In a batch, the results have rows in front. The effects are the quantum function's, such as
    prints, and a random effect if the circuit draws outcomes or samples.
    """
    # The effects of the quantum function, such as a print, are effects of the circuit.
    effects = body.closed.effects
    if body.outcomes.is_drawn:
        effects = effects | {random_effect}
    return vary_types_like(
        avals, [add_row_axis(aval, batch) for aval in body.result_avals]
    ), effects


@circuit_p.def_impl
def _run_eagerly(*inputs: Any, **params: Any) -> Any:
    """Compile and run a circuit that is bound outside of a trace.

    It is compiled as a whole, under ``jax.disable_jit`` too.

    Args:
        *inputs: arrays, the inputs of the circuit.
        **params: the parameters ``body`` and ``batch`` of the primitive.

    Raises:
        FloatingPointError: for a NaN or infinity in the results that ``jax_debug_nans`` or
            ``jax_debug_infs`` forbids.
    """
    # A circuit is compiled as a whole under ``jax.disable_jit`` too.  The debugging flags are off
    # because ``jax.debug_nans`` would call this function again without ``jax.jit``.
    with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
        results = jax.jit(lambda *args: circuit_p.bind(*args, **params))(*inputs)
    check_debug_flags(params["body"].where, results)
    return results


def _batch(
    operands: Sequence[Operand],
    dims: Sequence[int | None],
    *,
    body: CircuitBody,
    batch: Batch | None,
) -> tuple[list[Any], list[int]]:
    """Batching rule of a circuit: bind one circuit with a row for each element of the axis.

    Two kinds of circuits run one element after another instead: circuits that draw outcomes of
    mid-circuit measurements, since outcomes differ from element to element, and circuits with
    effects that depend on the element, since effects must keep their order. Circuits that run once
    for each combination of outcomes are batched only if the engine runs them. An axis without
    elements gives empty results, and no circuit.

    Args:
        operands: the inputs of the circuit.
        dims: the mapped axis of each input; None if it is not mapped.
        body: the circuit of one row.
        batch: the rows that the circuit has already, from an inner ``vmap``; None if it has none.

    Returns:
        the results and their mapped axes.

    Raises:
        CompileError: if the results of the batch are too large for the memory.
    """
    outcomes = body.outcomes
    is_straight = not outcomes.is_mid_circuit or (outcomes is Outcomes.ALL and not body.obstacle)
    has_rows = batch.is_mapped if batch else [False] * len(dims)
    mapped = [dim is not None or by_row for dim, by_row in zip(dims, has_rows, strict=True)]
    if not is_straight or has_row_dependent_effects(body.closed, mapped):
        outs, axes = sequential_batch(circuit_p, operands, dims, body=body, batch=batch)
        _check_results_fit(outs, body)
        return outs, axes
    all_rows, inputs = merge_batch(batch, operands, dims)
    if all_rows.size == 0:
        outs = [jnp.zeros(add_row_axis(a, all_rows).shape, a.dtype) for a in body.result_avals]
    else:
        outs = circuit_p.bind(*inputs, body=body, batch=all_rows)
    if batch is not None:
        elements = all_rows.size // batch.size
        outs = [out.reshape(elements, batch.size, *out.shape[1:]) for out in outs]
    _check_results_fit(outs, body)
    return outs, [0] * len(outs)


def _check_results_fit(results: Sequence[Any], body: CircuitBody) -> None:
    """Raise a `CompileError` if the results of a batch are too large for the memory.

    Args:
        results: the batch's results, each with the axis of rows in front.
        body: the circuit, for the error and its number of qubits.
    """
    for result in results:
        rows, *shape = result.shape
        MemoryCheck(body.where, rows).check_result(tuple(shape), result.dtype, body.device.qubits)


batching.primitive_batchers[circuit_p] = _batch


def _lower(
    ctx: mlir.LoweringRuleContext, *operands: Any, body: CircuitBody, batch: Batch | None
) -> Any:
    """Lower a circuit to ``quantum.begin``, a call of its body and ``quantum.end``.

    A batch is lowered with its body mapped over the rows, or as a loop over (groups of) rows if the
    rows cannot run together or need too much memory. In a plain ``jax.jit``, which Bellhop does not
    lower, the circuit becomes a separate program.

    Returns:
        MLIR values of the results, without the handle.
    """
    lowering = current_lowering()
    if lowering is None:
        params = {"body": body, "batch": batch}
        return lower_as_program(ctx, circuit_p, operands, params, f"circuit {body.name}")
    closed, device, outcomes = body.closed, body.device, body.outcomes
    if batch is not None:
        vectorized = vectorize_rows(closed, batch)
        rows_per_call = 1 if vectorized is None else count_rows_per_call(closed)
        if vectorized is None or rows_per_call < batch.size:
            bind_row, size = functools.partial(circuit_p.bind, body=body, batch=None), rows_per_call
            loop = lambda *inputs: map_sequentially(
                bind_row, inputs, batch.is_mapped, batch_size=None if size == 1 else size
            )
            return mlir.lower_fun(loop, multiple_results=True)(ctx, *operands)
        closed = vectorized
    allow_bellhop_dialects(ctx)
    add_note(f"{body.name} ({body.site}) is executed by the {body.plan}")
    is_drawn = outcomes.is_drawn
    seeds = quantum.seed([], circuit=lowering.next_random_circuit_index()) if is_drawn else []
    (state,) = quantum.begin(
        [*seeds, *operands],
        library=device.library,
        factory=device.factory,
        kwargs=device.kwargs,
        qubits=device.qubits,
        shots=device.shots,
        record=choose_record_mode(closed) if body.derivative_order else 0,
        tree=outcomes.get_outcome_code(body.derivative_order),
        seeded=is_drawn,
        rows=0 if batch is None else batch.size,
        engine=not body.obstacle,
        backend=str(body.plan),
        precision=device.precision,
        name=body.name,
        site=body.site,
    )

    inner = ctx.replace(
        primitive=None, avals_in=[HANDLE, *ctx.avals_in], avals_out=[HANDLE, *ctx.avals_out]
    )
    symbol = f"circuit_{body.name}" + "_recorded" * bool(body.derivative_order)
    if outcomes.is_summed:
        closed = run_all_outcomes(closed)
    with override_lowering_state(records=bool(body.derivative_order)):
        state, *results = mlir.core_call_lowering(
            inner, state, *operands, name=symbol, call_jaxpr=lower_high_primitives(closed)
        )
    if inner.tokens_out is not None:
        ctx.set_tokens_out(inner.tokens_out)
    quantum.end([state])
    return results


mlir.register_lowering(circuit_p, _lower, cacheable=False)
