"""Measurement processes of PennyLane, a class for each kind.

    without_shots   its value, of what a device measures or a state gives   expval: E[A]
    with_shots      its value, of frequencies or of samples                 expval: f @ [1, -1]

and the same where it stands over mid-circuit outcomes.  ``processes`` has the list of them.  Shape,
type and derivative are those of what devices measure for them, ``device_measurements``.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.answers import Answers, MeasurementSite
from bellhop.circuits.ir.statistics import ExactValues, Statistic, StatisticMaker, unsupported_error
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.dynamic_wires import expand_dynamic_wires
from bellhop.circuits.measure.sampling import SamplingRounds
from bellhop.errors import CompileError


class Process:
    """A measurement process at the end of a circuit.

    Args:
        name: the name that users call, for errors.
        process: PennyLane's.
        answers: answers what the process asks of the circuit.
    """

    def __init__(
        self, name: str, process: qml.measurements.MeasurementProcess, answers: Answers
    ) -> None:
        self.process = process
        self._name = name
        self._answers = answers
        self._wires = answers.wires
        self._where = answers.where

    def request_exact(self, asked: ExactValues) -> StatisticMaker:
        """Ask for exact values.

        Args:
            asked: the exact values of the circuit, to which those of this process are added.

        Returns:
            a function of the computed values that returns the statistic.
        """
        with self._answers.error_location(self.process):
            if self.process.mv is None:
                return self._request_exact(asked)
            statistic = self._make_outcome_statistic(self._outcomes())
        weight = asked.request_probability()
        return lambda values: statistic.map_values(lambda value: weight(values) * value)

    def request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        """Ask for samples.

        Args:
            rounds: the rounds of samples, to which those of this process are added.

        Returns:
            a function of the sampled values that returns the statistic.
        """
        with self._answers.error_location(self.process):
            if self.process.mv is None:
                return self._request_samples(rounds)
            statistic = self._make_sampled_outcome_statistic(self._outcomes())
        return lambda _: statistic

    def _request_exact(self, asked: ExactValues) -> StatisticMaker:
        raise self._unsupported_error(
            "without shots", "Measure expval, var, probs, state or density_matrix."
        )

    def _request_samples(self, rounds: SamplingRounds) -> StatisticMaker:
        instead = "Measure expval, var, probs, sample or counts"
        has_exact = type(self)._request_exact is not Process._request_exact
        raise self._unsupported_error(
            "with shots", f"{instead}, or set shots to None." if has_exact else f"{instead}."
        )

    def _make_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Return the statistic of a run, of whose values there is a mean over all runs."""
        raise self._needs_shots_error()

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        return self._make_outcome_statistic(outcomes).map_values(self._answers.average_over_groups)

    def _outcomes(self) -> Sequence[Any]:
        return checked_outcomes(self.process, self._name, self._answers)

    def _needs_shots_error(self) -> CompileError:
        return CompileError(
            f"{self._where}: {self._name} needs shots, and the QNode has none. Set them: "
            "qml.set_shots(circuit, 100)."
        )

    def _unsupported_error(self, how: str, instead: str) -> CompileError:
        return unsupported_error(self._where, f"{self._name} {how}", instead)

    def _get_observable(self) -> Any:
        """Return the observable; the diagonal one, where it is given by its eigenvalues alone."""
        if self.process.obs is not None:
            return self.process.obs
        return qml.Hermitian(np.diag(self.process.eigvals()), wires=self.process.wires)

    def _expand_dynamic_wires(self) -> Any:
        """Return the observable on wires that are known while the circuit is traced."""
        return expand_dynamic_wires(self._get_observable(), self.process, self._answers)

    def _get_labels(self) -> tuple[Any, ...]:
        """Return its wires, all where it names none."""
        return tuple(self.process.wires) or self._wires.labels

    def _get_static_labels(self) -> tuple[Any, ...]:
        """Return its wires, or all where the program computes some of them."""
        labels = self._get_labels()
        return self._wires.labels if any(map(is_dynamic, labels)) else labels


def checked_outcomes(
    process: qml.measurements.MeasurementProcess, name: str, site: MeasurementSite
) -> Sequence[Any]:
    """Return the mid-circuit outcomes that a process measures.

    Args:
        process: PennyLane's, whose ``mv`` is one outcome or a list of outcomes.
        name: the name that users call, for errors.
        site: the end of the circuit.

    Returns:
        boolean or integer scalars, all traced.

    Raises:
        CompileError: where they were not made by ``bellhop.measure`` in this circuit.
    """
    several = isinstance(process.mv, list)
    outcomes = process.mv if several else [process.mv]
    for value in outcomes:
        if not is_dynamic(value) or value.shape:
            raise CompileError(
                f"{site.where}: {name} of {value!r}, which is not the outcome of a "
                "mid-circuit measurement. Measure with bellhop.measure."
            )
    if not site.has_mid_circuit:
        raise CompileError(
            f"{site.where}: {name} of a number, and no wire was measured before whose "
            "outcome it could be. Return the number itself, or give an observable."
        )
    return outcomes


def as_index(outcomes: Sequence[Any]) -> Any:
    """Return the number that outcomes are the bits of."""
    index: Any = jnp.zeros((), int)
    for outcome in outcomes:
        index = 2 * index + jnp.asarray(outcome, int)
    return index


def as_number(outcome: Any) -> Any:
    """Return an outcome, or an expression of some, as a number."""
    return jnp.asarray(outcome, int if outcome.dtype == bool else None)
