"""Which class a measurement process of PennyLane's is, and the statistics of several."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.measure.classical import Classical
from bellhop.circuits.measure.moments import ExpvalProcess, VarProcess
from bellhop.circuits.measure.probabilities import Probabilities
from bellhop.circuits.measure.process import Process, is_measurement
from bellhop.circuits.measure.samples import Counts, Sample
from bellhop.circuits.measure.sampling import Rounds
from bellhop.circuits.measure.shadows import ClassicalShadow, ShadowExpval
from bellhop.circuits.measure.states import DensityMatrix, OfDensityMatrix, OfState, StateProcess
from bellhop.circuits.measure.statistics import ExactValues, Statistic

mp = qml.measurements

# By PennyLane's class: what users call it, and ours; without a name, the name is the class's own.
_CLASSES: dict[type, tuple[str, type[Process]]] = {
    mp.ExpectationMP: ("expval", ExpvalProcess),
    mp.VarianceMP: ("var", VarProcess),
    mp.ProbabilityMP: ("probs", Probabilities),
    mp.SampleMP: ("sample", Sample),
    mp.CountsMP: ("counts", Counts),
    mp.StateMP: ("state", StateProcess),
    mp.DensityMatrixMP: ("density_matrix", DensityMatrix),
    mp.PurityMP: ("purity", OfDensityMatrix),
    mp.VnEntropyMP: ("vn_entropy", OfDensityMatrix),
    mp.MutualInfoMP: ("mutual_info", OfDensityMatrix),
    mp.ClassicalShadowMP: ("classical_shadow", ClassicalShadow),
    mp.ShadowExpvalMP: ("shadow_expval", ShadowExpval),
    mp.StateMeasurement: ("", OfState),
    mp.MeasurementProcess: ("", Process),
}


def as_process(leaf: object, circuit: Any) -> Process:
    """Return the object that says all about what a quantum function returns, at its end."""
    if not is_measurement(leaf):
        return Classical("", jnp.asarray(leaf), circuit)
    name, kind = _entry(leaf)
    return kind(name or type(leaf).__name__, leaf, circuit)


def is_linear(process: qml.measurements.MeasurementProcess) -> bool:
    """Tell whether the value of a measurement process is linear in its observable."""
    return process.mv is None and _entry(process)[1].is_linear


def _entry(process: qml.measurements.MeasurementProcess) -> tuple[str, type[Process]]:
    return next(_CLASSES[base] for base in type(process).__mro__ if base in _CLASSES)


def exact_statistics(asked: ExactValues, processes: Sequence[Process]) -> list[Statistic]:
    """Measure without shots."""
    with qml.QueuingManager.stop_recording():
        makers = [process.without_shots(asked) for process in processes]
        answers = asked.answers()
        return [make(answers) for make in makers]


def sampled_statistics(circuit: Any, processes: Sequence[Process]) -> list[Statistic]:
    """Measure a circuit with shots, at its end."""
    with qml.QueuingManager.stop_recording():
        rounds = Rounds(circuit.groups)
        makers = [process.with_shots(rounds) for process in processes]
        answers = rounds.answers(circuit)
    return [make(answers) for make in makers]
