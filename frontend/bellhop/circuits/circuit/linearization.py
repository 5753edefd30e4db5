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

The derivative of expectation values is linearized in the same way: the product of their Hessians
with a vector is one sweep too, of one value in both modes, so ``jax.jvp(jax.grad(f), (x,), (v,))``
becomes ::

    gradient_dot = quantum_circuit[
      body={ lambda ; state x v. let
          ...
          state both = quantum_measure[query=ALONG ...] ... angles angles_dot
          ... the chain rule, with the derivative of the angles by x ...
        in (state, value_dot, jacobian_dot) }
    ] x v
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.interpreters import ad

from bellhop._jax.patches.checkpoint_rng import draw_once_in_checkpoints
from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop._jax.patches.while_transpose import patch_while_jvp
from bellhop.base.types import Operand, to_structs
from bellhop.callbacks.linear_map import LinearMap
from bellhop.circuits.circuit.batch import Batch
from bellhop.circuits.circuit.circuit_primitive import CircuitBody, circuit_p
from bellhop.circuits.circuit.linearized import Linearized
from bellhop.circuits.circuit.randomness import OUTCOMES_ARE_DRAWN, Randomness
from bellhop.circuits.circuit.sweeps import ended_by_sweeps
from bellhop.circuits.derivatives.differentiation import undifferentiable_gates
from bellhop.circuits.derivatives.score import has_score
from bellhop.circuits.derivatives.tangents import tangents_of
from bellhop.circuits.operations.measurement_primitives import (
    MeasureOperands,
    Query,
    measure_p,
)
from bellhop.circuits.operations.seeds import random_effect
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.manual_axes import vary_like
from bellhop.mesh.unvarying_call import wrap_unvarying
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations

# Up to here the Jacobian costs less than to run the circuit again with cotangents.
_FEW_VALUES = 4
# Of n parameters, the Hessian costs as much as n divided by this of its products.
_HESSIANS = 3


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
    forbid_calls_in_operations()
    patch_while_jvp()
    draw_once_in_checkpoints(random_effect)
    return circuit_p.bind(*vary_like(inputs, inputs), body=body, batch=batch)


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
    has_derivative = not body.randomness.draws_for_each_shot or has_score(body.closed)
    return "" if has_derivative else OUTCOMES_ARE_DRAWN


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    body: CircuitBody,
    batch: Batch | None,
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    products = _products(body, batch, nonzero)
    if products is None:
        return _with_residuals(primals, tangents, body, batch)
    results = bind(body, primals, batch=batch)
    given = list(itertools.compress(tangents, nonzero))
    linear = LinearMap(
        transpose=products.pulled_back,
        evaluate=products.by_jacobian,
        saved=len(primals),
        result_avals=tuple(
            jax.typeof(result).to_tangent_aval()
            for result in itertools.compress(results, products.moved)
        ),
        circuit_params={"body": body, "batch": batch},
    )
    if products.along is not None:
        # That of several values is along as many directions: their Hessians cost less.
        likes = to_structs(map(jax.typeof, given))

        def transpose(saved: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            by_jacobian = functools.partial(products.by_jacobian, saved)
            (found,) = jax.linear_transpose(by_jacobian, likes)(bars)
            return found

        as_matrix = replace(linear, transpose=transpose)
        linear = replace(
            as_matrix if products.back is None else linear,
            evaluate=products.pushed_forward,
            as_matrix=as_matrix,
            n_tangents=products.many,
        )
    dots = linear(primals, given)
    return results, tangents_of(results, dots, products.moved)


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
        body.where, is_summed=body.randomness.is_summed, is_mapped=batch is not None
    )
    n_results = len(body.result_avals)
    given = list(itertools.compress(tangents, nonzero))
    outs = bind(_differentiated(body, closed, again), primals, batch=batch)
    results, residuals = outs[:n_results], outs[n_results:]
    if batch is not None:
        axes = [axis for axis, yes in zip(batch.axes, nonzero, strict=True) if yes]
        evaluate = jax.vmap(evaluate, in_axes=(0, axes), axis_size=batch.rows)
    dots = wrap_unvarying(evaluate)(residuals, given)
    return results, tangents_of(results, dots, linearized.moved)


def _differentiated(
    body: CircuitBody, closed: ClosedJaxpr, again: Callable[[], ClosedJaxpr] | None
) -> CircuitBody:
    """Return a circuit that is made of a body's derivative."""
    return replace(body, closed=closed, again=again, derivative_order=body.derivative_order + 1)


ad.primitive_jvps[circuit_p] = _jvp


@dataclass(frozen=True, eq=False)
class _Products:
    """The products with a circuit's derivative, each a circuit of one sweep.

    Attributes:
        body: that of the circuit.
        batch: its rows, if it is a batch.
        given: for each input, whether it has a tangent.
        moved: for each result, whether it has a tangent.
        back: takes the circuit's inputs, and the cotangents of the results that have tangents; None
            where these are better brought through the Jacobian.
        along: takes the inputs, and the tangents of those that have one; None where the Jacobian
            is to be had.
        many: how many products with a Hessian cost more than to compute it.
    """

    body: CircuitBody
    batch: Batch | None
    given: tuple[bool, ...]
    moved: tuple[bool, ...]
    back: CircuitBody | None
    along: CircuitBody | None
    many: int

    def by_jacobian(self, primals: Sequence[Operand], moving: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results that have some, by the Jacobian."""
        tangents = tangents_of(primals, moving, self.given)
        _, dots = _with_residuals(primals, tangents, self.body, self.batch)
        return list(map(ad.instantiate_zeros, itertools.compress(dots, self.moved)))

    def pushed_forward(self, primals: Sequence[Operand], moving: Sequence[Any]) -> list[Any]:
        """Return the same by one sweep."""
        assert self.along is not None
        batch = self.batch
        if batch is not None:
            of_tangents = itertools.compress(batch.mapped, self.given)
            batch = Batch(batch.rows, (*batch.mapped, *of_tangents))
        return bind(self.along, [*primals, *moving], batch=batch)

    def pulled_back(self, primals: Sequence[Operand], bars: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs that have tangents."""
        assert self.back is not None
        batch = self.batch
        rows = batch and Batch(batch.rows, (*batch.mapped, *(True for _ in bars)))
        found = bind(self.back, [*primals, *bars], batch=rows)
        if batch is None:
            return found
        # All rows share what is not mapped.
        of_rows = itertools.compress(batch.mapped, self.given)
        return [bar if yes else bar.sum(0) for bar, yes in zip(found, of_rows, strict=True)]


def _products(body: CircuitBody, batch: Batch | None, given: tuple[bool, ...]) -> _Products | None:
    """Return the products of a circuit; None where the Jacobian is better, or the only way."""
    # A VJP is differentiated as the product with the Jacobian that it is.
    closed, other = body.closed, body.again
    if other is not None and any(eqn.params.get("query") is Query.VJP for eqn in closed.jaxpr.eqns):
        closed, other = other(), None
    measured = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive is measure_p]
    of_runs = Randomness.NONE, Randomness.SAMPLES
    is_straight = body.randomness in of_runs and not (other or closed.effects)
    if not is_straight or not measured:
        return None
    each = [eqn.params["measuring"] for eqn in measured]
    is_second = any(eqn.params["query"] is Query.JACOBIAN for eqn in measured)
    if is_second:
        is_cheaper = len(each) == 1 and each[0].are_means
    else:
        is_cheaper = sum(sum(measuring.sizes()) for measuring in each) > _FEW_VALUES
    if not (is_cheaper and all(measuring.differentiation.has_vjp for measuring in each)):
        return None
    eqns = list(map(_by_sweep, closed.jaxpr.eqns))
    swept = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    linearized = _linearized(replace(body, closed=swept, again=None), given, "")

    def product(of: Callable[[Linearized], ClosedJaxpr]) -> CircuitBody | None:
        ended = ended_by_sweeps(of(linearized))
        again = lambda: of(_linearized(body, given, ""))
        return None if ended is None else _differentiated(body, ended, again)

    one_sweep = not is_second or len(each[0].measurements) == 1
    back = product(lambda linearized: linearized.transposed(body.where)) if one_sweep else None
    along = product(Linearized.pushed_forward) if is_second else None
    if (back if one_sweep else along) is None:
        return None
    many = MeasureOperands.of(measured[0]).params.aval.shape[-1] // _HESSIANS
    return _Products(body, batch, given, linearized.moved, back, along, many)


def _by_sweep(eqn: JaxprEqn) -> JaxprEqn:
    if eqn.primitive is not measure_p:
        return eqn
    return eqn.replace(params={**eqn.params, "measuring": eqn.params["measuring"].by_sweep()})
