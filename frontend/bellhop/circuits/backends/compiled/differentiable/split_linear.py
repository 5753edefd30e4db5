"""Linearize a circuit's jaxpr, and split it into a nonlinear and a linear part.

JAX's JVP of ::

    { lambda ; state x. let
        angle = mul 2.0 x
        state = quantum_gates[RX] state [angle] 0 []
        state value = quantum_measure[Expval(Z)] state [] [] [angle]
      in (state, value) }

is split into ``known``, which also returns residuals (here the Jacobian), and ``linear``, which has
no quantum operations::

    { lambda ; state x. let
        ...
        state value jacobian = quantum_measure[query=JACOBIAN] ...
      in (state, value, jacobian) }
    { lambda ; jacobian x_dot. let ... value_dot = dot_general jacobian angle_dot in (value_dot,) }
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.extend.core.primitives import cond_p

from bellhop._jax.jaxprs import jvp_jaxpr, partial_eval_jaxpr_nounits
from bellhop.base.types import Operand, to_structs
from bellhop.callbacks.linear_map import linear_map_p
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import has_session_reads
from bellhop.circuits.backends.compiled.differentiable.outcome_tree import (
    add_jacobian,
    apply_jacobian,
)
from bellhop.control_flow.while_loop_vjp import enable_while_transpose, has_dynamic_loop
from bellhop.jaxprs.jaxpr_interpreter import interpret, rewrite
from bellhop.mesh.explicit_mesh import leave_mesh


class LinearizedJaxpr(NamedTuple):
    """The JVP of a circuit's jaxpr, split by partial evaluation with known primals.

    Rules of the circuit primitive make an instance by `from_jaxpr`, and build the jaxprs of
    derivatives from it.

    Attributes:
        known: takes state handle and inputs; returns state handle, values and residuals.
        linear: takes residuals and the tangents of perturbed inputs; returns the tangents of
            perturbed values.
        n_residuals: the number of residuals.
        out_perturbed: for each value, whether it has a tangent.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    n_residuals: int
    out_perturbed: tuple[bool, ...]

    @classmethod
    def from_jaxpr(cls, closed: ClosedJaxpr, in_perturbed: Sequence[bool]) -> "LinearizedJaxpr":
        """Return the linearization of a circuit's jaxpr, split into its two parts.

        Args:
            closed: the jaxpr, from state handle and inputs to state handle and values.
            in_perturbed: for each input (without the handle), whether it has a tangent.
        """
        with leave_mesh(()):
            jvp, moved = jvp_jaxpr(closed, [False, *in_perturbed], instantiate=False)
            if not any(moved[1:]):
                # JAX would keep loops with effects, and their bodies, in the linear equations.
                tangents = itertools.compress(closed.in_avals[1:], in_perturbed)
                nothing = jax.make_jaxpr(lambda *_: [])(*to_structs(tangents))
                return cls(closed, nothing, 0, tuple(moved[1:]))
            known, linear, _, residuals = partial_eval_jaxpr_nounits(
                jvp,
                [False] * (1 + len(in_perturbed)) + [True] * sum(in_perturbed),
                instantiate=[False] * len(closed.out_avals) + [True] * sum(moved),
            )
        return cls(known, linear, len(residuals), tuple(moved[1:]))

    def make_residual_jaxpr(
        self, where: str, *, is_summed: bool = False, is_mapped: bool = False
    ) -> tuple[ClosedJaxpr, Callable[..., Sequence[Any]], Callable[[], ClosedJaxpr] | None]:
        """Return the jaxpr of the circuit with residuals, and a function for tangents.

        Args:
            where: the QNode and its line, for errors.
            is_summed: whether the results of several runs are added up.
            is_mapped: whether ``vmap`` maps the function, for the rows of a batch.

        Returns:
            a tuple of three. First, a jaxpr that takes state handle and inputs, and returns state
            handle, values and residuals; Jacobians in place of residuals if `is_summed`, or if the
            linear part has a loop with a dynamic trip count. Second, a function ``(residuals,
            tangents of perturbed inputs) -> tangents of perturbed values``. Third, None, or a
            function without arguments that makes a jaxpr with the same results as the first, which
            JAX can differentiate once more instead of the first.
        """
        known, linear, n_residuals, out_perturbed = self
        if is_mapped:
            linear = rewrite(linear, {cond_p: _select_branch})
        if not linear.out_avals or not (is_summed or has_dynamic_loop(linear)):

            def evaluate_tangents(
                residuals: Sequence[Any], tangents: Sequence[Any]
            ) -> Sequence[Any]:
                """Evaluate the linear part: tangents of perturbed values, from residuals."""
                return list(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents))

            return known, evaluate_tangents, None
        # Residuals of runs that are summed differ from run to run, and residuals in loops with a
        # dynamic trip count have no static shape.  So each run computes and returns its Jacobian.
        n_out, n_tangents = len(known.out_avals) - n_residuals, len(linear.in_avals) - n_residuals
        make_jaxpr = functools.partial(add_jacobian, known, linear, n_out, n_tangents, where)
        closed = make_jaxpr()
        make_forward = (
            functools.partial(make_jaxpr, forward=True) if has_session_reads(closed) else None
        )
        return closed, functools.partial(apply_jacobian, n_values=sum(out_perturbed)), make_forward

    def make_vjp_jaxpr(self, where: str) -> ClosedJaxpr:
        """Return the jaxpr that runs the circuit and computes its VJP.

        It takes state handle, inputs and the cotangents of perturbed values; it returns state
        handle and the cotangents of perturbed inputs.

        Args:
            where: the QNode and its line, for errors.
        """
        linear = self.linear

        def pull_back(residuals: Sequence[Any], bars: Sequence[Any]) -> Any:
            """Return the perturbed inputs' cotangents, from residuals and values' cotangents."""

            def push_forward(*tangents: Any) -> Any:
                """Evaluate the linear part at the residuals, for ``jax.linear_transpose``."""
                return eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents)

            likes = to_structs(linear.in_avals[self.n_residuals :])
            with enable_while_transpose(where):
                return jax.linear_transpose(push_forward, *likes)(list(bars))

        return self._append_function(pull_back, linear.out_avals)

    def make_jvp_jaxpr(self) -> ClosedJaxpr:
        """Return the jaxpr that runs the circuit and computes its JVP.

        It takes state handle, inputs and the tangents of perturbed inputs; it returns state handle
        and the tangents of perturbed values. Each `LinearMap` in the linear part is replaced by its
        evaluation.
        """
        rules = {linear_map_p: _evaluate_linear_map}

        def push_forward(residuals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            """Evaluate the linear part, with the evaluation rule of each `LinearMap`."""
            return interpret(self.linear, rules, *residuals, *tangents)

        return self._append_function(push_forward, self.linear.in_avals[self.n_residuals :])

    def _append_function(self, end: Callable[..., Any], avals: Sequence[Any]) -> ClosedJaxpr:
        """Return a jaxpr that runs the known part and then a function of its residuals.

        It takes state handle, inputs and the further arguments, and returns state handle and the
        results of `end`.

        Args:
            end: ``end(residuals, arguments)``, which returns a list of results.
            avals: the types of the further arguments.
        """
        known = self.known
        n_known = len(known.in_avals)

        def run(*args: Any) -> list[Any]:
            """Run the known part, and then `end` with its residuals and the further arguments."""
            handle, *results = eval_jaxpr(known.jaxpr, known.consts, *args[:n_known])
            return [handle, *end(results[len(results) - self.n_residuals :], args[n_known:])]

        return jax.make_jaxpr(run)(*to_structs([*known.in_avals, *avals]))


def _evaluate_linear_map(eqn: JaxprEqn, *operands: Operand) -> list[Any]:
    """Replace a `LinearMap` equation by its evaluation; a rule for `interpret`."""
    linear = eqn.params["linear"]
    return linear.evaluate(*linear.split(operands))


def _select_branch(eqn: JaxprEqn, index: Any, *operands: Operand) -> list[Any]:
    """Evaluate all branches of a ``cond`` equation; select the results of branch ``index``.

    This rule replaces ``cond`` in the linear part of a batched circuit, as JAX cannot transpose the
    batched form of a conditional whose predicate is a residual.
    """
    branch_results = [eval_jaxpr(b.jaxpr, b.consts, *operands) for b in eqn.params["branches"]]
    return [jax.lax.select_n(index, *cases) for cases in zip(*branch_results, strict=True)]
