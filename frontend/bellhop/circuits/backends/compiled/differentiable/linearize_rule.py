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
          state both = quantum_measure[query=JACOBIAN_JVP ...] ... angles angles_dot
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
from bellhop.circuits.backends.compiled.differentiable.batch import Batch
from bellhop.circuits.backends.compiled.differentiable.circuit_primitive import (
    CircuitBody,
    circuit_p,
)
from bellhop.circuits.backends.compiled.differentiable.jvp_rules import forbid_gate_derivatives
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasureOperands,
    Query,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import has_score
from bellhop.circuits.backends.compiled.differentiable.split_linear import LinearizedJaxpr
from bellhop.circuits.backends.compiled.differentiable.vjp_circuit import build_product_circuit
from bellhop.circuits.ir.randomness import OUTCOMES_ARE_DRAWN, Randomness
from bellhop.circuits.ir.seeds import random_effect
from bellhop.circuits.ir.tangents import fill_zero_tangents
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.manual_axes import vary_like
from bellhop.mesh.unvarying_call import wrap_unvarying
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations

# Up to here the Jacobian costs less than to run the circuit again with cotangents.
_MAX_JACOBIAN_VALUES = 4
# Of n parameters, the Hessian costs as much as n divided by this of its products.
_HESSIAN_COST = 3


def bind_circuit(
    body: CircuitBody, inputs: Sequence[Operand], *, batch: Batch | None = None
) -> list[Any]:
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


def _linearize(body: CircuitBody, given: Sequence[bool], obstacle: str) -> LinearizedJaxpr:
    """Linearize the body of one circuit.

    Args:
        body: the body.
        given: for each input, whether it has a tangent.
        obstacle: why gates have no derivative; empty where they have one.
    """
    try:
        with forbid_gate_derivatives(obstacle):
            return LinearizedJaxpr.from_jaxpr(
                body.closed
                if body.make_differentiable_jaxpr is None
                else body.make_differentiable_jaxpr(),
                given,
            )
    except DifferentiableCompileError as error:
        if error.where:
            raise
        raise DifferentiableCompileError(f"{body.where}: {error}") from error


def _find_obstacle(body: CircuitBody) -> str:
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
    products = _find_products(body, batch, nonzero)
    if products is None:
        return _linearize_with_residuals(primals, tangents, body, batch)
    results = bind_circuit(body, primals, batch=batch)
    given = list(itertools.compress(tangents, nonzero))
    linear = LinearMap(
        transpose=products.pull_back,
        evaluate=products.multiply_jacobian,
        saved=len(primals),
        result_avals=tuple(
            jax.typeof(result).to_tangent_aval()
            for result in itertools.compress(results, products.out_perturbed)
        ),
        circuit_params={"body": body, "batch": batch},
    )
    if products.jvp_body is not None:
        # That of several values is along as many directions: their Hessians cost less.
        likes = to_structs(map(jax.typeof, given))

        def transpose(saved: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            by_jacobian = functools.partial(products.multiply_jacobian, saved)
            (found,) = jax.linear_transpose(by_jacobian, likes)(bars)
            return found

        as_matrix = replace(linear, transpose=transpose)
        linear = replace(
            as_matrix if products.vjp_body is None else linear,
            evaluate=products.push_forward,
            as_matrix=as_matrix,
            n_tangents=products.max_tangents,
        )
    dots = linear(primals, given)
    return results, fill_zero_tangents(results, dots, products.out_perturbed)


def _linearize_with_residuals(
    primals: Sequence[Operand], tangents: Sequence[Any], body: CircuitBody, batch: Batch | None
) -> tuple[list[Any], list[Any]]:
    """Linearize a circuit: bind one that also returns residuals, and linear equations after it.

    The linear equations have no quantum operations, so JAX transposes and batches them as usual.
    Of a batch, the body of one row is linearized, and the linear equations are mapped by ``vmap``.
    """
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    linearized = _linearize(body, nonzero, _find_obstacle(body))
    closed, evaluate, again = linearized.make_residual_jaxpr(
        body.where, is_summed=body.randomness.is_summed, is_mapped=batch is not None
    )
    n_results = len(body.result_avals)
    given = list(itertools.compress(tangents, nonzero))
    outs = bind_circuit(_make_derivative_body(body, closed, again), primals, batch=batch)
    results, residuals = outs[:n_results], outs[n_results:]
    if batch is not None:
        axes = [axis for axis, yes in zip(batch.axes, nonzero, strict=True) if yes]
        evaluate = jax.vmap(evaluate, in_axes=(0, axes), axis_size=batch.size)
    dots = wrap_unvarying(evaluate)(residuals, given)
    return results, fill_zero_tangents(results, dots, linearized.out_perturbed)


def _make_derivative_body(
    body: CircuitBody, closed: ClosedJaxpr, again: Callable[[], ClosedJaxpr] | None
) -> CircuitBody:
    """Return a circuit that is made of a body's derivative."""
    return replace(
        body,
        closed=closed,
        make_differentiable_jaxpr=again,
        derivative_order=body.derivative_order + 1,
    )


ad.primitive_jvps[circuit_p] = _jvp


@dataclass(frozen=True, eq=False)
class _LinearProducts:
    """The products with a circuit's derivative, each a circuit of one sweep.

    Attributes:
        body: that of the circuit.
        batch: its rows, if it is a batch.
        in_perturbed: for each input, whether it has a tangent.
        out_perturbed: for each result, whether it has a tangent.
        vjp_body: takes the circuit's inputs, and the cotangents of the results that have tangents;
            None where these are better brought through the Jacobian.
        jvp_body: takes the inputs, and the tangents of those that have one; None where the Jacobian
            is to be had.
        max_tangents: how many products with a Hessian cost more than to compute it.
    """

    body: CircuitBody
    batch: Batch | None
    in_perturbed: tuple[bool, ...]
    out_perturbed: tuple[bool, ...]
    vjp_body: CircuitBody | None
    jvp_body: CircuitBody | None
    max_tangents: int

    def multiply_jacobian(
        self, primals: Sequence[Operand], tangents_in: Sequence[Any]
    ) -> list[Any]:
        """Return the tangents of the results that have some, by the Jacobian."""
        tangents = fill_zero_tangents(primals, tangents_in, self.in_perturbed)
        _, dots = _linearize_with_residuals(primals, tangents, self.body, self.batch)
        return list(map(ad.instantiate_zeros, itertools.compress(dots, self.out_perturbed)))

    def push_forward(self, primals: Sequence[Operand], moving: Sequence[Any]) -> list[Any]:
        """Return the same by one sweep."""
        assert self.jvp_body is not None
        batch = self.batch
        if batch is not None:
            of_tangents = itertools.compress(batch.is_mapped, self.in_perturbed)
            batch = Batch(batch.size, (*batch.is_mapped, *of_tangents))
        return bind_circuit(self.jvp_body, [*primals, *moving], batch=batch)

    def pull_back(self, primals: Sequence[Operand], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the inputs that have tangents."""
        assert self.vjp_body is not None
        batch = self.batch
        rows = batch and Batch(batch.size, (*batch.is_mapped, *(True for _ in cotangents)))
        found = bind_circuit(self.vjp_body, [*primals, *cotangents], batch=rows)
        if batch is None:
            return found
        # All rows share what is not mapped.
        of_rows = itertools.compress(batch.is_mapped, self.in_perturbed)
        return [bar if yes else bar.sum(0) for bar, yes in zip(found, of_rows, strict=True)]


def _find_products(
    body: CircuitBody, batch: Batch | None, given: tuple[bool, ...]
) -> _LinearProducts | None:
    """Return the products of a circuit; None where the Jacobian is better, or the only way."""
    # A VJP is differentiated as the product with the Jacobian that it is.
    closed, other = body.closed, body.make_differentiable_jaxpr
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
        is_cheaper = len(each) == 1 and each[0].has_only_expvals
    else:
        is_cheaper = sum(sum(measuring.list_sizes()) for measuring in each) > _MAX_JACOBIAN_VALUES
    if not (is_cheaper and all(measuring.differentiation.has_vjp for measuring in each)):
        return None
    eqns = list(map(_use_single_pass, closed.jaxpr.eqns))
    swept = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    linearized = _linearize(replace(body, closed=swept, make_differentiable_jaxpr=None), given, "")

    def make_product(build_jaxpr: Callable[[LinearizedJaxpr], ClosedJaxpr]) -> CircuitBody | None:
        ended = build_product_circuit(build_jaxpr(linearized))
        again = lambda: build_jaxpr(_linearize(body, given, ""))
        return None if ended is None else _make_derivative_body(body, ended, again)

    one_sweep = not is_second or len(each[0].measurements) == 1
    back = (
        make_product(lambda linearized: linearized.make_vjp_jaxpr(body.where))
        if one_sweep
        else None
    )
    along = make_product(LinearizedJaxpr.make_jvp_jaxpr) if is_second else None
    if (back if one_sweep else along) is None:
        return None
    many = MeasureOperands.from_equation(measured[0]).params.aval.shape[-1] // _HESSIAN_COST
    return _LinearProducts(body, batch, given, linearized.out_perturbed, back, along, many)


def _use_single_pass(eqn: JaxprEqn) -> JaxprEqn:
    if eqn.primitive is not measure_p:
        return eqn
    return eqn.replace(
        params={**eqn.params, "measuring": eqn.params["measuring"].use_single_pass()}
    )
