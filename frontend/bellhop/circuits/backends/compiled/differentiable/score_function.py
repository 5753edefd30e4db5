"""The likelihood ratio: derivatives of what is made of outcomes that are drawn.

A circuit that draws outcomes in the middle runs once for each shot, and what a shot gives is a
function ``f`` of what was drawn in it.  Its mean has the derivative of the mean of ``f * p / p0``,
where ``p`` is the probability of what was drawn and ``p0`` its value: the mean of ``f`` times the
*score*, the derivative of ``log p``.  The engine has that by the adjoint method, from the amplitude
of the sample back through the outcomes::

    state score = quantum_measure[measuring=(Score(),) query=VALUES]
        state [] [] params amplitudes perturbation

is zero, and has the JVP ::

    state score gradient = quantum_measure[measuring=(Score(),) query=JACOBIAN]
        state [] [] params [] perturbation
    score_dot = dot_general gradient params_dot
    state steps = quantum_call[operation=steps] state
    more_dot = bellhop_linear_map state ... [[perturbation_tangent]]
    score_dot = add score_dot more_dot

Of a circuit that postselects only some runs count.  These are distributed as ``p / P``, where ``P``
is the sum of ``p`` over them, so the derivative of ``log P`` is the mean of their scores, and that
of the mean of ``f`` the covariance of ``f`` and the score.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import Handle
from bellhop.circuits.backends.compiled.differentiable.differentiation_choice import Differentiation
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasurementSet,
    MeasureOperands,
    Query,
    measure_p,
)
from bellhop.circuits.ir.device_measurements import Score
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.ir.likelihood_ratio import make_zero_with_ratio_tangent
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import forbid_derivative
from bellhop.jaxprs.equations import iterate_equations

SECOND_DERIVATIVE_ERROR = (
    "it draws outcomes of measurements in the middle with shots, and is differentiated twice; the "
    "likelihood ratio of outcomes gives the first derivative alone. Use a circuit without shots."
)
SAMPLES_ERROR = (
    "it returns samples, or values that are computed of outcomes, and is differentiated by gates "
    "before them, by which only means over shots have a derivative. Return expval, var or probs."
)
_SINGLE_SHOT_ERROR = (
    "it postselects, is differentiated, and has a group of one shot; the derivative of a mean is a "
    "covariance, which two shots and more have. Give it more shots."
)

_DIFFERENTIATION = Differentiation(LIKELIHOOD_RATIO)
_DIFFERENTIATION = replace(_DIFFERENTIATION, amplitude_differentiation=_DIFFERENTIATION)


def bind_score(
    handle: Handle, params: Any, amplitudes: Any, perturbation: Any, device: DeviceSpec
) -> list[Any]:
    """Return the handle of a state, and the score of all that its run has drawn.

    Args:
        handle: the handle of the state.
        params: of the gates.
        amplitudes: that the state is prepared from.
        perturbation: of dynamic-count parameters; None where there are none.
        device: that of the circuit.
    """
    nothing = jnp.zeros(0, real_type())
    operands = MeasureOperands(handle, nothing, nothing, params, amplitudes, perturbation)
    measuring = MeasurementSet((Score(),), device, _DIFFERENTIATION)
    return operands.bind(measure_p, measuring=measuring, query=Query.VALUES)


def has_score(circuit: ClosedJaxpr) -> bool:
    """Tell whether a circuit has the score of what it draws."""
    return any(
        eqn.primitive is measure_p and eqn.params["measuring"].is_score
        for eqn in iterate_equations(circuit.jaxpr)
    )


def forbid_unscored_derivatives(
    statistics: Sequence[Statistic], score: Any, fewest: int | None = None
) -> list[Statistic]:
    """Return the statistics of a run; those without a mean have no derivative by what was drawn.

    Args:
        statistics: of a run of one shot.
        score: that of the run.
        fewest: the shots of the smallest group, where runs that fail do not count.
    """

    def guard_statistic(statistic: Statistic) -> Statistic:
        obstacle = (
            SAMPLES_ERROR if statistic.is_per_shot else _SINGLE_SHOT_ERROR if fewest == 1 else None
        )
        if obstacle is None:
            return statistic
        change = lambda value: forbid_derivative(value, obstacle, by=score)
        return statistic.map_values(change)

    return list(map(guard_statistic, statistics))


def compute_score_means(sums: Sequence[Any], counts: Any, *, is_conditioned: bool) -> list[Any]:
    """Return means over groups of shots, with the derivative of how likely the shots were.

    Args:
        sums: over the shots of each group, of several values; then of each of these times the
            shot's score; and of the scores.
        counts: how many shots of each group count.
        is_conditioned: whether others do not.
    """
    *sums, scores = sums
    half = len(sums) // 2

    def compute_mean(total: Any, product: Any) -> Any:
        column = (-1, *[1] * (total.ndim - 1))
        count = jnp.reshape(counts, column)
        average = total / count
        if not is_conditioned:
            return average + make_zero_with_ratio_tangent(product, count, SECOND_DERIVATIVE_ERROR)
        centred = product - jax.lax.stop_gradient(average) * jnp.reshape(scores, column)
        # Of a single shot that was saved there is no covariance: NaN.
        return average + make_zero_with_ratio_tangent(centred, count - 1, SECOND_DERIVATIVE_ERROR)

    return list(map(compute_mean, sums[:half], sums[half:]))
