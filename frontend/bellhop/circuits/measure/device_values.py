"""What a device is asked for at the end of a circuit, and the data of that."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.ir.answers import DeviceAnswers
from bellhop.circuits.ir.device_measurements import (
    Expval,
    Measurement,
    Probs,
    State,
    Var,
)
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.observable_encoding import FactorOnQubits, Product
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.statistics import (
    ExactValues,
    Make,
    Statistic,
    Take,
    state_of_mixture,
)
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, Term, terms_of
from bellhop.circuits.measure.pauli_words import as_words, need_words, squared


class DeviceValues(ExactValues):
    """The exact values of a circuit that a device measures by lists of the runtime's measurements.

    Args:
        answers: measures, when all gates of the circuit have been applied.
        is_tree: whether the present execution is one for each combination of outcomes.

    Attributes:
        weights: the probability of the execution, if results must be divided by the sum of all
            probabilities because postselections leave less than one; else empty.
    """

    def __init__(self, answers: DeviceAnswers, *, is_tree: bool = False) -> None:
        self._answers = answers
        self._is_tree = is_tree
        self.where = answers.where
        self._request = MeasurementRequest()
        self.weights: list[Any] = []
        self._weight: Take | None = None
        if is_tree and answers.postselects:
            self.weight()

    def _add(self, measurement: Measurement) -> Take:
        index = len(self._request.measurements)
        self._request.measurements.append(measurement)
        return lambda values: values[index]

    def weight(self) -> Take:
        """Ask for the probability of the run: the squared norm of its state."""
        if not self._is_tree:
            return lambda _: 1.0
        if self._weight is None:
            self._weight = self._add(Expval(terms=((),)))
        return self._weight

    def expval(self, observable: qml.operation.Operator) -> Take:
        """Ask for an expectation value."""
        return self._observable(Expval, observable)

    def variance(self, observable: qml.operation.Operator) -> Make:
        """Ask for a variance, or in one of several runs for both moments."""
        variance = self._observable(Var, observable)
        if not self._is_tree:
            return lambda values: Statistic(variance(values))
        mean = self._observable(Expval, observable)
        # Of a state that is not normalized, what a device computes as its variance is the mean
        # of the square less the square of the mean all the same.
        return lambda values: Statistic.from_moments(
            mean(values), variance(values) + mean(values) ** 2
        )

    def probabilities(self, wires: Sequence[Any], rotations: Sequence[Any] = ()) -> Take:
        """Ask for probabilities; those after gates come after all that needs none."""
        if not rotations:
            return self._add(Probs(self._all(wires)))

        def rotated(_: object) -> Any:
            self._answers.apply(rotations)
            after = DeviceValues(self._answers)
            take = after.probabilities(wires)
            values = after.compute()
            self._answers.apply([qml.adjoint(gate) for gate in reversed(rotations)])
            return take(values)

        return rotated

    def density_matrix(self, qubits: Sequence[int], name: str) -> Take:
        """Ask for the state of the run; return what makes the density matrix of it."""
        take = self._add(State(name))

        def matrix(values: Any) -> Any:
            rows = _by_outcome(take(values), qubits, self._answers.device.qubits)
            return rows @ jnp.conj(rows).T

        return matrix

    def state(self, name: str) -> Take:
        """Ask for the state of the circuit, which has one run."""
        if self._is_tree:
            raise state_of_mixture(self.where)
        return self._add(State(name))

    def compute(self) -> list[Any]:
        """Measure all values that were asked for."""
        values = self._answers.measure(self._request)
        is_part = self._is_tree and self._answers.postselects
        self.weights = [self.weight()(values)] if is_part else []
        return values

    def _all(self, wires: Sequence[Any]) -> tuple[int, ...]:
        return tuple(map(self._answers.wires, wires))

    def _observable(self, kind: type[Expval | Var], observable: qml.operation.Operator) -> Take:
        sum_of_products = terms_of(observable, self.where)
        device = self._answers.gate_set
        if device.measures_words or need_words(sum_of_products, device.observables):
            return self._of_words(kind, as_words(sum_of_products))
        coefficients = [coefficient for coefficient, _ in sum_of_products]
        terms = tuple(self._product(factors) for _, factors in sum_of_products)
        if len(terms) == 1 and _is_one(coefficients[0]):
            return self._add(kind(terms))
        start = len(self._request.coefficients)
        self._request.coefficients += coefficients
        return self._add(kind(terms, start))

    def _of_words(self, kind: type[Expval | Var], words: Sequence[Term]) -> Take:
        """Ask for the means of Pauli words, and those of the square for a variance."""
        mean = self._mean_of_words(words)
        if kind is Expval:
            return mean
        square = self._mean_of_words(squared(words))
        return lambda values: square(values) - mean(values) ** 2

    def _mean_of_words(self, words: Sequence[Term]) -> Take:
        takes = [
            (
                jnp.real(coefficient),
                self._add(Expval((self._product(word),))) if word else self.weight(),
            )
            for coefficient, word in words
        ]
        return lambda values: jnp.asarray(
            sum(coefficient * take(values) for coefficient, take in takes), real_type()
        )

    def _product(self, factors: Sequence[Factor]) -> Product:
        return tuple(map(self._factor, factors))

    def _factor(self, factor: Factor) -> FactorOnQubits:
        wires = self._all(factor.wires)
        if isinstance(factor, NamedFactor):
            return FactorOnQubits(factor.name, wires)
        interleaved = jnp.stack([jnp.real(factor.matrix), jnp.imag(factor.matrix)], axis=-1)
        return FactorOnQubits("Hermitian", wires, self._request.add_matrix(interleaved))


def _is_one(coefficient: Operand) -> bool:
    return not is_dynamic(coefficient) and coefficient == 1.0


def _by_outcome(state: Any, qubits: Sequence[int], n: int) -> Any:
    """Return the amplitudes of a state of ``n`` qubits, a row for each outcome of some of them."""
    others = [qubit for qubit in range(n) if qubit not in qubits]
    by_qubit = state.reshape((2,) * n).transpose(*qubits, *others)
    return by_qubit.reshape(2 ** len(qubits), -1)
