"""The jaxpr of a circuit or of a run, split into what is computed with it and what is linear.

JAX's own JVP of ::

    { lambda ; state x. let
        angle = mul 2.0 x
        state = quantum_gates[RX] state [angle] 0 []
        state value = quantum_measure[Expval(Z)] state [] [] [angle]
      in (state, value) }

falls into ``known``, which also returns residuals (here the Jacobian), and ``linear``, which has no
quantum operations::

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
    """A jaxpr from handle and inputs to handle and values, split by what is known.

    Attributes:
        known: takes handle and inputs; returns handle, values and residuals.
        linear: takes residuals and tangents; returns the tangents of values.
        n_residuals: how many residuals there are.
        out_perturbed: for each value, whether it has a tangent.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    n_residuals: int
    out_perturbed: tuple[bool, ...]

    @classmethod
    def from_jaxpr(cls, closed: ClosedJaxpr, in_perturbed: Sequence[bool]) -> "LinearizedJaxpr":
        """Linearize.

        Args:
            closed: from handle and inputs to handle and values.
            in_perturbed: for each input, whether it has a tangent.
        """
        with leave_mesh(()):
            jvp, moved = jvp_jaxpr(closed, [False, *in_perturbed], instantiate=False)
            if not any(moved[1:]):
                # JAX leaves loops with effects, and all they do, among the linear equations.
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
        """Return the jaxpr of the values and of what their tangents need.

        Args:
            where: the QNode and its line, for errors.
            is_summed: whether the results of several runs are added up.
            is_mapped: whether the tangents are those of a batch, which are mapped by ``vmap``.

        Returns:
            what takes handle and inputs, and returns handle, values and residuals; what takes
            residuals and the given tangents, and returns the tangents of values; and None, or a
            function that returns a jaxpr with the same results as the first, which is
            differentiated in its place.
        """
        known, linear, n_residuals, moved = self
        if is_mapped:
            linear = rewrite(linear, {cond_p: _select_branch})
        if not linear.out_avals or not (is_summed or has_dynamic_loop(linear)):

            def evaluate_tangents(
                residuals: Sequence[Any], tangents: Sequence[Any]
            ) -> Sequence[Any]:
                return list(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents))

            return known, evaluate_tangents, None
        # Runs that are summed have residuals of their own, and in loops of dynamic length residuals
        # have no static shape. So a run itself computes its derivative, and returns that.
        n_out, n_tangents = len(known.out_avals) - n_residuals, len(linear.in_avals) - n_residuals
        derived = functools.partial(add_jacobian, known, linear, n_out, n_tangents, where)
        closed = derived()
        again = functools.partial(derived, forward=True) if has_session_reads(closed) else None
        return closed, functools.partial(apply_jacobian, n_values=sum(moved)), again

    def make_vjp_jaxpr(self, where: str) -> ClosedJaxpr:
        """Return what takes handle, inputs and cotangents, and returns those of the inputs.

        Args:
            where: the QNode and its line, for errors.
        """
        linear = self.linear

        def pull_back(residuals: Sequence[Any], bars: Sequence[Any]) -> Any:
            def push_forward(*tangents: Any) -> Any:
                return eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents)

            likes = to_structs(linear.in_avals[self.n_residuals :])
            with enable_while_transpose(where):
                return jax.linear_transpose(push_forward, *likes)(list(bars))

        return self._append_function(pull_back, linear.out_avals)

    def make_jvp_jaxpr(self) -> ClosedJaxpr:
        """Return what takes handle, inputs and tangents, and returns handle and tangents."""
        rules = {linear_map_p: _evaluate_linear_map}

        def push_forward(residuals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            return interpret(self.linear, rules, *residuals, *tangents)

        return self._append_function(push_forward, self.linear.in_avals[self.n_residuals :])

    def _append_function(self, end: Callable[..., Any], avals: Sequence[Any]) -> ClosedJaxpr:
        """Return what takes handle, inputs and others, and returns handle and what an end does.

        Args:
            end: takes residuals and the others.
            avals: the types of these.
        """
        known = self.known
        n_known = len(known.in_avals)

        def run(*args: Any) -> list[Any]:
            handle, *results = eval_jaxpr(known.jaxpr, known.consts, *args[:n_known])
            return [handle, *end(results[len(results) - self.n_residuals :], args[n_known:])]

        return jax.make_jaxpr(run)(*to_structs([*known.in_avals, *avals]))


def _evaluate_linear_map(eqn: JaxprEqn, *operands: Operand) -> list[Any]:
    linear = eqn.params["linear"]
    return linear.evaluate(*linear.split(operands))


def _select_branch(eqn: JaxprEqn, index: Any, *operands: Operand) -> list[Any]:
    """Compute all branches of a conditional in linear equations, and select.

    JAX cannot transpose what ``vmap`` makes of a conditional on a residual: it stops gradients by
    tangents, so that the branch that is not taken does no harm.
    """
    each = [eval_jaxpr(b.jaxpr, b.consts, *operands) for b in eqn.params["branches"]]
    return [jax.lax.select_n(index, *cases) for cases in zip(*each, strict=True)]
