"""``Statistic``: a circuit result, as a function of values of each execution.

Without shots, values are exact.  With shots, they are means over groups of shots or samples.  For a
circuit that is executed once for each combination of mid-circuit outcomes, the values are summed
over executions, weighted by probability, before the function is applied.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from bellhop.circuits.ir.precision import to_single_precision
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Statistic:
    """One result of a circuit.

    Attributes:
        values: pytree of arrays of one execution; with shots, they have a leading axis of shot
            groups or of shots.
        finish: computes the result from the mean of ``values`` over executions, or from the samples
            of all shots; with shots, called for each shot group.
        is_per_shot: whether the leading axis is an axis of shots.
        is_measured: whether the result is a measurement's; False for other returned values.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values
    is_per_shot: bool = False
    is_measured: bool = True

    @classmethod
    def from_moments(cls, mean: Any, square: Any) -> "Statistic":
        """Return the statistic of a variance, ``square - mean**2``.

        Args:
            mean: array, the expectation value of an observable.
            square: array, the expectation value of the observable's square.
        """
        return cls((mean, square), lambda moments: moments[1] - moments[0] ** 2)

    def map_values(self, change: Callable[[Any], Any]) -> "Statistic":
        """Return a copy with ``change`` applied to each array of ``values``."""
        return replace(self, values=jax.tree.map(change, self.values))

    def to_single_precision(self) -> "Statistic":
        """Return a copy whose result is cast to single precision."""
        return replace(self, finish=lambda values: to_single_precision(self.finish(values)))


class ExactValues(ABC):
    """Exact values of a circuit, which are requested first and then computed together.

    Each ``request_...`` method requests one value, and returns a function from the result of
    ``compute()`` to this value.  If the circuit is executed once for each combination of
    mid-circuit outcomes, this value is already multiplied by the probability of the combination, so
    the caller adds the values of all executions.

    Attributes:
        where: the QNode, for errors.
    """

    where: str

    @abstractmethod
    def request_probability(self) -> Callable[[Any], Any]:
        """Request the probability of the execution's mid-circuit outcomes."""

    @abstractmethod
    def request_expval(self, observable: Any) -> Callable[[Any], Any]:
        """Request the expectation value of an observable."""

    @abstractmethod
    def request_variance(self, observable: Any) -> Callable[[Any], Statistic]:
        """Request the variance of an observable."""

    @abstractmethod
    def request_probabilities(
        self, wires: Sequence[Any], rotations: Sequence[Any] = ()
    ) -> Callable[[Any], Any]:
        """Request the outcome probabilities of wires, after the gates ``rotations``."""

    @abstractmethod
    def request_density_matrix(self, qubits: Sequence[int], name: str) -> Callable[[Any], Any]:
        """Request the reduced density matrix of qubits.

        Args:
            qubits: the qubit indices.
            name: the measurement that uses the matrix, for errors.
        """

    @abstractmethod
    def request_state(self, name: str) -> Callable[[Any], Any]:
        """Request the state of the circuit: a state vector, or a density matrix.

        Args:
            name: the measurement that uses the state, for errors.
        """

    @abstractmethod
    def compute(self) -> Any:
        """Compute all requested values."""

    @staticmethod
    def mixed_state_error(where: str) -> CompileError:
        """Return the error for ``qml.state`` of a circuit whose final state is mixed."""
        return unsupported_error(
            where,
            "state after mid-circuit measurements, where it is a mixture of several",
            "Return qml.density_matrix, or set mcm_method='single-branch-statistics' for the state "
            "of one random run.",
        )


def unsupported_error(where: str, label: str, instead: str) -> CompileError:
    """Return the error for an unsupported measurement.

    Args:
        where: the QNode, for errors.
        label: the measurement.
        instead: a sentence with the remedy.
    """
    return CompileError(f"{where}: {label}: not supported by bellhop. {instead}")
