"""Measure samples and counts: a value for each shot, and the count of each value."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.ir.device_measurements import Samples
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.measurement_base import Process, as_index, as_number
from bellhop.circuits.measure.sampling import (
    DiagonalFactor,
    SamplingRounds,
    as_diagonals,
    compute_eigenvalues,
    make_computational_factor,
)

# Up to this number of shots, a frequency in single precision times the shots rounds to the count.
_MOST_SHOTS_IN_SINGLE = 1 << 22


class _ShotProcess(Process):
    """The base class of processes that need a value for each shot."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        raise self._needs_shots_error()

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request bits of wires, or of the observable's eigenbasis."""
        if self.process.obs is None and self.process.eigvals() is None:
            return self._request_wires(rounds)
        coefficient, diagonals = as_diagonals(self._get_observable(), self._where)
        take = rounds.request_outcomes(diagonals)
        return lambda values: self._make_eigenvalue_statistic(coefficient, diagonals, take(values))

    def _request_wires(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request bits of the process's wires, some of which may be traced."""
        labels = self._get_labels()
        if any(map(is_dynamic, labels)):
            self._answers.check_wires(labels, self.process)
            columns = jnp.stack([jnp.asarray(self._wires.get_qubit(label)) for label in labels])
        else:
            columns = self._find_columns(labels)
        if labels:
            take = rounds.request_outcomes([make_computational_factor(self._get_static_labels())])
        else:
            # There is one outcome, of which no device need be asked.
            take = lambda _: self._answers.broadcast_to_shots(jnp.zeros(0, np.uint8))
        return lambda values: self._make_bits_statistic(_select_columns(take(values), columns))

    def _find_columns(self, labels: Sequence[Any]) -> Any:
        return np.array([self._wires(label) for label in labels], int)

    @abstractmethod
    def _make_bits_statistic(self, bits: Any) -> Statistic:
        """Return the statistic of wires, from bits ``[shots, wires]``."""

    @abstractmethod
    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Return the statistic of an observable.

        Args:
            coefficient: scalar factor of the observable.
            diagonals: diagonal factors of the observable.
            bits: ``[shots, qubits]``, bits of all qubits in the eigenbasis.
        """


def _select_columns(bits: Any, columns: Any) -> Any:
    """Return the columns of an array; the array itself where these are all, in order."""
    are_all = not is_dynamic(columns) and np.array_equal(columns, np.arange(bits.shape[1]))
    return bits if are_all else bits[:, columns]


class SampleProcess(_ShotProcess):
    """The samples of wires, of an observable or of mid-circuit outcomes."""

    def _make_bits_statistic(self, bits: Any) -> Statistic:
        return self._make_typed_statistic(bits, int)

    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Return the observable's eigenvalue for each shot."""
        values = jnp.full(bits.shape[0], jnp.real(coefficient))
        for diagonal in diagonals:
            outcome = Samples.to_integers(bits[:, self._find_columns(diagonal.wires)])
            values = values * jnp.asarray(diagonal.eigenvalues)[outcome]
        return self._make_typed_statistic(values, float)

    def _make_typed_statistic(self, values: Any, default: type) -> Statistic:
        dtype = getattr(self.process, "_dtype", None) or default
        return Statistic(values.astype(dtype), is_per_shot=True)

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        several = isinstance(self.process.mv, list)
        value = as_number(jnp.stack(outcomes) if several else outcomes[0])
        return Statistic(self._answers.broadcast_to_shots(value), is_per_shot=True)


class CountsProcess(_ShotProcess):
    """The distinct values, and the number of shots that gave each value."""

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request counts if frequencies are exact, and samples otherwise.

        Args:
            rounds: collects the requests of all measurements.

        Returns:
            a function that computes the statistic from the answers to the requests.
        """
        if not self._has_exact_frequencies() or any(map(is_dynamic, self._get_labels())):
            return super()._request_samples(rounds)
        if self.process.obs is not None or self.process.eigvals() is not None:
            coefficient, diagonals = as_diagonals(self._get_observable(), self._where)
            values = self._compute_known_eigenvalues(coefficient, diagonals)
        else:
            diagonals = [make_computational_factor(self._get_labels())]
            values = np.arange(2 ** len(self._get_labels()))
        columns = self._find_columns([wire for diagonal in diagonals for wire in diagonal.wires])
        take = rounds.counts(diagonals, [int(column) for column in columns])
        return lambda answers: _sum_of_counts(take(answers), values)

    def _has_exact_frequencies(self) -> bool:
        """Return whether frequencies, times the shots of a group, are counts of its shots."""
        answers = self._answers
        if answers.drops_shots or answers.has_run_per_shot:
            return False
        return Precision.is_double() or sum(answers.groups) < _MOST_SHOTS_IN_SINGLE

    def _make_bits_statistic(self, bits: Any) -> Statistic:
        return _make_counts_statistic(Samples.to_integers(bits), np.arange(2 ** bits.shape[1]))

    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Return the counts of an observable's eigenvalues.

        Args:
            coefficient: factor of the observable.
            diagonals: its factors after diagonalization.
            bits: ``[shots, wires]`` samples.
        """
        eigenvalues = self._compute_known_eigenvalues(coefficient, diagonals)
        columns = self._find_columns([wire for diagonal in diagonals for wire in diagonal.wires])
        return _make_counts_statistic(Samples.to_integers(bits[:, columns]), eigenvalues)

    def _compute_known_eigenvalues(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor]
    ) -> np.ndarray:
        """Return the eigenvalue of each outcome, which must be known while tracing.

        Raises:
            CompileError: if an eigenvalue is traced.
        """
        eigenvalues = coefficient * compute_eigenvalues(diagonals)
        if is_dynamic(eigenvalues):
            raise self._unsupported_error(
                "of an observable whose eigenvalues the program computes", "Use qml.sample of it."
            )
        return np.real(eigenvalues)

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Count the combinations of mid-circuit outcomes."""
        if len(outcomes) == 1 and outcomes[0].dtype != bool:
            raise self._unsupported_error(
                "of an expression of outcomes, whose values are not known beforehand",
                "Use qml.sample of it, or qml.counts of the outcomes.",
            )
        index = self._answers.broadcast_to_shots(as_index(outcomes))
        return _make_counts_statistic(index, np.arange(2 ** len(outcomes)))


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, and the index of each value among these."""
    # Eigenvalues that differ by rounding are equal.
    return np.unique(np.round(values, 12), return_inverse=True)


def _sum_of_counts(counts: Any, values: np.ndarray) -> Statistic:
    """Add up the counts of outcomes that have the same value.

    Args:
        counts: integers, a row for each group of shots and a column for each outcome.
        values: the value of each outcome.
    """
    distinct, place = _distinct(values)

    def finish(counts: Any) -> Any:
        in_order = np.array_equal(place, np.arange(len(distinct)))
        of_values = counts if in_order else jnp.zeros(len(distinct), int).at[place].add(counts)
        return jnp.asarray(distinct), of_values

    return Statistic(counts, finish)


def _make_counts_statistic(samples: Any, values: np.ndarray) -> Statistic:
    """Count the values of outcomes, equal ones together, without the shots that were dropped."""
    distinct, place = _distinct(values)

    def finish(samples: Any) -> Any:
        n = len(distinct)
        bins = jnp.where(samples < 0, n, jnp.asarray(place)[samples])
        return jnp.asarray(distinct), jnp.bincount(bins, length=n + 1)[:n]

    return Statistic(samples, finish, is_per_shot=True)
