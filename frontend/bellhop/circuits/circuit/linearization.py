"""Calls of circuits, and how they are linearized.

A circuit is linearized as one that also returns its Jacobian, and a product with that after it.
Reverse mode wants one row of that product only.  Where the circuit has more values than a few, and
the engine has their VJP, ``jax.grad(loss)(x)`` of its probabilities becomes ::

    probs = quantum_circuit[body={ lambda ; state x. let ... quantum_measure ... } ...] x
    ... the loss, and back to the cotangents of the probabilities ...
    x_bar = quantum_circuit[
      body={ lambda ; state x probs_bar. let
          ...
          state angle_bar = quantum_measure[query=VJP ...] ... probs_bar
          x_bar = mul 2.0 angle_bar
        in (state, x_bar) }
    ] x probs_bar

Until it is transposed, the linear part is a ``LinearMap``.  In forward mode it is computed by the
Jacobian after all.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr
from jax.interpreters import ad

from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop._jax.patches.reverse_mode_of_loops import differentiate_loops
from bellhop.base.types import Handle, Operand
from bellhop.callbacks.linear_map import LinearMap
from bellhop.circuits.circuit.batch import Batch
from bellhop.circuits.circuit.circuit_primitive import CircuitBody, circuit_p
from bellhop.circuits.circuit.linearized import Linearized, tangents_of
from bellhop.circuits.circuit.randomness import OUTCOMES_ARE_DRAWN, Randomness
from bellhop.circuits.derivatives.differentiation import undifferentiable_gates
from bellhop.circuits.derivatives.score import has_score
from bellhop.circuits.operations.measurement_primitives import is_vjp, measure_p
from bellhop.control_flow.unused_values import without_unused
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.apart_from_axes import apart_from_axes
from bellhop.mesh.manual_axes import vary_with

# Up to here the Jacobian costs less than to run the circuit again with cotangents.
_FEW_VALUES = 4


def bind(body: CircuitBody, inputs: Sequence[Operand], *, batch: Batch | None = None) -> list[Any]:
    """Bind the primitive: run a circuit.

    Args:
        body: takes the handle of a fresh state and the inputs; returns the handle after the last
            operation, and the results.
        inputs: arrays; of a batch, the inputs of all rows.
        batch: the rows, if it is a batch.
    """
    # JAX is patched here, since JAX applies the rules of transformations before it evaluates the
    # abstract value.
    keep_effects_in_loops()
    differentiate_loops()
    return circuit_p.bind(*vary_with(inputs, inputs), body=body, batch=batch)


def _linearized(body: CircuitBody, given: Sequence[bool], obstacle: str) -> Linearized:
    """Linearize the body of one circuit.

    Args:
        body: the body.
        given: for each input, whether it has a tangent.
        obstacle: why gates have no derivative; empty where they have one.
    """
    try:
        with undifferentiable_gates(obstacle):
            return Linearized.of(body.closed if body.again is None else body.again(), given)
    except DifferentiableCompileError as error:
        if error.where:
            raise
        raise DifferentiableCompileError(f"{body.where}: {error}") from error


def _obstacle(body: CircuitBody) -> str:
    has_derivative = not body.randomness.has_drawn_outcomes or has_score(body.closed)
    return "" if has_derivative else OUTCOMES_ARE_DRAWN


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    body: CircuitBody,
    batch: Batch | None,
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    vjp = _vjp(body, nonzero)
    if vjp is None:
        return _with_residuals(primals, tangents, body, batch)
    results = bind(body, primals, batch=batch)
    static: dict[str, Any] = {"body": body, "batch": batch}
    linear = LinearMap(
        transpose=functools.partial(_pulled_back, vjp=vjp, given=nonzero, batch=batch),
        evaluate=functools.partial(_pushed_forward, vjp=vjp, given=nonzero, **static),
        saved=len(primals),
        result_avals=tuple(
            jax.typeof(result).to_tangent_aval()
            for result in itertools.compress(results, vjp.moved)
        ),
        of=static,
    )
    dots = linear(primals, list(itertools.compress(tangents, nonzero)))
    return results, tangents_of(results, dots, vjp.moved)


def _with_residuals(
    primals: Sequence[Operand], tangents: Sequence[Any], body: CircuitBody, batch: Batch | None
) -> tuple[list[Any], list[Any]]:
    """Linearize a circuit: bind one that also returns residuals, and linear equations after it.

    The linear equations have no quantum operations, so JAX transposes and batches them as usual.
    Of a batch, the body of one row is linearized, and the linear equations are mapped by ``vmap``.
    """
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    linearized = _linearized(body, nonzero, _obstacle(body))
    closed, evaluate, again = linearized.with_residuals(
        body.where, is_summed=body.randomness is Randomness.TREE, is_mapped=batch is not None
    )
    n_results = len(body.result_avals)
    given = list(itertools.compress(tangents, nonzero))
    outs = bind(_differentiated(body, closed, again), primals, batch=batch)
    results, residuals = outs[:n_results], outs[n_results:]
    if batch is not None:
        axes = [axis for axis, yes in zip(batch.axes, nonzero, strict=True) if yes]
        evaluate = jax.vmap(evaluate, in_axes=(0, axes), axis_size=batch.rows)
    dots = apart_from_axes(evaluate)(residuals, given)
    return results, tangents_of(results, dots, linearized.moved)


def _differentiated(
    body: CircuitBody, closed: ClosedJaxpr, again: Callable[[], ClosedJaxpr] | None
) -> CircuitBody:
    """Return a circuit that is made of a body's derivative."""
    return replace(body, closed=closed, again=again, derivative_order=body.derivative_order + 1)


ad.primitive_jvps[circuit_p] = _jvp


class _Vjp(NamedTuple):
    """The VJP of a circuit.

    Attributes:
        body: takes the circuit's inputs, and the cotangents of the results that have tangents.
        moved: for each result, whether it has one.
    """

    body: CircuitBody
    moved: tuple[bool, ...]


def _ended_by_vjp(transposed: ClosedJaxpr) -> ClosedJaxpr | None:
    """Let a transposed circuit measure what is read, and then its VJP; None if it has several."""
    jaxpr = transposed.jaxpr
    vjps = list(filter(is_vjp, jaxpr.eqns))
    if len(vjps) != 1:
        return None
    (vjp,) = vjps

    def after(handle: Handle) -> ClosedJaxpr:
        moved = vjp.replace(invars=[handle, *vjp.invars[1:]])
        eqns = [moved if eqn is vjp else eqn for eqn in jaxpr.eqns]
        outvars = [vjp.outvars[0], *jaxpr.outvars[1:]]
        closed = ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outvars), transposed.consts)
        return without_unused(closed, [True] * len(outvars), [True] * len(closed.in_avals))[0]

    ended = after(vjp.invars[0])
    if sum(eqn.primitive is measure_p for eqn in ended.jaxpr.eqns) == 1:
        return ended
    return after(next(eqn for eqn in jaxpr.eqns if eqn.primitive is measure_p).outvars[0])


def _vjp(body: CircuitBody, given: tuple[bool, ...]) -> _Vjp | None:
    """Return the VJP of a circuit; None where the Jacobian is the better way, or the only one."""
    closed = body.closed
    measured = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive is measure_p]
    is_straight = body.randomness is Randomness.NONE and not (body.again or closed.effects)
    if not is_straight or len(measured) != 1:
        return None
    measuring = measured[0].params["measuring"]
    if not measuring.differentiation.has_vjp or sum(measuring.sizes()) <= _FEW_VALUES:
        return None
    by_vjp = measured[0].replace(params={**measured[0].params, "measuring": measuring.by_vjp()})
    eqns = [by_vjp if eqn is measured[0] else eqn for eqn in closed.jaxpr.eqns]
    by_vjp_alone = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    linearized = _linearized(replace(body, closed=by_vjp_alone), given, "")
    vjp = _ended_by_vjp(linearized.transposed(body.where))
    if vjp is None:
        return None

    def again() -> ClosedJaxpr:
        return _linearized(body, given, "").transposed(body.where)

    return _Vjp(_differentiated(body, vjp, again), linearized.moved)


def _pushed_forward(
    primals: Sequence[Operand],
    moving: Sequence[Any],
    *,
    body: CircuitBody,
    batch: Batch | None,
    vjp: _Vjp,
    given: Sequence[bool],
) -> list[Any]:
    """Return the tangents of the results that have some, by the Jacobian."""
    _, dots = _with_residuals(primals, tangents_of(primals, moving, given), body, batch)
    return list(map(ad.instantiate_zeros, itertools.compress(dots, vjp.moved)))


def _pulled_back(
    primals: Sequence[Operand],
    bars: Sequence[Any],
    *,
    batch: Batch | None,
    vjp: _Vjp,
    given: Sequence[bool],
) -> list[Any]:
    """Return the cotangents of the inputs that have tangents."""
    rows = batch and Batch(batch.rows, (*batch.mapped, *(True for _ in bars)))
    found = bind(vjp.body, [*primals, *bars], batch=rows)
    if batch is None:
        return found
    # All rows share what is not mapped.
    of_rows = itertools.compress(batch.mapped, given)
    return [bar if yes else bar.sum(0) for bar, yes in zip(found, of_rows, strict=True)]
