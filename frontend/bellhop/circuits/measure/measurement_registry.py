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
from bellhop.circuits.ir.statistics import ExactValues, Statistic, StatisticMaker
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.dynamic_wires import make_dynamic_wire_marginal
from bellhop.circuits.measure.measurement_base import (
    Process,
    as_index,
    as_number,
    checked_outcomes,
)
from bellhop.circuits.measure.observables import find_terms
from bellhop.circuits.measure.samples import CountsProcess, SampleProcess
from bellhop.circuits.measure.sampling import (
    DiagonalFactor,
    SamplingRounds,
    as_diagonals,
    diagonalize,
    diagonalize_with_pennylane,
    make_computational_factor,
    request_product_mean,
)
from bellhop.circuits.measure.shadows import ClassicalShadow, ShadowExpval
from bellhop.circuits.measure.user_measurements import UserSampleProcess

mp = qml.measurements


class ExpvalProcess(Process):
    """An expectation value."""

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        take = asked.request_expval(self._expand_dynamic_wires())
        return lambda values: Statistic(take(values))

    def _request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        """Estimate it term by term, each in the basis that it needs."""
        means = [
            (
                jnp.real(c),
                request_product_mean(list(map(diagonalize, factors)), rounds, self._wires),
            )
            for c, factors in find_terms(self._expand_dynamic_wires(), self._where)
        ]
        return lambda values: Statistic(sum(c * mean(values) for c, mean in means))

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        return Statistic(as_number(outcomes[0]).astype(float))


class VarProcess(Process):
    """A variance."""

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        return asked.request_variance(self._expand_dynamic_wires())

    def _request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        """Estimate it from samples of eigenvalues, in the observable's own eigenbasis."""
        coefficient, diagonals = as_diagonals(self._expand_dynamic_wires(), self._where)
        mean, square = (
            request_product_mean(diagonals, rounds, self._wires, power=p) for p in (1, 2)
        )
        scale = jnp.real(coefficient)
        return lambda values: Statistic.from_moments(
            scale * mean(values), scale**2 * square(values)
        )

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        value = as_number(outcomes[0]).astype(float)
        return Statistic.from_moments(value, value**2)


class ProbabilitiesProcess(Process):
    """Probabilities, of all wires where none is named."""

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        if self.process.obs is None:
            return self._make_marginal_statistic(
                asked.request_probabilities(self._get_static_labels()), lambda add: add
            )
        diagonals = self._diagonalize()
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        take = asked.request_probabilities(self.process.obs.wires, gates)
        return lambda values: Statistic(take(values))

    def _request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        if self.process.obs is None:
            known = self._get_static_labels()
            take = rounds.request_frequencies(
                [make_computational_factor(known)], list(map(self._wires, known))
            )
            return self._make_marginal_statistic(take, jax.vmap)
        qubits = list(map(self._wires, self.process.obs.wires))
        take = rounds.request_frequencies(self._diagonalize(), qubits)
        return lambda values: Statistic(take(values))

    def _diagonalize(self) -> list[DiagonalFactor]:
        """Return the factors of its observable, and one for wires with identities alone."""
        diagonals = diagonalize_with_pennylane(self.process.obs, self._where)
        labels = [wire for diagonal in diagonals for wire in diagonal.wires]
        others = [wire for wire in self.process.obs.wires if wire not in labels]
        return [*diagonals, make_computational_factor(others)]

    def _make_marginal_statistic(
        self, take: Callable[[Any], Any], of_groups: Callable[..., Any]
    ) -> StatisticMaker:
        """Return what makes the result of the probabilities of known wires."""
        if not any(map(is_dynamic, self.process.wires)):
            return lambda values: Statistic(take(values))
        add_up = of_groups(make_dynamic_wire_marginal(self._answers, self.process))
        return lambda values: Statistic(add_up(take(values)))

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        return Statistic(jax.nn.one_hot(as_index(outcomes), 2 ** len(outcomes), dtype=float))


class StateFunction(Process):
    """A function of the state that PennyLane knows; of no mixture."""

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        take = asked.request_state(self._name)
        qubits = {wire: self._wires(wire) for wire in self.process.wires}
        process = self.process.map_wires(qubits)
        order = qml.wires.Wires(range(len(self._wires)))
        # Of the class: results outlive the circuit, whose tracers this has.
        of = type(self)._process_state
        return lambda values: Statistic(take(values), lambda state: of(process, state, order))

    @classmethod
    def _process_state(
        cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any
    ) -> Any:
        if state.ndim == 2:
            return process.process_density_matrix(state, order)
        return process.process_state(state, order)


class StateProcess(StateFunction):
    """The state itself."""

    @classmethod
    def _process_state(
        cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any
    ) -> Any:
        return state if state.ndim == 2 else super()._process_state(process, state, order)


class DensityMatrixFunction(Process):
    """A function of the density matrix of its wires."""

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        qubits = list(map(self._wires, self.process.wires))
        check_state_fits(len(qubits), self._where, axes=2)
        take = asked.request_density_matrix(qubits, self._name)
        finish = functools.partial(type(self)._process_matrix, self.process)
        return lambda values: Statistic(take(values), finish)

    @staticmethod
    def _process_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        wires = process.wires
        with qml.QueuingManager.stop_recording():
            on_first = process.map_wires(dict(zip(wires, range(len(wires)), strict=True)))
            return on_first.process_density_matrix(matrix, qml.wires.Wires(range(len(wires))))


class DensityMatrixProcess(DensityMatrixFunction):
    """The density matrix itself."""

    @staticmethod
    def _process_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        return matrix


class ClassicalValue(Process):
    """A value that is no measurement: it is as it is, or one for each shot that is a run."""

    def request_exact(self, asked: ExactValues) -> StatisticMaker:
        """Return what makes a statistic of it."""
        return lambda _: Statistic(self.process, is_measured=False)

    def request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        """Return what makes a statistic of it, for each shot or each group of these."""
        answers, value = self._answers, self.process
        if answers.is_one_shot:
            values = answers.broadcast_to_shots(value)
        else:
            values = jnp.broadcast_to(value, (len(answers.groups), *value.shape))
        is_of_shots = answers.is_one_shot
        return lambda _: Statistic(values, is_per_shot=is_of_shots, is_measured=False)


# By PennyLane's class: what users call it, and ours; without a name, the name is the class's own.
_CLASSES: dict[type, tuple[str, type[Process]]] = {
    mp.ExpectationMP: ("expval", ExpvalProcess),
    mp.VarianceMP: ("var", VarProcess),
    mp.ProbabilityMP: ("probs", ProbabilitiesProcess),
    mp.SampleMP: ("sample", SampleProcess),
    mp.CountsMP: ("counts", CountsProcess),
    mp.StateMP: ("state", StateProcess),
    mp.DensityMatrixMP: ("density_matrix", DensityMatrixProcess),
    mp.PurityMP: ("purity", DensityMatrixFunction),
    mp.VnEntropyMP: ("vn_entropy", DensityMatrixFunction),
    mp.MutualInfoMP: ("mutual_info", DensityMatrixFunction),
    mp.ClassicalShadowMP: ("classical_shadow", ClassicalShadow),
    mp.ShadowExpvalMP: ("shadow_expval", ShadowExpval),
    mp.SampleMeasurement: ("", UserSampleProcess),
    mp.StateMeasurement: ("", StateFunction),
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
            makers = [process.request_exact(exact) for process in processes]
            computed = exact.compute()
            return [make(computed) for make in makers]
        rounds = SamplingRounds(answers.groups)
        makers = [process.request_samples(rounds) for process in processes]
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
        return ClassicalValue("", jnp.asarray(leaf), answers)
    name, kind = _find_class(leaf)
    return kind(name, leaf, answers)


def _find_class(process: object) -> tuple[str, type[Process]]:
    """Return the name that users call for a process of PennyLane's, and our class for it."""
    kinds = type(process).__mro__
    name, kind = next(_CLASSES[base] for base in kinds if base in _CLASSES)
    return name or type(process).__name__, kind
