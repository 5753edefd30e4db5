"""Represent an execution that draws outcomes as one differentiable equation.

A circuit that draws mid-circuit outcomes is executed once for each shot, in a loop over the shots.
If a circuit postselects, a shot is a loop of executions until one is accepted, and an execution may
contain loops whose trip count depends on outcomes.  JAX cannot transpose a ``while``, since its
residuals have no static shape.  But the residuals of the accepted execution have one.  So ::

    state is_accepted value = quantum_drawn_run[
      once={ lambda ; state x. let ... in (state, value) } until_accepted=True
    ] state x

is differentiated like a circuit: it also returns residuals, or the Jacobian of its values by its
inputs if the execution has loops itself (``split_linear``), and the linear equations come after it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, mlir

from bellhop._jax.jaxprs import dce
from bellhop.base.types import Handle, Operand, to_structs
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CompiledState
from bellhop.circuits.backends.compiled.differentiable.score_function import compute_score_means
from bellhop.circuits.backends.compiled.differentiable.split_linear import LinearizedJaxpr
from bellhop.circuits.ir.device_measurements import Frequencies
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import fill_zero_tangents
from bellhop.control_flow.while_loop_vjp import has_dynamic_loop
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero

# drawn_run: handle, inputs... -> handle, values...; with ``until_accepted``: handle, whether the
#   last run was accepted bool[], values...
_sampled_execution_p = Primitive("quantum_drawn_run")
_sampled_execution_p.multiple_results = True


def make_sampled_execution(once: ClosedJaxpr, where: str, *, until_accepted: bool) -> ClosedJaxpr:
    """Return the jaxpr of a run in a form that JAX can differentiate in reverse mode.

    If the run has loops with a dynamic trip count, or is repeated until accepted, it becomes one
    equation of a primitive with its own JVP rule. Any other run is returned unchanged.

    Args:
        once: the jaxpr of one run, from state handle and inputs to state handle and values.
        where: the QNode and its line, for errors.
        until_accepted: whether to repeat the run until a run is accepted (its postselections hold),
            or none can be.

    Returns:
        a jaxpr from state handle and inputs to state handle and values; with ``until_accepted``,
        whether the last run was accepted comes before the values.
    """
    if not until_accepted and not has_dynamic_loop(once):
        return once

    # Unused inputs are dropped, so that the result does not seem to depend on them.
    is_handle = [True, *(False for _ in once.in_avals[1:])]
    used, is_used = dce(once, [True] * len(once.out_avals), is_handle)
    # Arrays that the quantum function closes over become operands, to be differentiated.
    closed = convert_constants_to_inputs(used)

    def run(*operands: Any) -> list[Any]:
        """Bind ``quantum_drawn_run`` without the inputs that the run does not use.

        ``operands`` are the handle and all inputs of the run. The result is a list of the
        primitive's results, the handle first.
        """
        handle, *inputs = itertools.compress(operands, is_used)
        return _sampled_execution_p.bind(
            handle, *used.consts, *inputs, once=closed, where=where, until_accepted=until_accepted
        )

    return jax.make_jaxpr(run)(*to_structs(once.in_avals))


def convert_constants_to_inputs(closed: ClosedJaxpr, *, n_dropped: int = 0) -> ClosedJaxpr:
    """Turn the constants of a circuit's jaxpr into inputs, directly behind the handle.

    The caller must pass the constants as operands.

    Args:
        closed: the jaxpr, from state handle and inputs to state handle and values.
        n_dropped: the number of inputs directly behind the handle to drop, which must be unused.

    Returns:
        a jaxpr without constants, from state handle, old constants and remaining inputs.
    """
    jaxpr = closed.jaxpr
    handle, *inputs = jaxpr.invars
    inputs = inputs[n_dropped:]
    names = jaxpr.debug_info._replace(arg_names=None)
    invars = [handle, *jaxpr.constvars, *inputs]
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=invars, debug_info=names), ())


def loop_over_shots(
    closed: ClosedJaxpr,
    statistics: Sequence[Statistic],
    groups: Sequence[int],
    inputs: Sequence[Any],
    *,
    postselects: bool,
    has_score: bool,
) -> ClosedJaxpr:
    """Return the jaxpr that executes all shots, and returns means over shots, and samples.

    Args:
        closed: the jaxpr of one shot, from state handle and inputs to state handle, whether the
            shot was accepted (if ``postselects``), the shot's score (if ``has_score``), and values,
            each with a leading axis of length one.
        statistics: the results whose arrays the values are (`Statistic`); they decide which values
            are samples.
        groups: the number of shots of each entry of the shot vector, to average over.
        inputs: arrays or types, the inputs of the jaxpr.
        postselects: whether shots may be rejected; rejected shots do not count in means.
        has_score: whether ``closed`` returns a score: a zero whose tangent is the tangent of the
            outcomes' log-probability, by which means are differentiated.

    Returns:
        a jaxpr from state handle and inputs to state handle, ``bool[shots]`` of accepted shots (if
        ``postselects``), and for each value ``[shots, ...]`` samples or ``[groups, ...]`` means.
    """
    is_per_shot = [
        statistic.is_per_shot for statistic in statistics for _ in jax.tree.leaves(statistic.values)
    ]
    sizes = np.array(groups)

    def loop(handle: Handle, *inputs: Any) -> list[Any]:
        """Execute all shots, and compute the means: the function of the returned jaxpr."""

        def step(carried: Any, group: Any) -> tuple[Any, Any]:
            """Execute one shot, and restart the circuit; the body of the scan over shots.

            Args:
                carried: the handle, and the sums over the shots of each group so far.
                group: the index of the shot's group.

            Returns:
                the new carried values; and a list of the shot's samples, with postselection
                preceded by whether the shot was accepted.
            """
            handle, sums = carried
            handle, *values = eval_jaxpr(closed.jaxpr, closed.consts, handle, *inputs)
            is_accepted = values.pop(0) if postselects else None
            scores = [values.pop(0)] if has_score else []
            means = [value[0] for value, yes in zip(values, is_per_shot, strict=True) if not yes]
            samples = [value[0] for value, yes in zip(values, is_per_shot, strict=True) if yes]
            if is_accepted is None:
                handle, *_ = CompiledState(handle).restart()
            else:
                means = [jnp.where(is_accepted, mean, 0) for mean in means]
                samples = [is_accepted, *samples]
                # Multiplied, not selected: if no shot is accepted, the derivative is NaN, as the
                # mean is.
                scores = [score * is_accepted for score in scores]
            means += [mean * score for score in scores for mean in means] + scores
            sums = [sum_.at[group].add(mean) for sum_, mean in zip(sums, means, strict=True)]
            return (handle, sums), samples

        results = closed.out_avals[1 + postselects + has_score :]
        zeros = [
            jnp.zeros((len(sizes), *aval.shape[1:]), aval.dtype)
            for aval, yes in zip(results, is_per_shot, strict=True)
            if not yes
        ]
        zeros += [*zeros, jnp.zeros(len(sizes))] if has_score else []
        indices = Frequencies.index_groups(groups)
        (handle, sums), stacked = jax.lax.scan(step, (handle, zeros), indices)
        kept, n_accepted = [], sizes
        if postselects:
            kept = [stacked.pop(0)]
            n_accepted = jnp.zeros(len(sizes)).at[indices].add(kept[0])
        if has_score:
            means = iter(compute_score_means(sums, n_accepted, is_conditioned=postselects))
        else:
            means = iter(sum_ / n_accepted.reshape(-1, *[1] * (sum_.ndim - 1)) for sum_ in sums)
        samples = iter(stacked)
        return [handle, *kept, *(next(samples) if yes else next(means) for yes in is_per_shot)]

    return jax.make_jaxpr(loop)(CompiledState.handle_struct(), *inputs)


@_sampled_execution_p.def_effectful_abstract_eval
def _abstract_eval(
    *_: Any, once: ClosedJaxpr, until_accepted: bool, **__: Any
) -> tuple[list[Any], Any]:
    """Return the types of a run's results, and the run's effects.

    The results are the handle, with `until_accepted` whether the last run was accepted, and the
    values.
    """
    handle, *values = once.out_avals
    is_accepted = [ShapedArray((), np.dtype(bool))] if until_accepted else []
    return [handle, *is_accepted, *values], once.effects


def _evaluate(*operands: Any, once: ClosedJaxpr, until_accepted: bool, **_: Any) -> list[Any]:
    """Evaluate the jaxpr of a run, once or until a run is accepted."""
    if until_accepted:
        return run_until_accepted(once, *operands)
    return list(eval_jaxpr(once.jaxpr, once.consts, *operands))


def _jvp(
    primals: Sequence[Operand],
    tangents: Sequence[Any],
    *,
    once: ClosedJaxpr,
    where: str,
    until_accepted: bool,
) -> tuple[list[Any], list[Any]]:
    """JVP rule of ``quantum_drawn_run``, a run that draws outcomes.

    It binds the run with residuals as additional results, and computes the tangents from the
    residuals.

    Args:
        primals: the handle and the inputs.
        tangents: their tangents, some of them symbolic zeros.
        once: the jaxpr of one run.
        where: the QNode and its line, for errors.
        until_accepted: whether the run is repeated until it is accepted.

    Returns:
        the results and their tangents, symbolic zeros for the handle and the acceptance.
    """
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents[1:]]
    linearized = LinearizedJaxpr.from_jaxpr(once, nonzero)
    closed, evaluate, _ = linearized.make_residual_jaxpr(where)
    outs = _sampled_execution_p.bind(
        *primals, once=closed, where=where, until_accepted=until_accepted
    )
    n_first, n_values = 1 + until_accepted, len(linearized.out_perturbed)
    results, residuals = outs[: n_first + n_values], outs[n_first + n_values :]
    perturbed_tangents = [
        tangent for tangent, yes in zip(tangents[1:], nonzero, strict=True) if yes
    ]
    value_tangents = fill_zero_tangents(
        results[n_first:], evaluate(residuals, perturbed_tangents), linearized.out_perturbed
    )
    return results, [*map(make_symbolic_zero, results[:n_first]), *value_tangents]


ad.primitive_jvps[_sampled_execution_p] = _jvp
mlir.register_lowering(
    _sampled_execution_p, mlir.lower_fun(_evaluate, multiple_results=True), cacheable=False
)


def run_until_accepted(once: ClosedJaxpr, handle: Handle, *inputs: Any) -> list[Any]:
    """Run a circuit until a run is accepted, or until none can be.

    A run is accepted if all its postselections hold.

    Args:
        once: the jaxpr of one run, from state handle and inputs to state handle and values.
        handle: the handle of a fresh state.
        inputs: the inputs of the run.

    Returns:
        a list: the handle, whether the last run was accepted, and its values.
    """

    def run(state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the circuit once; the body of the ``while`` loop over runs.

        Args:
            state: the handle, whether this run is to be done, and the acceptance and the values of
                the run before.

        Returns:
            the same four values after this run.
        """
        handle, *values = eval_jaxpr(once.jaxpr, once.consts, state[0], *inputs)
        handle, more, is_accepted = CompiledState(handle).restart()
        return handle, more, is_accepted, values

    zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in once.out_avals[1:]]
    start = handle, jnp.array(True), jnp.array(False), zeros
    handle, _, is_accepted, values = jax.lax.while_loop(lambda state: state[1], run, start)
    return [handle, is_accepted, *values]
