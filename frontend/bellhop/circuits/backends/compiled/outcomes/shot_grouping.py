"""Decide whether shots with the same mid-circuit outcomes share an execution.

For example, 1000 shots of a circuit with two mid-circuit measurements share at most four
executions.  Without sharing, there is a separate execution for each shot.
"""

import math

from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.extend.core.primitives import cond_p, while_p

from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.differentiable.engine_support import find_engine_obstacle
from bellhop.circuits.ir.device_measurements import Frequencies
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.executors import Outcomes
from bellhop.jaxprs.equations import inner_jaxprs

# The most rows of samples that all runs together may write: 2**14 shots with distinct outcomes.
_MAX_ROWS = 1 << 28
# A derivative takes an adjoint sweep for each value of a shared run, or for each shot if shots have
# separate runs.  A sweep of a separate run takes longer, by this factor.
_PASSES_PER_SHOT = 4


def should_share_runs(closed: ClosedJaxpr, device: DeviceSpec, *, has_rows: bool) -> bool:
    """Return whether shots with equal mid-circuit outcomes should share one run.

    False for a circuit with effects, such as callbacks, which must run once for each shot, and for
    a circuit that the engine does not support. Otherwise True if the runs, with their derivatives,
    are presumably cheaper than a run for each shot.

    Args:
        closed: the jaxpr of a shared run, from state handle and inputs to state handle and values.
        device: the device, with the number of all shots.
        has_rows: whether a result has a row for each shot. Every run writes such a result in full,
            which limits the number of runs.
    """
    # A callback has to run once for each shot.
    if closed.effects or find_engine_obstacle(closed, device, 0, Outcomes.SHARED_RUNS):
        return False
    measured = [each for eqn in closed.jaxpr.eqns for each in CircuitEquation(eqn).measurements]
    means = [each for each in measured if isinstance(each, Frequencies) and not each.obstacle]
    most_runs = _count_max_runs(closed.jaxpr, device.shots)
    n_sweeps = most_runs * sum(mean.count_values(device) for mean in means)
    has_few = n_sweeps <= _PASSES_PER_SHOT * device.shots
    return has_few and not (has_rows and device.shots * most_runs > _MAX_ROWS)


def _count_max_runs(circuit: Jaxpr, shots: int) -> int:
    """Return an upper bound of the number of runs with distinct outcomes.

    It is 2 to the power of `_count_max_outcomes`, and at most ``shots``.
    """
    n_outcomes = _count_max_outcomes(circuit)
    return shots if n_outcomes >= shots.bit_length() else min(shots, 1 << int(n_outcomes))


def has_outcomes_in_dynamic_loops(circuit: Jaxpr) -> bool:
    """Return whether a circuit measures mid-circuit in a loop of dynamic trip count."""
    return _count_max_outcomes(circuit) == math.inf


def _count_max_outcomes(jaxpr: Jaxpr) -> float:
    """Return an upper bound of the number of mid-circuit outcomes in a run.

    A conditional counts as its branch with the most outcomes. The outcomes in a loop are multiplied
    by its trip count: infinity for a loop with a dynamic trip count that measures.
    """
    total = 0.0
    for eqn in jaxpr.eqns:
        combine = max if eqn.primitive is cond_p else sum
        inside = combine([0.0, *map(_count_max_outcomes, inner_jaxprs(eqn))])
        if inside:
            times = math.inf if eqn.primitive is while_p else eqn.params.get("length", 1)
            total += times * inside
        total += CircuitEquation(eqn).is_mid_measurement
    return total
