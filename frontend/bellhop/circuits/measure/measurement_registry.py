"""Measurement processes by PennyLane's classes, those that exact values are enough for, and more.

Without shots and with them: moments and probabilities of observables, of wires and of mid-circuit
outcomes.  Without: the state, and functions of the density matrix of some wires.  Of a circuit that
goes through the outcomes of its measurements the state is a mixture.  Its density matrix is the sum
of those of its runs, which no purity and no entropy is; these are functions of that sum.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.ir.answers import Answers, MeasurementSite
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.memory import check_state_fits
from bellhop.circuits.ir.statistics import ExactValues, Make, Statistic
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.dynamic_wires import probabilities_on_known_wires
from bellhop.circuits.measure.measurement_base import (
    Process,
    as_index,
    as_number,
    checked_outcomes,
)
from bellhop.circuits.measure.observables import terms_of
from bellhop.circuits.measure.samples import Counts, Sample
from bellhop.circuits.measure.sampling import (
    Diagonal,
    Rounds,
    as_diagonals,
    computational,
    diagonalized,
    product_mean,
    rotated_as_in_pennylane,
)
from bellhop.circuits.measure.shadows import ClassicalShadow, ShadowExpval
from bellhop.circuits.measure.user_measurements import UserSampleProcess

mp = qml.measurements


class ExpvalProcess(Process):
    """An expectation value."""

    def _exact(self, asked: ExactValues) -> Make:
        take = asked.expval(self._on_known_wires())
        return lambda values: Statistic(take(values))

    def _sampled(self, rounds: Rounds) -> Make:
        """Estimate it term by term, each in the basis that it needs."""
        means = [
            (jnp.real(c), product_mean(list(map(diagonalized, factors)), rounds, self._wires))
            for c, factors in terms_of(self._on_known_wires(), self._where)
        ]
        return lambda values: Statistic(sum(c * mean(values) for c, mean in means))

    def _of_outcomes(self, outcomes: Sequence[Any]) -> Statistic:
        return Statistic(as_number(outcomes[0]).astype(float))


class VarProcess(Process):
    """A variance."""

    def _exact(self, asked: ExactValues) -> Make:
        return asked.variance(self._on_known_wires())

    def _sampled(self, rounds: Rounds) -> Make:
        """Estimate it from samples of eigenvalues, in the observable's own eigenbasis."""
        coefficient, diagonals = as_diagonals(self._on_known_wires(), self._where)
        mean, square = (product_mean(diagonals, rounds, self._wires, power=p) for p in (1, 2))
        scale = jnp.real(coefficient)
        return lambda values: Statistic.from_moments(
            scale * mean(values), scale**2 * square(values)
        )

    def _of_outcomes(self, outcomes: Sequence[Any]) -> Statistic:
        value = as_number(outcomes[0]).astype(float)
        return Statistic.from_moments(value, value**2)


class Probabilities(Process):
    """Probabilities, of all wires where none is named."""

    def _exact(self, asked: ExactValues) -> Make:
        if self.process.obs is None:
            return self._of_wires(asked.probabilities(self._known_labels()), lambda add: add)
        diagonals = self._rotated()
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        take = asked.probabilities(self.process.obs.wires, gates)
        return lambda values: Statistic(take(values))

    def _sampled(self, rounds: Rounds) -> Make:
        if self.process.obs is None:
            known = self._known_labels()
            take = rounds.frequencies([computational(known)], list(map(self._wires, known)))
            return self._of_wires(take, jax.vmap)
        qubits = list(map(self._wires, self.process.obs.wires))
        take = rounds.frequencies(self._rotated(), qubits)
        return lambda values: Statistic(take(values))

    def _rotated(self) -> list[Diagonal]:
        """Return the factors of its observable, and one for wires with identities alone."""
        diagonals = rotated_as_in_pennylane(self.process.obs, self._where)
        labels = [wire for diagonal in diagonals for wire in diagonal.wires]
        others = [wire for wire in self.process.obs.wires if wire not in labels]
        return [*diagonals, computational(others)]

    def _of_wires(self, take: Callable[[Any], Any], of_groups: Callable[..., Any]) -> Make:
        """Return what makes the result of the probabilities of known wires."""
        if not any(map(is_dynamic, self.process.wires)):
            return lambda values: Statistic(take(values))
        add_up = of_groups(probabilities_on_known_wires(self._answers, self.process))
        return lambda values: Statistic(add_up(take(values)))

    def _of_outcomes(self, outcomes: Sequence[Any]) -> Statistic:
        return Statistic(jax.nn.one_hot(as_index(outcomes), 2 ** len(outcomes), dtype=float))


class OfState(Process):
    """A function of the state that PennyLane knows; of no mixture."""

    def _exact(self, asked: ExactValues) -> Make:
        take = asked.state(self._name)
        qubits = {wire: self._wires(wire) for wire in self.process.wires}
        process = self.process.map_wires(qubits)
        order = qml.wires.Wires(range(len(self._wires)))
        # Of the class: results outlive the circuit, whose tracers this has.
        of = type(self)._of
        return lambda values: Statistic(take(values), lambda state: of(process, state, order))

    @classmethod
    def _of(cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any) -> Any:
        if state.ndim == 2:
            return process.process_density_matrix(state, order)
        return process.process_state(state, order)


class StateProcess(OfState):
    """The state itself."""

    @classmethod
    def _of(cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any) -> Any:
        return state if state.ndim == 2 else super()._of(process, state, order)


class OfDensityMatrix(Process):
    """A function of the density matrix of its wires."""

    def _exact(self, asked: ExactValues) -> Make:
        qubits = list(map(self._wires, self.process.wires))
        check_state_fits(len(qubits), self._where, axes=2)
        take = asked.density_matrix(qubits, self._name)
        finish = functools.partial(type(self)._of_matrix, self.process)
        return lambda values: Statistic(take(values), finish)

    @staticmethod
    def _of_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        wires = process.wires
        with qml.QueuingManager.stop_recording():
            on_first = process.map_wires(dict(zip(wires, range(len(wires)), strict=True)))
            return on_first.process_density_matrix(matrix, qml.wires.Wires(range(len(wires))))


class DensityMatrix(OfDensityMatrix):
    """The density matrix itself."""

    @staticmethod
    def _of_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        return matrix


class Classical(Process):
    """A value that is no measurement: it is as it is, or one for each shot that is a run."""

    def without_shots(self, asked: ExactValues) -> Make:
        """Return what makes a statistic of it."""
        return lambda _: Statistic(self.process, is_measured=False)

    def with_shots(self, rounds: Rounds) -> Make:
        """Return what makes a statistic of it, for each shot or each group of these."""
        answers, value = self._answers, self.process
        if answers.is_one_shot:
            values = answers.of_each_shot(value)
        else:
            values = jnp.broadcast_to(value, (len(answers.groups), *value.shape))
        is_of_shots = answers.is_one_shot
        return lambda _: Statistic(values, is_of_shots=is_of_shots, is_measured=False)


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
    mp.SampleMeasurement: ("", UserSampleProcess),
    mp.StateMeasurement: ("", OfState),
    mp.MeasurementProcess: ("", Process),
}


def measure_results(
    leaves: Sequence[Any], answers: Answers, exact: ExactValues | None = None
) -> list[Statistic]:
    """Measure what a quantum function returns, when all gates have been applied.

    Args:
        leaves: PennyLane's measurement processes, and numbers or arrays.
        answers: answers what measurements ask of the circuit.
        exact: the exact values of the circuit, for a circuit without shots.

    Returns:
        a statistic for each leaf.

    Raises:
        CompileError: for a measurement that is not supported, or that needs shots.
    """
    processes = [_as_process(leaf, answers) for leaf in leaves]
    with qml.QueuingManager.stop_recording():
        if exact is not None:
            makers = [process.without_shots(exact) for process in processes]
            computed = exact.compute()
            return [make(computed) for make in makers]
        rounds = Rounds(answers.groups)
        makers = [process.with_shots(rounds) for process in processes]
        sampled = rounds.sample(answers)
    return [make(sampled) for make in makers]


def needs_snapshots(leaf: object) -> bool:
    """Return whether what a quantum function returns is a classical shadow, or is made of one."""
    return is_measurement(leaf) and issubclass(_find_class(leaf)[1], ClassicalShadow | ShadowExpval)


def find_outcomes(
    process: qml.measurements.MeasurementProcess, site: MeasurementSite
) -> Sequence[Any]:
    """Return the mid-circuit outcomes that a process measures.

    Args:
        process: PennyLane's, whose ``mv`` is not None.
        site: the end of the circuit.

    Raises:
        CompileError: if the outcomes are not those of mid-circuit measurements in this circuit.
    """
    return checked_outcomes(process, _find_class(process)[0], site)


def _as_process(leaf: object, answers: Answers) -> Process:
    """Return the measurement of what a quantum function returns."""
    if not is_measurement(leaf):
        return Classical("", jnp.asarray(leaf), answers)
    name, kind = _find_class(leaf)
    return kind(name, leaf, answers)


def _find_class(process: object) -> tuple[str, type[Process]]:
    """Return the name that users call for a process of PennyLane's, and our class for it."""
    kinds = type(process).__mro__
    name, kind = next(_CLASSES[base] for base in kinds if base in _CLASSES)
    return name or type(process).__name__, kind
