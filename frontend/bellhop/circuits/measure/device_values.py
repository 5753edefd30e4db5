"""Translate requests for exact values into the runtime's device measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from bellhop.base.types import Operand
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.answers import DeviceAnswers
from bellhop.circuits.ir.device_measurements import (
    Expval,
    Measurement,
    Probs,
    State,
    Var,
)
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.observable_encoding import Product, QubitFactor
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, Term, find_terms
from bellhop.circuits.measure.pauli_words import needs_pauli_words, square_words, to_pauli_words

if TYPE_CHECKING:
    import pennylane as qml


class DeviceValues(ExactValues):
    """Exact values of a circuit without shots, measured together on a device.

    Each ``request_...`` method appends measurements to a list, and returns a function that reads
    the value from the result of ``compute``, which performs all measurements in one device call.

    Args:
        answers: the traced circuit after its last gate, which measures on the device.
        is_tree: whether the circuit is executed once for each combination of mid-circuit outcomes.
            Values are then multiplied by the combination's probability, and the caller adds up the
            values of all executions.

    Attributes:
        weights: a list that ``compute`` sets. It has one entry, the probability of the current
            execution, if a postselection may make the sum of all probabilities smaller than 1: the
            caller then divides its results by the sum of these weights. Otherwise the list is
            empty.
    """

    def __init__(self, answers: DeviceAnswers, *, is_tree: bool = False) -> None:
        self._answers = answers
        self._is_tree = is_tree
        self.where = answers.where
        self._request = MeasurementRequest()
        self.weights: list[Any] = []
        self._weight: Callable[[Any], Any] | None = None
        if is_tree and answers.postselects:
            self.request_probability()

    def _add_measurement(self, measurement: Measurement) -> Callable[[Any], Any]:
        """Append a measurement to the list that ``compute`` performs.

        Returns:
            a function that picks the measurement's value from the result of ``compute()``.
        """
        index = len(self._request.measurements)
        self._request.measurements.append(measurement)
        return lambda values: values[index]

    def request_probability(self) -> Callable[[Any], Any]:
        """Request the probability of the current execution: the squared norm of its state.

        Nothing is measured for a circuit with a single execution, whose probability is 1.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """
        if not self._is_tree:
            return lambda _: 1.0
        if self._weight is None:
            self._weight = self._add_measurement(Expval(terms=((),)))
        return self._weight

    def request_expval(self, observable: qml.operation.Operator) -> Callable[[Any], Any]:
        """Request the expectation value of an observable on static wires.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """
        return self._request_observable(Expval, observable)

    def request_variance(self, observable: qml.operation.Operator) -> Callable[[Any], Statistic]:
        """Request the variance of an observable.

        If the circuit is executed for each combination of mid-circuit outcomes, the variances of
        the executions cannot be added up. The expectation value is then requested too, which gives
        two moments: the expectation values of the observable and of its square.

        Returns:
            a function from the result of ``compute()`` to a ``Statistic``: of the variance, or of
            the two moments, from whose sums over all executions it computes the variance.
        """
        variance = self._request_observable(Var, observable)
        if not self._is_tree:
            return lambda values: Statistic(variance(values))
        mean = self._request_observable(Expval, observable)
        # Devices compute the variance as <A^2> - <A>^2, also of a state that is not normalized.
        return lambda values: Statistic.from_moments(
            mean(values), variance(values) + mean(values) ** 2
        )

    def request_probabilities(
        self, wires: Sequence[Any], rotations: Sequence[Any] = ()
    ) -> Callable[[Any], Any]:
        """Request the outcome probabilities of wires, after the gates ``rotations``.

        Probabilities with rotations are measured after all other measurements: the rotations are
        applied, the wires measured, and the rotations undone.

        Args:
            wires: static wire labels, the most significant bit of an outcome first; empty for all
                wires.
            rotations: PennyLane gates that rotate the wires to the basis of the measurement.

        Returns:
            a function from the result of ``compute()`` to a real array ``[2**wires]``.
        """
        if not rotations:
            return self._add_measurement(Probs(self._find_qubits(wires)))

        def rotated(_: object) -> Any:
            """Measure the probabilities between the gates ``rotations`` and their inverses.

            This is a separate call of the device, after ``compute()``. The argument, the result of
            ``compute()``, is not used.
            """
            self._answers.apply(rotations)
            after = DeviceValues(self._answers)
            take = after.request_probabilities(wires)
            values = after.compute()
            self._answers.apply(Modifiers.invert_sequence(rotations))
            return take(values)

        return rotated

    def request_density_matrix(self, qubits: Sequence[int], name: str) -> Callable[[Any], Any]:
        """Request the reduced density matrix of qubits, computed from the state vector.

        Args:
            qubits: qubits of the density matrix, the most significant bit of a row's index first.
            name: the user's measurement, for errors.

        Returns:
            a function from the result of ``compute()`` to a square matrix of
            ``2**len(qubits)`` rows.
        """
        take = self._add_measurement(State(name))

        def matrix(values: Any) -> Any:
            """Compute the reduced density matrix from the measured state vector."""
            rows = _to_outcome_rows(take(values), qubits, self._answers.device.qubits)
            return rows @ jnp.conj(rows).T

        return matrix

    def request_state(self, name: str) -> Callable[[Any], Any]:
        """Request the state vector of a circuit that is executed once.

        Args:
            name: the user's measurement, for errors.

        Returns:
            a function from the result of ``compute()`` to a complex array ``[2**qubits]``.

        Raises:
            CompileError: if the circuit ends in a mixture of several executions.
        """
        if self._is_tree:
            raise ExactValues.mixed_state_error(self.where, name)
        return self._add_measurement(State(name))

    def compute(self) -> list[Any]:
        """Measure all requested values in one call of the device, and set ``weights``.

        Returns:
            a list with an array for each measurement, the argument of the functions that the
            ``request_...`` methods returned.
        """
        values = self._answers.measure(self._request)
        is_part = self._is_tree and self._answers.postselects
        self.weights = [self.request_probability()(values)] if is_part else []
        return values

    def _find_qubits(self, wires: Sequence[Any]) -> tuple[int, ...]:
        """Return the qubit index of each static wire label."""
        return tuple(map(self._answers.wires, wires))

    def _request_observable(
        self, kind: type[Expval | Var], observable: qml.operation.Operator
    ) -> Callable[[Any], Any]:
        """Request an expectation value or variance of an observable.

        If the device does not support the observable as a whole, each of its Pauli words is
        measured separately.

        Args:
            kind: the measurement class, which selects the expectation value or the variance.
            observable: PennyLane operator on static wires.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """
        sum_of_products = find_terms(observable, self.where)
        device = self._answers.gate_set
        if device.measures_only_pauli_words or needs_pauli_words(
            sum_of_products, device.observables
        ):
            return self._request_pauli_words(kind, to_pauli_words(sum_of_products))
        coefficients = [coefficient for coefficient, _ in sum_of_products]
        terms = tuple(self._encode_product(factors) for _, factors in sum_of_products)
        if len(terms) == 1 and _is_one(coefficients[0]):
            return self._add_measurement(kind(terms))
        start = len(self._request.coefficients)
        self._request.coefficients += coefficients
        return self._add_measurement(kind(terms, start))

    def _request_pauli_words(
        self, kind: type[Expval | Var], words: Sequence[Term]
    ) -> Callable[[Any], Any]:
        """Request the expectation value or variance of a sum of distinct Pauli words.

        The device measures each word; a variance also needs the words of the squared sum.

        Args:
            kind: the measurement class, which selects the expectation value or the variance.
            words: pairs of a coefficient and a tuple of Paulis on different wires.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """
        mean = self._request_word_mean(words)
        if kind is Expval:
            return mean
        square = self._request_word_mean(square_words(words))
        return lambda values: square(values) - mean(values) ** 2

    def _request_word_mean(self, words: Sequence[Term]) -> Callable[[Any], Any]:
        """Request the expectation value of a sum of Pauli words, each measured separately.

        Args:
            words: distinct Pauli words with their coefficients; the empty word is the identity.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """
        takes = [
            (
                jnp.real(coefficient),
                self._add_measurement(Expval((self._encode_product(word),)))
                if word
                else self.request_probability(),
            )
            for coefficient, word in words
        ]
        return lambda values: jnp.asarray(
            sum(coefficient * take(values) for coefficient, take in takes), Precision.real_type()
        )

    def _encode_product(self, factors: Sequence[Factor]) -> Product:
        """Convert factors on wire labels to factors on qubit indices."""
        return tuple(map(self._convert_factor, factors))

    def _convert_factor(self, factor: Factor) -> QubitFactor:
        """Convert a factor on wire labels to a factor on qubit indices, for the runtime.

        A matrix is appended to the request's array of matrix entries.

        Returns:
            the factor; instead of a matrix, it has the matrix's offset in this array.
        """
        wires = self._find_qubits(factor.wires)
        if isinstance(factor, NamedFactor):
            return QubitFactor(factor.name, wires)
        interleaved = jnp.stack([jnp.real(factor.matrix), jnp.imag(factor.matrix)], axis=-1)
        return QubitFactor("Hermitian", wires, self._request.add_matrix(interleaved))


def _is_one(coefficient: Operand) -> bool:
    """Return whether a coefficient is static and equal to 1."""
    return not is_dynamic(coefficient) and coefficient == 1.0


def _to_outcome_rows(state: Any, qubits: Sequence[int], n: int) -> Any:
    """Reshape a state vector of ``n`` qubits to one row for each outcome of ``qubits``.

    Returns:
        array ``[2**len(qubits), 2**(n - len(qubits))]``, with a column for each outcome of the
        remaining qubits, which are in ascending order of their indices.
    """
    others = [qubit for qubit in range(n) if qubit not in qubits]
    by_qubit = state.reshape((2,) * n).transpose(*qubits, *others)
    return by_qubit.reshape(2 ** len(qubits), -1)
