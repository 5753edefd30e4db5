"""Circuits that run once for each combination of outcomes of their mid-circuit measurements.

The jaxpr of one run, ``once``, of ``qml.RX(x, 0); measure(0); return qml.expval(qml.Z(0))``::

    { lambda ; state x. let
        state = quantum_gates[RX] state [x] 0 []
        state outcome = quantum_mid_measure state 0
        state p value = quantum_measure[(Expval(I), Expval(Z))] state [] [] [x]
      in (state, p, value) }

and that of all runs, ``through_tree(once)``, whose results are the sums over the runs::

    state p value _ = while[
      cond={ lambda ; state p value more. let in (more,) }
      body={ lambda x; state p value more. let
          state p1 value1 = once state x
          state more counts = quantum_restart state
        in (state, add p p1, add value value1, more) }
    ] x state 0.0 0.0 True

A run projects the state on its outcomes without normalizing it.  So the squared norm is the
probability of these outcomes, and each value has that probability as a factor.

Residuals, and how many runs there are, depend on outcomes.  So each run computes its own derivative
(``run_with_derivative``), a Jacobian of fixed shape, and Jacobians are summed like values.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.base.equations import equations_of, evaluate, read
from bellhop.circuits.derivatives.dynamic_count import (
    after_p,
    dynamic_count_tangent_p,
    recalling,
    recalls_outcomes,
)
from bellhop.circuits.derivatives.tangents import split
from bellhop.circuits.operations.measurement_primitives import directional_derivative_p
from bellhop.circuits.operations.state_primitives import HANDLE, gates_p, mid_measure_p, restart_p
from bellhop.control_flow.repeated_effects import repeated_effects_error, without_repeated
from bellhop.control_flow.reverse_mode import reverse_mode_of_loops
from bellhop.control_flow.unused_values import without_unused


def through_tree(once: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr of all runs, whose results are the sums of those of one run."""

    def run(state: tuple[Any, list[Any], Any], *inputs: Any) -> tuple[Any, list[Any], Any]:
        handle, sums, _ = state
        handle, *values = eval_jaxpr(once.jaxpr, once.consts, handle, *inputs)
        handle, more, _ = restart_p.bind(handle)
        return handle, [sum_ + value for sum_, value in zip(sums, values, strict=True)], more

    def runs(handle: Any, *inputs: Any) -> list[Any]:
        zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in once.out_avals[1:]]
        handle, sums, _ = jax.lax.while_loop(
            lambda state: state[2],
            lambda state: run(state, *inputs),
            (handle, zeros, jnp.array(True)),
        )
        return [handle, *sums]

    return jax.make_jaxpr(runs)(*_structs(once.in_avals))


def run_with_derivative(
    known: ClosedJaxpr,
    linear: ClosedJaxpr,
    n_out: int,
    n_tangents: int,
    where: str,
    *,
    forward: bool = False,
) -> ClosedJaxpr:
    """Return the jaxpr of a run that also returns its Jacobian, from its linearization.

    Args:
        known: takes handle and inputs; returns handle, values and residuals.
        linear: takes residuals and tangents; returns the tangents of values, which are real.
        n_out: how many of the results of ``known`` are handle and values.
        n_tangents: how many of the inputs of ``linear`` are tangents.
        where: the QNode and its line, for errors.
        forward: whether the Jacobian must be in forward mode, which can be differentiated again.

    Returns:
        takes handle and inputs; returns handle, values, and for each value that has a tangent and
        each real part of a tangent a Jacobian, ``[*value.shape, *tangent.shape]``.
    """
    n_residuals = len(linear.in_avals) - n_tangents
    likes = _structs(linear.in_avals[n_residuals:])
    keep = [False] * n_residuals + [True] * n_tangents
    # Equations with effects survive DCE, and with them what they depend on: gates, for one.
    linear = without_repeated(recalling(linear), known, where)
    linear, are_used = without_unused(linear, [True] * len(linear.out_avals), keep)
    if any(eqn.primitive in (gates_p, mid_measure_p) for eqn in equations_of(linear.jaxpr)):
        raise repeated_effects_error(where)
    reads_session = recalls_outcomes(linear) or any(
        eqn.primitive is dynamic_count_tangent_p for eqn in equations_of(linear.jaxpr)
    )
    forward |= any(
        eqn.primitive is directional_derivative_p and not eqn.params["is_kept"]
        for eqn in equations_of(linear.jaxpr)
    )

    def run(handle: Any, *inputs: Any) -> list[Any]:
        handle, *results = eval_jaxpr(known.jaxpr, known.consts, handle, *inputs)
        residuals = results[len(results) - n_residuals :]
        residuals = [value for value, yes in zip(residuals, are_used, strict=False) if yes]
        values = results[: n_out - 1]
        if reads_session:
            # A handle among the residuals must not be read before the circuit has run.
            residuals = [
                after_p.bind(value, handle) if _is_handle(value) else value for value in residuals
            ]

        zeros = [jnp.zeros(x.shape) for x in likes for _ in range(2 if _is_complex(x) else 1)]
        sizes = [sum(x.size for x in side) for side in (zeros, values)]

        def derivatives(*residuals: Any) -> list[Any]:
            def of_parts(parts: Sequence[Any]) -> list[Any]:
                wholes = _joined(parts, likes)
                return list(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *wholes))

            if forward or sizes[0] <= sizes[1]:
                return _by_columns(of_parts, zeros)
            return _by_rows(of_parts, zeros, linear.out_avals, where)

        if not reads_session:
            return [handle, *values, *derivatives(*residuals)]
        found, reads = _with_all_that_is_read(derivatives, residuals)
        return [after_p.bind(handle, *reads), *values, *found]

    return jax.make_jaxpr(run)(*_structs(known.in_avals))


def _with_all_that_is_read(
    function: Callable[..., list[Any]], inputs: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the results of a function, and everything that it reads from sessions, used or not.

    A read that nothing depends on might be scheduled after the end of the circuit.
    """
    closed = jax.make_jaxpr(function)(*inputs)
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))
    evaluate(jaxpr, jaxpr.eqns, values)
    reads = [
        values[var]
        for eqn in jaxpr.eqns
        if any(_is_handle(atom.aval) for atom in eqn.invars)
        for var in eqn.outvars
    ]
    return [read(atom, values) for atom in jaxpr.outvars], reads


def _by_columns(function: Callable[..., Sequence[Any]], inputs: Sequence[Any]) -> list[Any]:
    """Return the Jacobians of a linear function, by forward mode."""
    shapes = [x.shape for x in inputs]
    tangents = split(jnp.eye(sum(map(math.prod, shapes))), shapes)
    found = jax.vmap(function, out_axes=-1)(tangents)
    return [part for of_output in found for part in split(of_output, shapes)]


def _by_rows(
    function: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    results: Sequence[Any],
    where: str,
) -> list[Any]:
    """Return the Jacobians of a linear function with real results, by reverse mode."""
    shapes = [aval.shape for aval in results]
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    rows = split(jnp.eye(ends[-1]), shapes)
    cotangents = [row.astype(aval.dtype) for row, aval in zip(rows, results, strict=True)]
    with reverse_mode_of_loops(where):
        transpose = jax.linear_transpose(function, inputs)
        (found,) = jax.vmap(transpose)(cotangents)
    return [
        of_input[start:end].reshape(*aval.shape, *of_input.shape[1:])
        for (start, end), aval in zip(itertools.pairwise(ends), results, strict=True)
        for of_input in found
    ]


def apply_derivative(
    derivatives: Sequence[Any], tangents: Sequence[Any], n_values: int
) -> list[Any]:
    """Return the tangents of values, from the Jacobians of ``run_with_derivative``."""
    parts = [part for tangent in tangents for part in _parts(tangent)]
    by_value = [derivatives[i * len(parts) : (i + 1) * len(parts)] for i in range(n_values)]
    return [
        sum(jnp.tensordot(d, part, jnp.ndim(part)) for d, part in zip(row, parts, strict=True))
        for row in by_value
    ]


def _parts(tangent: Any) -> list[Any]:
    """Return an array as real arrays: itself, or real and imaginary part."""
    return [jnp.real(tangent), jnp.imag(tangent)] if _is_complex(tangent) else [tangent]


def _joined(parts: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    rest = iter(parts)
    wholes = [next(rest) + 1j * next(rest) if _is_complex(x) else next(rest) for x in like]
    return [whole.astype(x.dtype) for whole, x in zip(wholes, like, strict=True)]


def _is_complex(value: Any) -> bool:
    return jnp.issubdtype(jax.dtypes.result_type(value), jnp.complexfloating)


def _is_handle(value: Any) -> bool:
    return value.shape == HANDLE.shape and value.dtype == HANDLE.dtype


def _structs(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
