"""Bind circuits, and define how JAX differentiates them.

The linearization of a circuit is a circuit that also returns its Jacobian, followed by a product
with the Jacobian.  Reverse mode needs a single row of that product.  If the circuit has more than a
few values, and the engine supports their VJP, ``jax.grad(loss)(x)`` of its probabilities becomes ::

    probs = quantum_circuit[body={ lambda ; state x. let ... quantum_measure ... } ...] x
    ... the loss, and back to the cotangents of the probabilities ...
    x_bar = quantum_circuit[
      body={ lambda ; state x probs_bar. let
          ...
          state angle_bar = quantum_measure[query=VJP ...] ... probs_bar
          x_bar = mul 2.0 angle_bar
        in (state, x_bar) }
    ] x probs_bar

Until it is transposed, the linear part is a ``LinearMap``.  Forward mode evaluates the
``LinearMap`` with the Jacobian.

The gradient of expectation values is linearized in the same way.  The product of a Hessian with a
vector takes one adjoint sweep: of one value in forward and in reverse mode.  So
``jax.jvp(jax.grad(f), (x,), (v,))`` becomes ::

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

from bellhop._jax.patches.checkpoint_rng import patch_while_checkpoint
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
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.seeds import random_effect
from bellhop.circuits.ir.tangents import fill_zero_tangents
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.manual_axes import vary_like
from bellhop.mesh.unvarying_call import wrap_unvarying
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations

# With at most this many values, the Jacobian costs less than running the circuit again with
# cotangents.
_MAX_JACOBIAN_VALUES = 4
# With n parameters, the Hessian costs as much as n / _HESSIAN_COST Hessian-vector products.
_HESSIAN_COST = 3


def bind_circuit(
    body: CircuitBody, inputs: Sequence[Operand], *, batch: Batch | None = None
) -> list[Any]:
    """Bind the circuit primitive and return the circuit's results.

    It also applies patches of JAX that the primitive's rules need.

    Args:
        body: the circuit: its jaxpr takes the handle of a fresh state and the inputs, and returns
            the handle after the last operation, and the results.
        inputs: arrays; of a batch, the inputs of all rows.
        batch: the rows; None without a batch.

    Returns:
        an array for each result of the circuit, without the handle; with rows in front in a batch.
    """
    # The patches are applied here and not in the rules, since JAX applies the rules of
    # transformations before it evaluates the abstract value.
    keep_effects_in_loops()
    forbid_calls_in_operations()
    patch_while_jvp()
    patch_while_checkpoint(random_effect)
    return circuit_p.bind(*vary_like(inputs, inputs), body=body, batch=batch)


def _linearize(body: CircuitBody, has_tangent: Sequence[bool], obstacle: str) -> LinearizedJaxpr:
    """Linearize the jaxpr of one row of a circuit.

    Args:
        body: the circuit; its `make_differentiable_jaxpr` is used if it has one.
        has_tangent: for each input, whether it has a tangent.
        obstacle: why gates have no derivative; empty if they have one.

    Returns:
        the jaxpr, split into a part with all quantum operations and a linear part.

    Raises:
        DifferentiableCompileError: if the circuit has no derivative; it names the QNode.
    """
    try:
        with forbid_gate_derivatives(obstacle):
            return LinearizedJaxpr.from_jaxpr(
                body.closed
                if body.make_differentiable_jaxpr is None
                else body.make_differentiable_jaxpr(),
                has_tangent,
            )
    except DifferentiableCompileError as error:
        if error.where:
            raise
        raise DifferentiableCompileError(f"{body.where}: {error}") from error


def _find_obstacle(body: CircuitBody) -> str:
    """Return the error message if the gates of a circuit have no derivative; else "".

    The gates have no derivative if the circuit draws mid-circuit outcomes in each run and does not
    return its score, a zero whose tangent is the tangent of the outcomes' log-probability.
    """
    if not body.outcomes.is_drawn_in_each_run or has_score(body.closed):
        return ""
    # A run for each shot has one shot, also if postselection repeats it.
    is_shot = body.outcomes is not Outcomes.ONE_RUN and body.device.shots == 1
    return Outcomes.DRAWN_ERROR if is_shot else Outcomes.DRAWN_ONCE_ERROR


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    body: CircuitBody,
    batch: Batch | None,
) -> tuple[list[Any], list[Any]]:
    """JVP rule of the circuit primitive.

    Tangents are computed from the Jacobian, or, if it is cheaper, as products (VJPs or
    Hessian-vector products) that one pass of the adjoint method computes.

    Returns:
        the results and their tangents, which JAX can transpose.
    """
    nonzero = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    products = _find_products(body, batch, nonzero)
    if products is None:
        return _linearize_with_residuals(primals, tangents, body, batch)
    results = bind_circuit(body, primals, batch=batch)
    perturbed_tangents = list(itertools.compress(tangents, nonzero))
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
        # The transpose with several values would need one direction for each value, so their
        # Hessians cost less.
        likes = to_structs(map(jax.typeof, perturbed_tangents))

        def transpose(saved: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            """Multiply cotangents with the transposed Jacobian at the saved inputs."""
            by_jacobian = functools.partial(products.multiply_jacobian, saved)
            (input_bars,) = jax.linear_transpose(by_jacobian, likes)(bars)
            return input_bars

        as_matrix = replace(linear, transpose=transpose)
        linear = replace(
            as_matrix if products.vjp_body is None else linear,
            evaluate=products.push_forward,
            as_matrix=as_matrix,
            n_tangents=products.max_tangents,
        )
    result_tangents = linear(primals, perturbed_tangents)
    return results, fill_zero_tangents(results, result_tangents, products.out_perturbed)


def _linearize_with_residuals(
    primals: Sequence[Operand], tangents: Sequence[Any], body: CircuitBody, batch: Batch | None
) -> tuple[list[Any], list[Any]]:
    """Bind a circuit that also returns residuals, and compute tangents from the residuals.

    The equations for the tangents have no quantum operations, so JAX transposes and batches them as
    usual. In a batch, the body of one row is linearized, and ``vmap`` maps the linear equations.

    Args:
        primals: the inputs of the circuit.
        tangents: their tangents, some of them symbolic zeros.
        body: the circuit.
        batch: the rows; None without a batch.

    Returns:
        the results and their tangents.

    Raises:
        DifferentiableCompileError: if the circuit has no derivative.
    """
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents]
    linearized = _linearize(body, nonzero, _find_obstacle(body))
    closed, evaluate, make_differentiable_jaxpr = linearized.make_residual_jaxpr(
        body.where, is_summed=body.outcomes.is_summed, is_mapped=batch is not None
    )
    n_results = len(body.result_avals)
    perturbed_tangents = list(itertools.compress(tangents, nonzero))
    outs = bind_circuit(
        _make_derivative_body(body, closed, make_differentiable_jaxpr), primals, batch=batch
    )
    results, residuals = outs[:n_results], outs[n_results:]
    if batch is not None:
        axes = [axis for axis, yes in zip(batch.axes, nonzero, strict=True) if yes]
        evaluate = jax.vmap(evaluate, in_axes=(0, axes), axis_size=batch.size)
    result_tangents = wrap_unvarying(evaluate)(residuals, perturbed_tangents)
    return results, fill_zero_tangents(results, result_tangents, linearized.out_perturbed)


def _make_derivative_body(
    body: CircuitBody,
    closed: ClosedJaxpr,
    make_differentiable_jaxpr: Callable[[], ClosedJaxpr] | None,
) -> CircuitBody:
    """Return a circuit's body with the jaxpr of its derivative, one order higher.

    Args:
        body: the circuit that is differentiated.
        closed: the jaxpr of the derivative.
        make_differentiable_jaxpr: makes a jaxpr with the same results as `closed`, which is
            differentiated in place of `closed` for the next order; None to differentiate `closed`.
    """
    return replace(
        body,
        closed=closed,
        make_differentiable_jaxpr=make_differentiable_jaxpr,
        derivative_order=body.derivative_order + 1,
    )


ad.primitive_jvps[circuit_p] = _jvp


@dataclass(frozen=True, eq=False)
class _LinearProducts:
    """Products with a circuit's derivative, each computed by a circuit with one sweep.

    A sweep is one pass of the adjoint method through all gates. The JVP rule of the circuit
    primitive makes an instance, whose methods become the rules of a `LinearMap`.

    Attributes:
        body: the circuit.
        batch: the circuit's rows, if it is batched.
        in_perturbed: for each input, whether it has a tangent.
        out_perturbed: for each result, whether it has a tangent.
        vjp_body: takes the circuit's inputs and the cotangents of the perturbed results; returns
            the cotangents of the perturbed inputs. None if the Jacobian is better.
        jvp_body: takes the inputs and the tangents of the perturbed inputs; returns the tangents of
            the perturbed results. None if the Jacobian is better.
        max_tangents: the number of Hessian-vector products that cost as much as the Hessian.
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
        """Return the tangents of the perturbed results, computed with the Jacobian.

        Args:
            primals: the inputs of the circuit.
            tangents_in: the tangents of the perturbed inputs only.
        """
        tangents = fill_zero_tangents(primals, tangents_in, self.in_perturbed)
        _, dots = _linearize_with_residuals(primals, tangents, self.body, self.batch)
        return list(map(ad.instantiate_zeros, itertools.compress(dots, self.out_perturbed)))

    def push_forward(self, primals: Sequence[Operand], tangents_in: Sequence[Any]) -> list[Any]:
        """Return the tangents of the perturbed results, computed by one adjoint sweep.

        Only with a `jvp_body`: the circuit returns a gradient, and the tangents are Hessian-vector
        products.

        Args:
            primals: the inputs of the circuit.
            tangents_in: the tangents of the perturbed inputs only.
        """
        assert self.jvp_body is not None
        batch = self.batch
        if batch is not None:
            tangents_mapped = itertools.compress(batch.is_mapped, self.in_perturbed)
            batch = Batch(batch.size, (*batch.is_mapped, *tangents_mapped))
        return bind_circuit(self.jvp_body, [*primals, *tangents_in], batch=batch)

    def pull_back(self, primals: Sequence[Operand], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the perturbed inputs, computed by one adjoint sweep.

        Only with a `vjp_body`. In a batch, cotangents of inputs that all rows share are summed over
        rows.

        Args:
            primals: the inputs of the circuit.
            cotangents: the cotangents of the perturbed results only.
        """
        assert self.vjp_body is not None
        batch = self.batch
        rows = batch and Batch(batch.size, (*batch.is_mapped, *(True for _ in cotangents)))
        input_bars = bind_circuit(self.vjp_body, [*primals, *cotangents], batch=rows)
        if batch is None:
            return input_bars
        # All rows share an input that is not mapped, so its cotangents are summed.
        is_mapped = itertools.compress(batch.is_mapped, self.in_perturbed)
        return [bar if yes else bar.sum(0) for bar, yes in zip(input_bars, is_mapped, strict=True)]


def _find_products(
    body: CircuitBody, batch: Batch | None, has_tangent: tuple[bool, ...]
) -> _LinearProducts | None:
    """Return the products with a circuit's derivative, if they cost less than its Jacobian.

    A product, such as a VJP, takes one pass of the adjoint method through the gates.

    Args:
        body: the circuit.
        batch: the rows; None without a batch.
        has_tangent: for each input, whether it has a tangent.

    Returns:
        the products; None if the Jacobian costs less, if the engine does not support products, if
        they would run no adjoint pass, or if the circuit has mid-circuit outcomes, effects, or no
        final measurement.
    """
    # The derivative of a VJP is computed from the Jacobian, which has derivatives of any order.
    closed, differentiable = body.closed, body.make_differentiable_jaxpr
    if differentiable is not None and any(
        eqn.params.get("query") is Query.VJP for eqn in closed.jaxpr.eqns
    ):
        closed, differentiable = differentiable(), None
    measured = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive is measure_p]
    has_outcomes = body.outcomes.is_mid_circuit
    is_straight = not has_outcomes and not (differentiable or closed.effects)
    if not is_straight or not measured:
        return None
    measurement_sets = [eqn.params["measuring"] for eqn in measured]
    is_gradient = any(eqn.params["query"] is Query.JACOBIAN for eqn in measured)
    if is_gradient:
        is_cheaper = len(measurement_sets) == 1 and measurement_sets[0].has_only_expvals
    else:
        is_cheaper = (
            sum(sum(measuring.list_sizes()) for measuring in measurement_sets)
            > _MAX_JACOBIAN_VALUES
        )
    if not (
        is_cheaper and all(measuring.differentiation.has_vjp for measuring in measurement_sets)
    ):
        return None
    eqns = list(map(_use_single_pass, closed.jaxpr.eqns))
    single_pass = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    linearized = _linearize(
        replace(body, closed=single_pass, make_differentiable_jaxpr=None), has_tangent, ""
    )

    def make_product(build_jaxpr: Callable[[LinearizedJaxpr], ClosedJaxpr]) -> CircuitBody | None:
        """Return the circuit of one product; None if its jaxpr needs no adjoint sweep.

        Args:
            build_jaxpr: returns the jaxpr of the product (a VJP or JVP) of a linearized circuit.
        """
        product = build_product_circuit(build_jaxpr(linearized))
        make_differentiable_jaxpr = lambda: build_jaxpr(_linearize(body, has_tangent, ""))
        return (
            None
            if product is None
            else _make_derivative_body(body, product, make_differentiable_jaxpr)
        )

    one_sweep = not is_gradient or len(measurement_sets[0].measurements) == 1
    vjp_body = (
        make_product(lambda linearized: linearized.make_vjp_jaxpr(body.where))
        if one_sweep
        else None
    )
    jvp_body = make_product(LinearizedJaxpr.make_jvp_jaxpr) if is_gradient else None
    if (vjp_body if one_sweep else jvp_body) is None:
        return None
    max_tangents = MeasureOperands.from_equation(measured[0]).params.aval.shape[-1] // _HESSIAN_COST
    return _LinearProducts(
        body, batch, has_tangent, linearized.out_perturbed, vjp_body, jvp_body, max_tangents
    )


def _use_single_pass(eqn: JaxprEqn) -> JaxprEqn:
    """Mark a final measurement so that one adjoint pass computes its derivative.

    Its derivative is then a VJP or Hessian-vector product instead of a Jacobian. An equation that
    is not a final measurement is returned unchanged.
    """
    if eqn.primitive is not measure_p:
        return eqn
    return eqn.replace(
        params={**eqn.params, "measuring": eqn.params["measuring"].use_single_pass()}
    )
