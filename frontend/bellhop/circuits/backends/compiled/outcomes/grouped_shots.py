"""Return per-shot values from executions that several shots share.

In a circuit that draws mid-circuit outcomes, the shots with the same outcomes share an execution.
With 100 shots of ``qml.Hadamard(0); m = measure(0); qml.RX(x, 1); return qml.expval(m),
qml.sample(m)`` there are two executions: of the shots that drew zero, and of the shots that drew
one.  An execution returns its contribution to each mean, so that the sum over the executions is the
mean::

    state share = quantum_measure[Frequencies(wires=())] state [] [] [x]      as 0.53 and 0.47
    mean = mul share m

An execution returns samples with zeros in place of the shots that it does not represent::

    state is_here = quantum_measure[ShotMembership()] state [] [] []
    sample = select_n is_here 0 m

Frequencies are already such contributions.  The engine differentiates them by the score function:
the probability of a shot's outcomes and sample, back through the outcomes of the execution.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.circuits.backends.compiled.differentiable.score_function import SAMPLES_ERROR
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.tangents import forbid_derivative


def mask_other_shots(statistics: Sequence[Statistic], shares: Any, is_here: Any) -> list[Statistic]:
    """Zero the per-shot values of shots that belong to other runs of the circuit.

    Shots with equal mid-circuit outcomes share a run. The sum over all runs then has each shot
    once.

    Args:
        statistics: the results of the current run, as arrays (`Statistic`).
        shares: array ``[groups]``: for each entry of the shot vector, the fraction of its shots
            that the run represents. It only serves to raise the error: its tangent shows that the
            circuit is differentiated.
        is_here: integer array ``[shots]``: 1 for the shots that the run represents, else 0.

    Returns:
        the statistics, with zeros in the per-shot values of other shots. Derivatives of per-shot
        values raise ``DifferentiableCompileError``.
    """

    def mask(values: Any) -> Any:
        """Zero the rows ``[shots, ...]`` of shots that belong to other runs."""
        rows = is_here.reshape(-1, *[1] * (values.ndim - 1))
        own = jnp.where(rows == 1, values, jnp.zeros_like(values))
        return forbid_derivative(own, SAMPLES_ERROR, by=shares)

    return [
        statistic.map_values(mask) if statistic.is_per_shot else statistic
        for statistic in statistics
    ]
