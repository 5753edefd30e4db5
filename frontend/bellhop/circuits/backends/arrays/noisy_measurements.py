"""Measure a circuit with a noise model, whose measurements have noise of their own.

If the model adds ``BitFlip(p)`` before each ``probs``::

    return qml.probs(0), qml.expval(qml.Z(1))     probs of the state after BitFlip(p, 0)
                                                  expval of the state before it
"""

from collections.abc import Sequence
from typing import Any

from bellhop.circuits.backends.arrays.simulated_circuit import SimulatedCircuit
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.passes.noise.noise_pass import NoisePass
from bellhop.tracing.state import circuit_scope


def measure_with_noise(
    circuit: SimulatedCircuit, noise: NoisePass, leaves: Sequence[Any], **options: Any
) -> list[Statistic]:
    """Measure a circuit whose noise model adds channels before its measurements.

    Call it after all gates were applied. Each measurement sees only its own channels, so the final
    state is reset to the state before them for each group of measurements with equal channels.

    Args:
        circuit: the circuit; its state is changed.
        noise: the pass of the noise model, which knows the channels of each measurement.
        leaves: return values of the quantum function, such as measurement processes.
        **options: keyword arguments of `SimulatedCircuit.measure_statistics`.

    Returns:
        for each of `leaves`, in order, its traced values (a `Statistic`).
    """
    groups = noise.group_by_noise(leaves)
    before = circuit.state
    measured: dict[int, Statistic] = {}
    for operations, indices in groups:
        circuit.state = before
        with circuit_scope(circuit):
            noise.apply_noise(operations)
        statistics = circuit.measure_statistics([leaves[n] for n in indices], **options)
        measured.update(zip(indices, statistics, strict=True))
    return [measured[n] for n in range(len(leaves))]
