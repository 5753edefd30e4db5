"""Runs that shots share, of a circuit that draws outcomes in the middle.

With 100 shots of ``qml.Hadamard(0); m = measure(0); qml.RX(x, 1); return qml.expval(m),
qml.sample(m)`` there are two runs, that of the shots that drew zero and that of the others.  A run
gives its part of each mean, so that the sum over the runs is the mean::

    state share = quantum_measure[Frequencies(wires=())] state [] [] [x]      as 0.53 and 0.47
    mean = mul share m

and of samples those of its shots, with zeros in place of the others::

    state is_here = quantum_measure[ShotMembership()] state [] [] []
    sample = select_n is_here 0 m

Frequencies are such parts as they are.  Their derivative is by how likely it was what a shot has
drawn, outcomes and sample, and goes back through the outcomes of the run.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.circuits.backends.compiled.differentiable.score_function import SAMPLES_ERROR
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import forbid_derivative


def mask_other_shots(statistics: Sequence[Statistic], shares: Any, is_here: Any) -> list[Statistic]:
    """Zero the per-shot values of shots that belong to other executions.

    Args:
        statistics: of the present execution.
        shares: array ``[groups]``: the fraction of each group's shots that the execution
            represents.
        is_here: integer array ``[shots]``: 1 for the shots that the execution represents, else 0.

    Returns:
        the statistics; those of shots have zeros in place of the other shots' values.
    """

    def mask(values: Any) -> Any:
        rows = is_here.reshape(-1, *[1] * (values.ndim - 1))
        own = jnp.where(rows == 1, values, jnp.zeros_like(values))
        return forbid_derivative(own, SAMPLES_ERROR, by=shares)

    return [
        statistic.map_values(mask) if statistic.is_per_shot else statistic
        for statistic in statistics
    ]
