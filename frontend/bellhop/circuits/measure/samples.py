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
from bellhop.circuits.measure.measurement_base import Process, as_index, bool_to_int
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
    """Base class for ``qml.sample`` and ``qml.counts``: a value for each shot."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Raise an error, as the measurement needs shots."""
        raise self._needs_shots_error()

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request the bits of all shots, in the observable's eigenbasis if there is an observable.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the samples or
            counts. Backends combine its values over all executions of the circuit, and then compute
            the result.
        """
        if self.process.obs is None and self.process.eigvals() is None:
            return self._request_wires(rounds)
        coefficient, diagonals = as_diagonals(self._get_observable(), self._where)
        # Raises for a traced wire now, where the error names this measurement.
        self._find_columns([wire for diagonal in diagonals for wire in diagonal.wires])
        take = rounds.request_outcomes(diagonals)
        return lambda values: self._make_eigenvalue_statistic(coefficient, diagonals, take(values))

    def _request_wires(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request bits of this process's wires in the computational basis.

        If a wire is traced, the bits of all wires are requested, and the columns of this process's
        wires are selected when the program runs. Without wires, nothing is requested.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the samples or
            counts. Backends combine its values over all executions of the circuit, and then compute
            the result.
        """
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
        """Return the qubit index of each wire label, as an array."""
        return np.array([self._wires(label) for label in labels], int)

    @abstractmethod
    def _make_bits_statistic(self, bits: Any) -> Statistic:
        """Make the statistic of measured wires from their bits, an array ``[shots, wires]``."""

    @abstractmethod
    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Make the statistic of an observable from sampled bits; subclasses define it.

        Args:
            coefficient: scalar factor of the observable, static or traced.
            diagonals: the factors of the observable, on disjoint wires, with their eigenvalues.
            bits: ``[shots, qubits]``, bits of all qubits in the eigenbasis of the factors.

        Returns:
            a ``Statistic`` of the eigenvalues of the shots, or of their counts.
        """


def _select_columns(bits: Any, columns: Any) -> Any:
    """Return ``bits[:, columns]``, or ``bits`` itself if these are all columns in order."""
    are_all = not is_dynamic(columns) and np.array_equal(columns, np.arange(bits.shape[1]))
    return bits if are_all else bits[:, columns]


class SampleProcess(_ShotProcess):
    """Measures ``qml.sample`` of wires, of an observable or of mid-circuit outcomes."""

    def _make_bits_statistic(self, bits: Any) -> Statistic:
        """Return the statistic of samples of wires: the bits ``[shots, wires]``, by default int."""
        return self._make_typed_statistic(bits, int)

    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Make the statistic of samples of an observable: its eigenvalue in each shot.

        Args:
            coefficient: scalar factor of the observable, static or traced.
            diagonals: the factors of the observable, on disjoint wires, with their eigenvalues.
            bits: ``[shots, qubits]``, bits of all qubits in the eigenbasis of the factors.

        Returns:
            a ``Statistic`` of values ``[shots]``, of the dtype of the process; float by default.
        """
        values = jnp.full(bits.shape[0], jnp.real(coefficient))
        for diagonal in diagonals:
            outcome = Samples.to_integers(bits[:, self._find_columns(diagonal.wires)])
            values = values * jnp.asarray(diagonal.eigenvalues)[outcome]
        return self._make_typed_statistic(values, float)

    def _make_typed_statistic(self, values: Any, default: type) -> Statistic:
        """Make the statistic of a value for each shot.

        Args:
            values: array ``[shots, ...]``.
            default: the dtype to which the values are cast if the user chose none.
        """
        dtype = getattr(self.process, "_dtype", None) or default
        return Statistic(values.astype(dtype), is_per_shot=True)

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Make the statistic of samples of mid-circuit outcomes.

        Returns:
            a ``Statistic`` of values ``[shots]`` for one outcome or an expression of outcomes, and
            ``[shots, outcomes]`` for a list.
        """
        several = isinstance(self.process.mv, list)
        value = bool_to_int(jnp.stack(outcomes) if several else outcomes[0])
        return Statistic(self._answers.broadcast_to_shots(value), is_per_shot=True)


class CountsProcess(_ShotProcess):
    """Measures ``qml.counts``: distinct values, and how many shots gave each value.

    The result is a pair of arrays; PennyLane returns a dictionary.
    """

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request the count of each outcome, or samples where counts would not be exact.

        Counts are computed from frequencies, see `_has_exact_frequencies`. Samples are also
        requested if a wire is traced.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the counts.
            Backends combine its values over all executions of the circuit, and then compute the
            result.
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
        take = rounds.request_counts(diagonals, [int(column) for column in columns])
        return lambda answers: _make_statistic_from_counts(take(answers), values)

    def _has_exact_frequencies(self) -> bool:
        """Return whether frequencies times the number of shots are exact counts.

        False if shots may be dropped, if each shot is a separate execution, or if there are too
        many shots for single precision.
        """
        answers = self._answers
        if answers.drops_shots or answers.has_run_per_shot:
            return False
        return Precision.is_double() or sum(answers.groups) < _MOST_SHOTS_IN_SINGLE

    def _make_bits_statistic(self, bits: Any) -> Statistic:
        """Make the statistic of the counts of basis states, from bits ``[shots, wires]``."""
        return _make_statistic_from_samples(
            Samples.to_integers(bits), np.arange(2 ** bits.shape[1])
        )

    def _make_eigenvalue_statistic(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor], bits: Any
    ) -> Statistic:
        """Make the statistic of the counts of an observable's eigenvalues.

        Args:
            coefficient: scalar factor of the observable, static or traced.
            diagonals: the factors of the observable, on disjoint wires, with their eigenvalues.
            bits: ``[shots, qubits]``, bits of all qubits in the eigenbasis of the factors.

        Returns:
            a ``Statistic`` whose result is the pair (distinct eigenvalues, counts).

        Raises:
            CompileError: if an eigenvalue is traced.
        """
        eigenvalues = self._compute_known_eigenvalues(coefficient, diagonals)
        columns = self._find_columns([wire for diagonal in diagonals for wire in diagonal.wires])
        return _make_statistic_from_samples(Samples.to_integers(bits[:, columns]), eigenvalues)

    def _compute_known_eigenvalues(
        self, coefficient: Operand, diagonals: Sequence[DiagonalFactor]
    ) -> np.ndarray:
        """Compute the observable's eigenvalue for each outcome of its wires.

        Args:
            coefficient: scalar factor of the observable.
            diagonals: the factors of the observable, on disjoint wires, with their eigenvalues.

        Returns:
            real NumPy array ``[2**wires]`` for all wires of the factors together.

        Raises:
            CompileError: if an eigenvalue is traced.
        """
        eigenvalues = coefficient * compute_eigenvalues(diagonals)
        if is_dynamic(eigenvalues):
            raise self._unsupported_error(
                "of an observable with traced eigenvalues", "Use qml.sample of the observable."
            )
        return np.real(eigenvalues)

    def _make_sampled_outcome_statistic(self, outcomes: Sequence[Any]) -> Statistic:
        """Make the statistic of the counts of combinations of mid-circuit outcomes.

        Args:
            outcomes: traced bools; the first is the most significant bit of a combination.

        Returns:
            a ``Statistic`` whose result is the pair (combinations as integers, counts).

        Raises:
            CompileError: for an expression of outcomes, whose values are not static.
        """
        if len(outcomes) == 1 and outcomes[0].dtype != bool:
            raise self._unsupported_error(
                "of an expression of mid-circuit outcomes, whose values are not known at compile "
                "time",
                "Use qml.sample of the expression, or qml.counts of the outcomes.",
            )
        index = self._answers.broadcast_to_shots(as_index(outcomes))
        return _make_statistic_from_samples(index, np.arange(2 ** len(outcomes)))


def _find_distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct values in an array, apart from rounding errors.

    Returns:
        the distinct values in ascending order; and for each entry of ``values`` the index of its
        value among them.
    """
    # Eigenvalues that differ by rounding are equal.
    return np.unique(np.round(values, 12), return_inverse=True)


def _make_statistic_from_counts(counts: Any, values: np.ndarray) -> Statistic:
    """Make a statistic that adds up the counts of outcomes that have the same value.

    Args:
        counts: integers ``[groups, outcomes]``, how many shots gave each outcome.
        values: the value of each outcome; values that differ by rounding errors are equal.

    Returns:
        a ``Statistic`` whose result is the pair (distinct values, counts).
    """
    distinct, place = _find_distinct(values)

    def finish(counts: Any) -> Any:
        """Return the distinct values, and their counts from one group's counts of outcomes."""
        in_order = np.array_equal(place, np.arange(len(distinct)))
        of_values = counts if in_order else jnp.zeros(len(distinct), int).at[place].add(counts)
        return jnp.asarray(distinct), of_values

    return Statistic(counts, finish)


def _make_statistic_from_samples(samples: Any, values: np.ndarray) -> Statistic:
    """Make a statistic that counts how many shots gave each value.

    Args:
        samples: integers ``[shots]``, the outcome of each shot; negative for a dropped shot, which
            is not counted.
        values: the value of each outcome; values that differ by rounding errors are equal.

    Returns:
        a ``Statistic`` whose result is the pair (distinct values, counts).
    """
    distinct, place = _find_distinct(values)

    def finish(samples: Any) -> Any:
        """Return the distinct values, and their counts from one group's samples."""
        n = len(distinct)
        bins = jnp.where(samples < 0, n, jnp.asarray(place)[samples])
        return jnp.asarray(distinct), jnp.bincount(bins, length=n + 1)[:n]

    return Statistic(samples, finish, is_per_shot=True)
