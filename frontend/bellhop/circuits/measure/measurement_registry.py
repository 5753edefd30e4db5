"""Find the class for each PennyLane measurement process, and measure with it.

Expectation values, variances and probabilities of observables, wires and mid-circuit outcomes work
with and without shots.  The state, and functions of the density matrix of some wires, need exact
values.  A circuit that is executed for each combination of mid-circuit outcomes ends in a mixed
state.  Purity and entropy are nonlinear, so they are computed from the sum of the density matrices
of all executions, and not summed over executions.
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
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.dynamic_wires import make_dynamic_wire_marginal
from bellhop.circuits.measure.measurement_base import (
    Process,
    as_index,
    bool_to_int,
    check_outcomes,
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
    """Measures ``qml.expval`` of an observable or of a mid-circuit outcome."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request the expectation value; return a function from ``compute()`` to its statistic."""
        take = asked.request_expval(self._expand_dynamic_wires())
        return lambda values: Statistic(take(values))

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request frequencies for each term of the observable, in the term's eigenbasis.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the estimated
            expectation values, an array ``[shot groups]``. Backends combine its values over all
            executions of the circuit, and then compute the result.
        """
        means = [
            (
                jnp.real(c),
                request_product_mean(list(map(diagonalize, factors)), rounds, self._wires),
            )
            for c, factors in find_terms(self._expand_dynamic_wires(), self._where)
        ]
        return lambda values: Statistic(sum(c * mean(values) for c, mean in means))

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Return the outcome as a float; its mean over executions is the expectation value."""
        return Statistic(bool_to_int(outcomes[0]).astype(float))


class VarProcess(Process):
    """Measures ``qml.var`` of an observable or of a mid-circuit outcome."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request the variance; return a function from ``compute()`` to its statistic."""
        return asked.request_variance(self._expand_dynamic_wires())

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request frequencies in the observable's eigenbasis.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the variances,
            whose values are the mean and the mean square, arrays ``[shot groups]``. Backends
            combine its values over all executions of the circuit, and then compute the result.
        """
        coefficient, diagonals = as_diagonals(self._expand_dynamic_wires(), self._where)
        mean, square = (
            request_product_mean(diagonals, rounds, self._wires, power=p) for p in (1, 2)
        )
        scale = jnp.real(coefficient)
        return lambda values: Statistic.from_moments(
            scale * mean(values), scale**2 * square(values)
        )

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Return the statistic of a variance, with the outcome and its square as moments."""
        value = bool_to_int(outcomes[0]).astype(float)
        return Statistic.from_moments(value, value**2)


class ProbabilitiesProcess(Process):
    """Measures ``qml.probs`` of wires (by default all), an observable or outcomes.

    For an observable, the result has the probabilities of its eigenvalues, in PennyLane's order;
    for mid-circuit outcomes, of each combination of outcomes.
    """

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request probabilities of the process's wires, or in the observable's eigenbasis.

        If some wires are traced, the probabilities of all wires are requested.

        Returns:
            a function from the result of ``asked.compute()`` to the ``Statistic`` of the
            probabilities. Backends combine its values over all executions of the circuit, and then
            compute the result.
        """
        if self.process.obs is None:
            return self._make_marginal_statistic(
                asked.request_probabilities(self._get_static_labels()), lambda add: add
            )
        diagonals = self._diagonalize()
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        take = asked.request_probabilities(self.process.obs.wires, gates)
        return lambda values: Statistic(take(values))

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request frequencies of the process's wires, or in the observable's eigenbasis.

        If some wires are traced, the frequencies of all wires are requested.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the
            frequencies, with an axis of shot groups. Backends combine its values over all
            executions of the circuit, and then compute the result.
        """
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
        """Return this process's observable as diagonal factors that cover all its wires.

        Wires on which the observable is the identity have no factor of the observable; they form
        one more factor, in the computational basis.
        """
        diagonals = diagonalize_with_pennylane(self.process.obs, self._where)
        labels = [wire for diagonal in diagonals for wire in diagonal.wires]
        others = [wire for wire in self.process.obs.wires if wire not in labels]
        return [*diagonals, make_computational_factor(others)]

    def _make_marginal_statistic(
        self, take: Callable[[Any], Any], of_groups: Callable[..., Any]
    ) -> Callable[[Any], Statistic]:
        """Make a function that computes the ``Statistic`` of the probabilities of wires.

        If some wires are traced, the backend has measured all wires: the function then adds up
        probabilities to the marginal probabilities of the process's wires, and a check of the
        traced wires is added to the circuit.

        Args:
            take: returns the probabilities of the measured wires from the backend's values.
            of_groups: wraps the function that adds up probabilities: ``jax.vmap`` if the
                probabilities have an axis of shot groups, else the identity function.

        Returns:
            a function from the backend's values (of ``compute()`` or ``sample()``) to the
            statistic.
        """
        if not any(map(is_dynamic, self.process.wires)):
            return lambda values: Statistic(take(values))
        add_up = of_groups(make_dynamic_wire_marginal(self._answers, self.process))
        return lambda values: Statistic(add_up(take(values)))

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Return a one-hot vector for the outcomes; its mean is their probabilities."""
        return Statistic(jax.nn.one_hot(as_index(outcomes), 2 ** len(outcomes), dtype=float))


class StateFunction(Process):
    """Measures a PennyLane `StateMeasurement`: a function of the state vector.

    PennyLane's class computes the result, by ``process_state`` or ``process_density_matrix``.
    Examples are classes that users derive from `StateMeasurement`.
    """

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request the state vector or the density matrix of a mixed state.

        Returns:
            a function from the result of ``asked.compute()`` to a ``Statistic``, whose ``finish``
            applies PennyLane's function to the state.
        """
        take = asked.request_state(self._name)
        qubits = {wire: self._wires(wire) for wire in self.process.wires}
        process = self.process.map_wires(qubits)
        order = qml.wires.Wires(range(len(self._wires)))
        # A method of the class: the result outlives the circuit, and `self` holds its tracers.
        of = type(self)._process_state
        return lambda values: Statistic(take(values), lambda state: of(process, state, order))

    @classmethod
    def _process_state(
        cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any
    ) -> Any:
        """Compute the result of a measurement from the state, with PennyLane.

        Args:
            process: measurement process whose wires are qubit indices.
            state: state vector ``[2**n]``, or a density matrix ``[2**n, 2**n]``.
            order: ``qml.wires.Wires`` of all qubit indices, in the order of the state's bits.
        """
        if state.ndim == 2:
            return process.process_density_matrix(state, order)
        return process.process_state(state, order)


class StateProcess(StateFunction):
    """Measures ``qml.state``: a state vector, or a density matrix of a mixed state."""

    @classmethod
    def _process_state(
        cls, process: qml.measurements.MeasurementProcess, state: Any, order: Any
    ) -> Any:
        """Return a density matrix unchanged, and a state vector as PennyLane's process does."""
        return state if state.ndim == 2 else super()._process_state(process, state, order)


class DensityMatrixFunction(Process):
    """Measures a function of the density matrix of some wires, such as ``qml.purity``."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request the reduced density matrix of this process's wires.

        Returns:
            a function from the result of ``asked.compute()`` to a ``Statistic``, whose ``finish``
            applies PennyLane's function to the sum of the density matrices of all executions.

        Raises:
            CompileError: if the matrix does not fit into memory.
        """
        qubits = list(map(self._wires, self.process.wires))
        MemoryCheck(self._where).check_state(len(qubits), axes=2)
        take = asked.request_density_matrix(qubits, self._name)
        finish = functools.partial(type(self)._process_matrix, self.process)
        return lambda values: Statistic(take(values), finish)

    @staticmethod
    def _process_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        """Compute the result of a measurement from a density matrix, with PennyLane.

        Args:
            process: measurement process on wire labels.
            matrix: ``[2**wires, 2**wires]``, the reduced density matrix of the process's wires.
        """
        wires = process.wires
        with qml.QueuingManager.stop_recording():
            on_first = process.map_wires(dict(zip(wires, range(len(wires)), strict=True)))
            return on_first.process_density_matrix(matrix, qml.wires.Wires(range(len(wires))))


class DensityMatrixProcess(DensityMatrixFunction):
    """Measures ``qml.density_matrix``: the reduced density matrix of some wires."""

    @staticmethod
    def _process_matrix(process: qml.measurements.MeasurementProcess, matrix: Operand) -> Any:
        """Return the density matrix unchanged."""
        return matrix


class ClassicalValue(Process):
    """A returned number or array, which is the result itself; measures nothing.

    The class lets `measure_results` treat such values like measurements.
    """

    def request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Request nothing; return a function from any argument to the value's ``Statistic``."""
        return lambda _: Statistic(self.process, is_measured=False)

    def request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request nothing; return a function that ignores its argument.

        Returns:
            a function from anything to the value's ``Statistic``. This has a copy of the value for
            each shot if shots may differ in their mid-circuit outcomes, else for each group of
            shots.
        """
        answers, value = self._answers, self.process
        if answers.is_one_shot:
            values = answers.broadcast_to_shots(value)
        else:
            values = jnp.broadcast_to(value, (len(answers.groups), *value.shape))
        is_of_shots = answers.is_one_shot
        return lambda _: Statistic(values, is_per_shot=is_of_shots, is_measured=False)


# By PennyLane class: the user-facing function ("" for the name of the class), and Bellhop's class.
CLASSES: dict[type, tuple[str, type[Process]]] = {
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
    """Measure the return values of a quantum function, after all gates were applied.

    Backends call this function once for each execution that they trace. With shots, it applies
    gates to the circuit that rotate wires into the bases of measurements; the last rotations are
    not undone.

    Args:
        leaves: PennyLane's measurement processes, and numbers or arrays.
        answers: the traced circuit after its last gate, which is sampled if the circuit has shots.
        exact: computes the exact values of a circuit without shots; None for a circuit with shots,
            which is sampled.

    Returns:
        a ``Statistic`` for each leaf, in order: values of this execution, and a function that
        computes the result when the backend has combined the values of all executions.

    Raises:
        CompileError: if a measurement is not supported, or needs shots.
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
    """Return whether a return value is a classical shadow or is computed from one."""
    return is_measurement(leaf) and _find_class(type(leaf))[1].needs_snapshots


def is_computed_from_tape(kind: type) -> bool:
    """Return whether a PennyLane class is a `MeasurementTransform` that Bellhop has no class for.

    PennyLane computes such a measurement from the tape. PennyLane's own classical shadows are also
    `MeasurementTransform`s, but Bellhop measures them.
    """
    return issubclass(kind, mp.MeasurementTransform) and _find_class(kind)[1] is Process


def find_outcomes(
    process: qml.measurements.MeasurementProcess, site: MeasurementSite
) -> Sequence[Any]:
    """Return the mid-circuit outcomes that a process measures, after a check.

    Any traced scalar is accepted if the circuit has a mid-circuit measurement; whether it is an
    outcome of this circuit is not checked.

    Args:
        process: PennyLane's measurement process, whose ``mv`` is not None.
        site: the backend's circuit after its gates.

    Returns:
        the traced scalars of ``process.mv``.

    Raises:
        CompileError: if a value is not a traced scalar, or the circuit has no mid-circuit
            measurement.
    """
    return check_outcomes(process, _find_class(type(process))[0], site)


def _as_process(leaf: object, answers: Answers) -> Process:
    """Create Bellhop's measurement object for a return value of a quantum function.

    Args:
        leaf: PennyLane's measurement process, or a number or array.
        answers: the traced circuit after its last gate, which is sampled and checks wires.

    Returns:
        a new object of a class of ``CLASSES`` for PennyLane's measurement process; a
        `ClassicalValue` for a number or array.
    """
    if not is_measurement(leaf):
        return ClassicalValue("", jnp.asarray(leaf), answers)
    name, kind = _find_class(type(leaf))
    return kind(name, leaf, answers)


def _find_class(process_type: type) -> tuple[str, type[Process]]:
    """Find Bellhop's class for a class of PennyLane measurement processes.

    Returns:
        the function that users call, such as ``"expval"``, for errors; and the subclass of
        `Process`.
    """
    name, kind = next(CLASSES[base] for base in process_type.__mro__ if base in CLASSES)
    return name or process_type.__name__, kind
