"""Whether shots with the same outcomes are to share a run, or each is to have one of its own.

Of 1000 shots of a circuit that measures two wires in the middle at most four runs are shared.
"""

import math

from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.extend.core.primitives import while_p

from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.backends.compiled.differentiable.engine_support import find_engine_obstacle
from bellhop.circuits.ir.device_measurements import Frequencies
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.randomness import Randomness
from bellhop.jaxprs.equations import inner_jaxprs

# Rows of samples that all runs together may write: 2**14 shots with other outcomes each.
_MAX_ROWS = 1 << 28
# A derivative has a sweep back for each value of a shared run, or one for each shot with a run of
# its own, which takes longer.
_PASSES_PER_SHOT = 4


def should_share_runs(closed: ClosedJaxpr, device: DeviceSpec, *, has_rows: bool) -> bool:
    """Tell whether shots may share runs, and do better so.

    Args:
        closed: a run that is shared, from handle and inputs to handle and values.
        device: where it runs, with all shots.
        has_rows: whether some of its results have a row for each shot.
    """
    # Python sees each run.
    if closed.effects or find_engine_obstacle(closed, device, 0, Randomness.SHARED):
        return False
    measured = [each for eqn in closed.jaxpr.eqns for each in CircuitEquation(eqn).measurements]
    means = [each for each in measured if isinstance(each, Frequencies) and not each.obstacle]
    most_runs = _count_max_runs(closed.jaxpr, device.shots)
    n_sweeps = most_runs * sum(mean.count_values(device) for mean in means)
    has_few = n_sweeps <= _PASSES_PER_SHOT * device.shots
    return has_few and not (has_rows and device.shots * most_runs > _MAX_ROWS)


def _count_max_runs(circuit: Jaxpr, shots: int) -> int:
    """Return how many runs with other outcomes each there may be."""
    n_outcomes = _count_max_outcomes(circuit)
    return shots if n_outcomes >= shots.bit_length() else min(shots, 1 << int(n_outcomes))


def has_outcomes_in_dynamic_loops(circuit: Jaxpr) -> bool:
    """Tell whether a circuit measures in the middle in a loop whose length the program computes."""
    return _count_max_outcomes(circuit) == math.inf


def _count_max_outcomes(jaxpr: Jaxpr) -> float:
    """Return how many outcomes in the middle there may be, infinity where only a run knows."""
    total = 0.0
    for eqn in jaxpr.eqns:
        inside = sum(map(_count_max_outcomes, inner_jaxprs(eqn)))
        if inside:
            times = math.inf if eqn.primitive is while_p else eqn.params.get("length", 1)
            total += times * inside
        total += CircuitEquation(eqn).is_mid_measurement
    return total
