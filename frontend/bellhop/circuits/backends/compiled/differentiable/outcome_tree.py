"""Run circuits once for each combination of outcomes of mid-circuit measurements.

For ``qml.RX(x, 0); m = measure(0); qml.RY(m * x, 1); return qml.expval(qml.Z(0))``, the jaxpr of
one run, ``once``, is ::

    { lambda ; state x. let
        state = quantum_gates[RX] state [x] 0 []
        state outcome = quantum_call[operation=mid_measure] state 0
        angle = mul outcome x
        state = quantum_gates[RY] state [angle] 1 []
        state value = quantum_measure[Expval(Z)] state [] [] [x angle]
      in (state, value) }

``run_all_outcomes(once)`` is the jaxpr of all runs, whose results are sums over the runs.  Here
``once`` abbreviates the equations of one run::

    state value _ = while[
      cond={ lambda ; state value more. let in (more,) }
      body={ lambda x; state value more. let
          state value1 = once state x
          state more counts = quantum_call[operation=restart] state
          value = add value value1
        in (state, value, more) }
    ] x state 0.0 True

A run projects the state on its outcomes and does not normalize it.  So each value has the
probability of these outcomes as a factor.  A circuit that postselects measures the squared norm
too, and the sum of the other values is divided by the sum of the squared norms.

The number of runs is not known when the program is traced, so residuals of all runs would have no
static shape.  Therefore each run computes its own Jacobian, which has a static shape
(``add_jacobian``).  The Jacobians are summed as values are.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop._jax.jaxprs import bind_equation
from bellhop.base.types import Handle, to_structs
from bellhop.callbacks.linear_map import has_only_transpose
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import read_saved_outcomes
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import derivative_p
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    HANDLE,
    call,
    gates_p,
    has_handle_operand,
    is_call,
    is_handle,
    restart_run,
)
from bellhop.circuits.ir.tangents import split_last_axis
from bellhop.control_flow.rematerialized_effects import (
    remove_duplicate_effects,
    repeated_effects_error,
)
from bellhop.control_flow.while_loop_vjp import enable_while_transpose
from bellhop.jaxprs.equations import iterate_equations
from bellhop.jaxprs.jaxpr_interpreter import interpret_with
from bellhop.tracing.dce import eliminate_dead_code


def run_all_outcomes(once: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr that runs a circuit once for each combination of mid-circuit outcomes.

    Args:
        once: the jaxpr of one run, from state handle and inputs to state handle and results. The
            results have the probability of the run's mid-circuit outcomes as a factor.

    Returns:
        a jaxpr with the same types, whose results are sums over all runs.
    """

    def run(state: tuple[Any, list[Any], Any], *inputs: Any) -> tuple[Any, list[Any], Any]:
        """Run `once` and add its results to the sums; the body of the loop over runs.

        Args:
            state: the handle, the sums of results so far, and whether this run is to be done.
            *inputs: the inputs of the circuit.

        Returns:
            the same three values for the next run.
        """
        handle, sums, _ = state
        handle, *values = eval_jaxpr(once.jaxpr, once.consts, handle, *inputs)
        handle, more, _ = restart_run(handle)
        return handle, [sum_ + value for sum_, value in zip(sums, values, strict=True)], more

    def runs(handle: Handle, *inputs: Any) -> list[Any]:
        """Run `once` for each combination of outcomes; return last handle and sums."""
        zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in once.out_avals[1:]]
        handle, sums, _ = jax.lax.while_loop(
            lambda state: state[2],
            lambda state: run(state, *inputs),
            (handle, zeros, jnp.array(True)),
        )
        return [handle, *sums]

    return jax.make_jaxpr(runs)(*to_structs(once.in_avals))


def add_jacobian(
    known: ClosedJaxpr,
    linear: ClosedJaxpr,
    n_out: int,
    n_tangents: int,
    where: str,
    *,
    forward: bool = False,
) -> ClosedJaxpr:
    """Return the jaxpr of a run that also computes its Jacobian.

    A Jacobian has a static shape, in contrast to the residuals of an unknown number of runs or
    iterations.

    Args:
        known: the nonlinear part: takes state handle and inputs; returns state handle, values and
            residuals.
        linear: the linear part: takes residuals and tangents of inputs; returns tangents of values,
            which are real.
        n_out: the number of results of ``known`` before the residuals, with the handle.
        n_tangents: the number of inputs of ``linear`` after the residuals.
        where: the QNode and its line, for errors.
        forward: whether to use forward mode, so that the jaxpr can be differentiated again. If
            False, the mode is chosen: forward if the linear part has ``quantum_derivative``
            equations; else reverse if it has an equation that JAX can transpose but not evaluate;
            else the cheaper mode.

    Returns:
        a jaxpr that takes state handle and inputs. It returns state handle, values and Jacobians,
        each of shape ``[*value.shape, *tangent.shape]``: for each value with a tangent, one
        Jacobian for each real tangent, and two (by real and imaginary part) for each complex
        tangent.

    Raises:
        DifferentiableCompileError: if the linear part would apply gates or measure again.
    """
    n_residuals = len(linear.in_avals) - n_tangents
    likes = to_structs(linear.in_avals[n_residuals:])
    keep = [False] * n_residuals + [True] * n_tangents
    # DCE keeps equations with effects and everything that they depend on, which may be gates.  So
    # the effects are removed first; ``known`` has the same effects.
    linear = remove_duplicate_effects(read_saved_outcomes(linear), known, where)
    linear, are_used = eliminate_dead_code(linear, [True] * len(linear.out_avals), keep)
    equations = list(iterate_equations(linear.jaxpr))
    if any(eqn.primitive is gates_p or is_call(eqn, "mid_measure") for eqn in equations):
        raise repeated_effects_error(where)
    reads_session = any(map(has_handle_operand, equations))
    forward |= any(eqn.primitive is derivative_p for eqn in equations)
    reverse = any(map(has_only_transpose, equations))

    def run(handle: Handle, *inputs: Any) -> list[Any]:
        """Run the nonlinear part; return state handle, values and Jacobians.

        `add_jacobian` traces this function to the jaxpr that it returns.
        """
        handle, *results = eval_jaxpr(known.jaxpr, known.consts, handle, *inputs)
        residuals = results[len(results) - n_residuals :]
        residuals = [value for value, yes in zip(residuals, are_used, strict=False) if yes]
        values = results[: n_out - 1]
        if reads_session:
            # A residual may be a handle of the circuit.  No equation may read from the session by
            # this handle before the last gate is applied.
            residuals = [
                call("after", [value, handle], HANDLE)[0] if is_handle(value) else value
                for value in residuals
            ]

        zeros = [jnp.zeros(x.shape) for x in likes for _ in range(2 if _is_complex(x) else 1)]
        sizes = [sum(x.size for x in side) for side in (zeros, values)]

        def compute_derivatives(*residuals: Any) -> list[Any]:
            """Return the Jacobians of the linear part at the residuals, in order of values."""

            def evaluate_parts(parts: Sequence[Any]) -> list[Any]:
                """Evaluate the linear part; complex tangents are given as two real parts."""
                wholes = _join_complex(parts, likes)
                return list(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *wholes))

            if forward or (sizes[0] <= sizes[1] and not reverse):
                return _compute_jacobian_forward(evaluate_parts, zeros)
            return _compute_jacobian_reverse(evaluate_parts, zeros, linear.out_avals, where)

        if not reads_session:
            return [handle, *values, *compute_derivatives(*residuals)]
        derivatives, reads = _collect_session_reads(compute_derivatives, residuals)
        (handle,) = call("after", [handle, *reads], HANDLE)
        return [handle, *values, *derivatives]

    return jax.make_jaxpr(run)(*to_structs(known.in_avals))


def _collect_session_reads(
    function: Callable[..., list[Any]], inputs: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Evaluate a function, and collect all values that it reads from the runtime.

    The runtime keeps these values until the circuit ends. So the caller makes the end of the
    circuit depend on them. Otherwise XLA might schedule a read, even an unused read, after the end.

    Args:
        function: a function of arrays that returns a list of arrays.
        inputs: its arguments.

    Returns:
        the results of the function; and the results of all equations that take a state handle.
    """
    reads: list[Any] = []

    def read(eqn: JaxprEqn, *operands: Any) -> Sequence[Any]:
        """Bind an equation; if it takes a state handle, append its results to ``reads``."""
        results = bind_equation(eqn, *operands)
        if has_handle_operand(eqn):
            reads.extend(results)
        return results

    return interpret_with(jax.make_jaxpr(function)(*inputs), lambda _: read, *inputs), reads


def _compute_jacobian_forward(
    function: Callable[..., Sequence[Any]], inputs: Sequence[Any]
) -> list[Any]:
    """Return the Jacobians of a linear function, by calling it on all unit vectors.

    Args:
        function: takes and returns lists of arrays.
        inputs: real arrays with the shapes of its arguments; the values do not matter.

    Returns:
        a flat list: for the first result, one Jacobian ``[*result.shape, *input.shape]`` for each
        input; then the Jacobians of the second result, and so on.
    """
    shapes = [x.shape for x in inputs]
    tangents = split_last_axis(jnp.eye(sum(map(math.prod, shapes))), shapes)
    columns = jax.vmap(function, out_axes=-1)(tangents)
    return [part for column in columns for part in split_last_axis(column, shapes)]


def _compute_jacobian_reverse(
    function: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    results: Sequence[Any],
    where: str,
) -> list[Any]:
    """Return the Jacobians of a linear function with real results, by reverse mode.

    Args:
        function: takes and returns lists of arrays.
        inputs: real arrays with the shapes and types of its arguments; the values do not matter.
        results: the types of its results.
        where: the QNode and its line, for errors.

    Returns:
        for each result, a Jacobian ``[*result.shape, *input.shape]`` for each input.
    """
    shapes = [aval.shape for aval in results]
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    rows = split_last_axis(jnp.eye(ends[-1]), shapes)
    cotangents = [row.astype(aval.dtype) for row, aval in zip(rows, results, strict=True)]
    with enable_while_transpose(where):
        transpose = jax.linear_transpose(function, inputs)
        (input_bars,) = jax.vmap(transpose)(cotangents)
    return [
        input_bar[start:end].reshape(*aval.shape, *input_bar.shape[1:])
        for (start, end), aval in zip(itertools.pairwise(ends), results, strict=True)
        for input_bar in input_bars
    ]


def apply_jacobian(derivatives: Sequence[Any], tangents: Sequence[Any], n_values: int) -> list[Any]:
    """Multiply the Jacobians of ``add_jacobian`` with tangents.

    Args:
        derivatives: the Jacobians, in the order in which ``add_jacobian`` returns them.
        tangents: the tangents of the inputs, real or complex.
        n_values: the number of values that have a tangent.

    Returns:
        the tangents of these values.
    """
    parts = [part for tangent in tangents for part in _split_complex(tangent)]
    by_value = [derivatives[i * len(parts) : (i + 1) * len(parts)] for i in range(n_values)]
    return [
        sum(jnp.tensordot(d, part, jnp.ndim(part)) for d, part in zip(row, parts, strict=True))
        for row in by_value
    ]


def _split_complex(tangent: Any) -> list[Any]:
    """Return real and imaginary part of a complex array, or a real array as it is."""
    return [jnp.real(tangent), jnp.imag(tangent)] if _is_complex(tangent) else [tangent]


def _join_complex(parts: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Return arrays joined from real and imaginary parts, with the dtypes of ``like``.

    Args:
        parts: for each complex element of `like` two real arrays, for each real element one.
        like: arrays or types.
    """
    rest = iter(parts)
    wholes = [next(rest) + 1j * next(rest) if _is_complex(x) else next(rest) for x in like]
    return [whole.astype(x.dtype) for whole, x in zip(wholes, like, strict=True)]


def _is_complex(value: Any) -> bool:
    return jnp.issubdtype(jax.dtypes.result_type(value), jnp.complexfloating)
