"""Runs that shots share, of a circuit that draws outcomes in the middle.

With 100 shots of ``qml.Hadamard(0); m = measure(0); qml.RX(x, 1); return qml.expval(m),
qml.sample(m)`` there are two runs, that of the shots that drew zero and that of the others.  A run
gives its part of each mean, so that the sum over the runs is the mean::

    state share = quantum_measure[Frequencies(wires=())] state [] [] [x]      as 0.53 and 0.47
    mean = mul share m

and of samples those of its shots, with zeros in place of the others::

    state is_here = quantum_measure[ShotsOfRun()] state [] [] []
    sample = select_n is_here 0 m

Frequencies are such parts as they are.  Their derivative is by how likely it was what a shot has
drawn, outcomes and sample, and goes back through the outcomes of the run.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.circuits.backends.compiled.differentiable.differentiation_choice import Differentiation
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasureOperands,
    Measuring,
    Query,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import OF_SAMPLES
from bellhop.circuits.ir.device_measurements import Frequencies, ShotsOfRun
from bellhop.circuits.ir.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import undifferentiable

_DIFFERENTIATION = Differentiation(LIKELIHOOD_RATIO)


def shares_of(circuit: Any) -> Any:
    """Return the part of the shots of each group that a run is of."""
    [found] = circuit.sample([Frequencies(groups=circuit.groups)])
    return found[:, 0]


def of_its_shots(circuit: Any, statistics: Sequence[Statistic]) -> list[Statistic]:
    """Return the statistics of a run, with zeros in place of the values of other runs' shots.

    Args:
        circuit: at its end.
        statistics: of the run.
    """
    if not any(statistic.is_of_shots for statistic in statistics):
        return list(statistics)
    shares, is_here = circuit.shares, _shots_of(circuit)

    def here(values: Any) -> Any:
        rows = is_here.reshape(-1, *[1] * (values.ndim - 1))
        own = jnp.where(rows == 1, values, jnp.zeros_like(values))
        return undifferentiable(own, OF_SAMPLES, by=shares)

    return [
        statistic.changed(here) if statistic.is_of_shots else statistic for statistic in statistics
    ]


def _shots_of(circuit: Any) -> Any:
    nothing = jnp.zeros(0, real_type())
    handle = circuit.gates.bound().handle
    operands = MeasureOperands(handle, nothing, nothing, nothing, nothing)
    measuring = Measuring((ShotsOfRun(),), circuit.device, _DIFFERENTIATION)
    handle, found = operands.bind(measure_p, measuring=measuring, query=Query.VALUES)
    circuit.gates.go_on(handle)
    return found
