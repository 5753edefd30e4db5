"""Differentiate averages over shots by the score function (likelihood ratio).

A circuit that draws outcomes of mid-circuit measurements runs once for each shot, and the value of
a shot is a function ``f`` of its outcomes.  The derivative of the mean of ``f`` is the derivative
of the mean of ``f * p / p0``, where ``p`` is the probability of the outcomes and ``p0`` its current
value: the mean of ``f`` times the *score*, the derivative of ``log p``.  The engine computes the
score by the adjoint method, from the amplitude of the sample back through the outcomes::

    state score = quantum_measure[measuring=(Score(),) query=VALUES]
        state [] [] params amplitudes perturbation

is zero, and has the JVP ::

    state score gradient = quantum_measure[measuring=(Score(),) query=JACOBIAN]
        state [] [] params [] perturbation
    score_dot = dot_general gradient params_dot
    state steps = quantum_call[operation=steps] state
    more_dot = bellhop_linear_map state ... [[perturbation_tangent]]
    score_dot = add score_dot more_dot

If a circuit postselects, only the accepted runs count.  Their outcomes have the probability
``p / P``, where ``P`` is the sum of ``p`` over all accepted outcomes.  So the derivative of
``log P`` is the mean of their scores, and the derivative of the mean of ``f`` is the covariance of
``f`` and the score.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import Handle
from bellhop.circuits.backends.compiled.differentiable.differentiation import Differentiation
from bellhop.circuits.backends.compiled.differentiable.internal_measurements import Score
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasurementSet,
    MeasureOperands,
    Query,
    measure_p,
)
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.likelihood_ratio import make_zero_with_ratio_tangent
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import forbid_derivative
from bellhop.jaxprs.equations import iterate_equations

SECOND_DERIVATIVE_ERROR = (
    "the circuit has shots and mid-circuit measurements and is differentiated twice, and the score "
    "function of the outcomes gives only the first derivative. Use a circuit without shots."
)
SAMPLES_ERROR = (
    "the circuit returns samples or values computed from mid-circuit outcomes and is "
    "differentiated with respect to gates before the measurements; only averages over shots have "
    "this derivative. Return expval, var or probs."
)
_SINGLE_SHOT_ERROR = (
    "the circuit postselects and is differentiated with a group of 1 shot, expected at least 2 "
    "shots, as the derivative of a postselected average is a covariance. Set more shots."
)

_DIFFERENTIATION = Differentiation(DiffMethod.LIKELIHOOD_RATIO)
_DIFFERENTIATION = replace(_DIFFERENTIATION, amplitude_differentiation=_DIFFERENTIATION)


def bind_score(
    handle: Handle, params: Any, amplitudes: Any, perturbation: Any, device: DeviceSpec
) -> list[Any]:
    """Return the score of a circuit: a zero with the tangent of the log-probability.

    The score is the scalar 0.0. Its tangent is the tangent of the logarithm of the probability of
    all outcomes that were drawn so far.

    Args:
        handle: the handle of the state.
        params: array ``[p]``, the traced parameters of all gates outside of loops with a dynamic
            trip count.
        amplitudes: array ``[a]``, from which the state is prepared.
        perturbation: real scalar zero, whose tangent represents the tangents of gate parameters in
            loops with a dynamic trip count; None if there are none.
        device: the device that runs the circuit.

    Returns:
        a list: the handle of the state afterwards, and the score.
    """
    nothing = jnp.zeros(0, Precision.real_type())
    operands = MeasureOperands(handle, nothing, nothing, params, amplitudes, perturbation)
    measuring = MeasurementSet((Score(),), device, _DIFFERENTIATION)
    return operands.bind(measure_p, measuring=measuring, query=Query.VALUES)


def has_score(circuit: ClosedJaxpr) -> bool:
    """Return whether a circuit measures its score (`bind_score`).

    The score is a zero whose tangent is the tangent of the outcomes' log-probability.
    """
    return any(
        eqn.primitive is measure_p and eqn.params["measuring"].is_score
        for eqn in iterate_equations(circuit.jaxpr)
    )


def forbid_unscored_derivatives(
    statistics: Sequence[Statistic], score: Any, fewest: int | None = None
) -> list[Statistic]:
    """Make derivatives of results raise an error if the score function does not give them.

    Per-shot values have no such derivative; nor has any value if the circuit postselects and a
    group of shots to average over has a single shot.

    Args:
        statistics: the results of the circuit, as arrays of one execution of one shot
            (`Statistic`).
        score: the score of the execution, through which results depend on gate parameters.
        fewest: the number of shots in the smallest group, if the circuit postselects; else None.

    Returns:
        the statistics, tagged to raise a ``DifferentiableCompileError`` where needed.
    """

    def guard_statistic(statistic: Statistic) -> Statistic:
        """Return a statistic, tagged with an error if it must not be differentiated."""
        obstacle = (
            SAMPLES_ERROR if statistic.is_per_shot else _SINGLE_SHOT_ERROR if fewest == 1 else None
        )
        if obstacle is None:
            return statistic
        change = lambda value: forbid_derivative(value, obstacle, by=score)
        return statistic.map_values(change)

    return list(map(guard_statistic, statistics))


def compute_score_means(sums: Sequence[Any], counts: Any, *, is_conditioned: bool) -> list[Any]:
    """Return means over groups of shots, differentiable by the score function.

    A shot's score is a zero whose tangent is the tangent of the log-probability of the shot's
    outcomes.

    Args:
        sums: a list of sums over the shots of each group, arrays ``[groups, ...]``: first of each
            value, then of the product of each value and the shot's score, and last of the scores.
        counts: array ``[groups]``, the number of accepted shots in each group.
        is_conditioned: whether the circuit postselects, so that shots may be rejected.

    Returns:
        for each value its mean, an array ``[groups, ...]``. A second derivative raises an error.
    """
    *sums, scores = sums
    half = len(sums) // 2

    def compute_mean(total: Any, product: Any) -> Any:
        """Return the mean of one value over each group of shots.

        Its tangent is the mean of the products with the score; with postselection, the covariance
        of value and score.

        Args:
            total: array ``[groups, ...]``, the sum of the value over shots.
            product: array ``[groups, ...]``, the sum of the value times the shot's score.
        """
        column = (-1, *[1] * (total.ndim - 1))
        count = jnp.reshape(counts, column)
        average = total / count
        if not is_conditioned:
            return average + make_zero_with_ratio_tangent(product, count, SECOND_DERIVATIVE_ERROR)
        centred = product - jax.lax.stop_gradient(average) * jnp.reshape(scores, column)
        # A single accepted shot has no covariance, so the derivative is NaN.
        return average + make_zero_with_ratio_tangent(centred, count - 1, SECOND_DERIVATIVE_ERROR)

    return list(map(compute_mean, sums[:half], sums[half:]))
