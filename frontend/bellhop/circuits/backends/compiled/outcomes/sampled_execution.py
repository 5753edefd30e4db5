"""A run whose outcomes are drawn: one equation, differentiated as a whole, and one for each shot.

Of a circuit with a postselection, a shot is a loop of runs until one is kept, and in a run there
may be loops whose length depends on outcomes.  JAX does not transpose a ``while``, since its
residuals have no static shape.  But those of the run that was kept have one: ::

    state is_accepted value = quantum_drawn_run[
      once={ lambda ; state x. let ... in (state, value) } until_accepted=True
    ] state x

is differentiated as the circuit of a run is: it returns residuals, or the Jacobian of its values
by its inputs where the run has loops itself (``linearized``), and what is linear comes after it.
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
from bellhop.circuits.ir.device_measurements import find_shot_groups
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import fill_zero_tangents, make_symbolic_zero
from bellhop.control_flow.while_loop_vjp import has_dynamic_loop

# drawn_run: handle, inputs... -> handle, values...; until it is kept: handle, whether the last run
#   was kept bool[], values...
_sampled_execution_p = Primitive("quantum_drawn_run")
_sampled_execution_p.multiple_results = True


def make_sampled_execution(once: ClosedJaxpr, where: str, *, until_accepted: bool) -> ClosedJaxpr:
    """Return the jaxpr of a run that can be differentiated.

    Args:
        once: from handle and inputs to handle and values.
        where: the QNode and its line, for errors.
        until_accepted: whether runs are made until one is kept, or until none can be.

    Returns:
        from handle and inputs to handle and values; between these whether the last run was kept,
        where runs are made until one is.
    """
    if not until_accepted and not has_dynamic_loop(once):
        return once

    # What it does not use must not seem to be used.
    is_handle = [True, *(False for _ in once.in_avals[1:])]
    used, takes = dce(once, [True] * len(once.out_avals), is_handle)
    # Nor may an equation hold what the quantum function closes over: these are operands too.
    closed = convert_constants_to_inputs(used)

    def run(*operands: Any) -> list[Any]:
        handle, *taken = itertools.compress(operands, takes)
        return _sampled_execution_p.bind(
            handle, *used.consts, *taken, once=closed, where=where, until_accepted=until_accepted
        )

    return jax.make_jaxpr(run)(*to_structs(once.in_avals))


def convert_constants_to_inputs(closed: ClosedJaxpr, *, n_dropped: int = 0) -> ClosedJaxpr:
    """Return a circuit whose constants are inputs, right behind the handle.

    Args:
        closed: from handle and inputs to handle and values.
        n_dropped: how many of the first inputs it has no longer, since it does not use them.
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
    """Return the jaxpr of all shots: means over groups, and all samples.

    Args:
        closed: from handle and inputs to handle and values, of one shot; before the values whether
            it was kept, where it postselects, and its score, where it has one.
        statistics: what its values are of.
        groups: the shots of each group of which there are means.
        inputs: arrays.
        postselects: whether it gives first whether it was kept; then the result does so of all.
        has_score: whether it has a score.
    """
    of_shots = [
        statistic.is_per_shot for statistic in statistics for _ in jax.tree.leaves(statistic.values)
    ]
    sizes = np.array(groups)

    def loop(handle: Handle, *inputs: Any) -> list[Any]:
        def step(carried: Any, group: Any) -> tuple[Any, Any]:
            handle, sums = carried
            handle, *values = eval_jaxpr(closed.jaxpr, closed.consts, handle, *inputs)
            is_accepted = values.pop(0) if postselects else None
            scores = [values.pop(0)] if has_score else []
            means = [value[0] for value, yes in zip(values, of_shots, strict=True) if not yes]
            samples = [value[0] for value, yes in zip(values, of_shots, strict=True) if yes]
            if is_accepted is None:
                handle, *_ = CompiledState(handle).restart()
            else:
                means = [jnp.where(is_accepted, mean, 0) for mean in means]
                samples = [is_accepted, *samples]
                # No choice: where no shot is kept the derivative is NaN, as the mean is.
                scores = [score * is_accepted for score in scores]
            means += [mean * score for score in scores for mean in means] + scores
            sums = [sum_.at[group].add(mean) for sum_, mean in zip(sums, means, strict=True)]
            return (handle, sums), samples

        results = closed.out_avals[1 + postselects + has_score :]
        zeros = [
            jnp.zeros((len(sizes), *aval.shape[1:]), aval.dtype)
            for aval, yes in zip(results, of_shots, strict=True)
            if not yes
        ]
        zeros += [*zeros, jnp.zeros(len(sizes))] if has_score else []
        (handle, sums), stacked = jax.lax.scan(step, (handle, zeros), find_shot_groups(groups))
        kept, n_accepted = [], sizes
        if postselects:
            kept = [stacked.pop(0)]
            n_accepted = jnp.zeros(len(sizes)).at[find_shot_groups(groups)].add(kept[0])
        if has_score:
            means = iter(compute_score_means(sums, n_accepted, is_conditioned=postselects))
        else:
            means = iter(sum_ / n_accepted.reshape(-1, *[1] * (sum_.ndim - 1)) for sum_ in sums)
        samples = iter(stacked)
        return [handle, *kept, *(next(samples) if yes else next(means) for yes in of_shots)]

    return jax.make_jaxpr(loop)(CompiledState.handle_struct(), *inputs)


@_sampled_execution_p.def_effectful_abstract_eval
def _abstract_eval(
    *_: Any, once: ClosedJaxpr, until_accepted: bool, **__: Any
) -> tuple[list[Any], Any]:
    handle, *values = once.out_avals
    is_accepted = [ShapedArray((), np.dtype(bool))] if until_accepted else []
    return [handle, *is_accepted, *values], once.effects


def _evaluate(*operands: Any, once: ClosedJaxpr, until_accepted: bool, **_: Any) -> list[Any]:
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
    nonzero = [type(tangent) is not ad.Zero for tangent in tangents[1:]]
    linearized = LinearizedJaxpr.from_jaxpr(once, nonzero)
    closed, evaluate, _ = linearized.make_residual_jaxpr(where)
    outs = _sampled_execution_p.bind(
        *primals, once=closed, where=where, until_accepted=until_accepted
    )
    n_first, n_values = 1 + until_accepted, len(linearized.out_perturbed)
    results, residuals = outs[: n_first + n_values], outs[n_first + n_values :]
    given = [tangent for tangent, yes in zip(tangents[1:], nonzero, strict=True) if yes]
    dots = fill_zero_tangents(
        results[n_first:], evaluate(residuals, given), linearized.out_perturbed
    )
    return results, [*map(make_symbolic_zero, results[:n_first]), *dots]


ad.primitive_jvps[_sampled_execution_p] = _jvp
mlir.register_lowering(
    _sampled_execution_p, mlir.lower_fun(_evaluate, multiple_results=True), cacheable=False
)


def run_until_accepted(once: ClosedJaxpr, handle: Handle, *inputs: Any) -> list[Any]:
    """Make runs until one is kept, or until none can be.

    Args:
        once: from handle and inputs to handle and values, of one run.
        handle: the handle of a fresh state.
        inputs: of the circuit.

    Returns:
        the handle, whether the last run was kept, and its values.
    """

    def run(state: tuple[Any, ...]) -> tuple[Any, ...]:
        handle, *values = eval_jaxpr(once.jaxpr, once.consts, state[0], *inputs)
        handle, more, is_accepted = CompiledState(handle).restart()
        return handle, more, is_accepted, values

    zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in once.out_avals[1:]]
    start = handle, jnp.array(True), jnp.array(False), zeros
    handle, _, is_accepted, values = jax.lax.while_loop(lambda state: state[1], run, start)
    return [handle, is_accepted, *values]
