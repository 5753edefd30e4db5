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
    """One result of a circuit, as a function of values that every execution computes.

    For ``var``, ``values`` are the two moments of an execution, and ``finish`` subtracts the
    squared mean.  Backends combine the values of all executions before they call ``finish``.

    Attributes:
        values: pytree of arrays of one execution; with shots, they have a leading axis of shot
            groups or of shots.
        finish: computes the result from the combined ``values``. With shots, it is called for each
            group of shots, without the axis of groups, or with the samples of this group's shots.
        is_per_shot: whether the leading axis is an axis of shots.
        is_measured: whether the result is a measurement's; False for other returned values.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values
    is_per_shot: bool = False
    is_measured: bool = True

    @classmethod
    def from_moments(cls, mean: Any, square: Any) -> "Statistic":
        """Make the statistic of a variance, ``square - mean**2``.

        The subtraction is done after the moments of all executions were combined.

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

    Backends implement this interface for circuits without shots.  Each ``request_...`` method
    requests one value, and returns a function from the result of ``compute()`` to this value.  If
    the circuit is executed once for each combination of mid-circuit outcomes, this value is already
    multiplied by the probability of the combination, so the caller adds the values of all
    executions.

    Attributes:
        where: the QNode's name and line, for error messages.
    """

    where: str

    @abstractmethod
    def request_probability(self) -> Callable[[Any], Any]:
        """Request the probability of the execution's mid-circuit outcomes.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """

    @abstractmethod
    def request_expval(self, observable: Any) -> Callable[[Any], Any]:
        """Request the expectation value of an observable, a PennyLane operator.

        Returns:
            a function from the result of ``compute()`` to a real scalar.
        """

    @abstractmethod
    def request_variance(self, observable: Any) -> Callable[[Any], Statistic]:
        """Request the variance of an observable, a PennyLane operator.

        Returns:
            a function from the result of ``compute()`` to the ``Statistic`` of the variance.
        """

    @abstractmethod
    def request_probabilities(
        self, wires: Sequence[Any], rotations: Sequence[Any] = ()
    ) -> Callable[[Any], Any]:
        """Request the outcome probabilities of wires, after the gates ``rotations``.

        Args:
            wires: wire labels, the most significant bit of an outcome first.
            rotations: PennyLane gates into the basis of the measurement. The state is afterwards as
                before them.

        Returns:
            a function from the result of ``compute()`` to a real array ``[2**wires]``.
        """

    @abstractmethod
    def request_density_matrix(self, qubits: Sequence[int], name: str) -> Callable[[Any], Any]:
        """Request the reduced density matrix of qubits.

        Args:
            qubits: the qubit indices, the most significant bit of a row's index first.
            name: the user's measurement that needs the matrix, such as ``purity``, for error
                messages.

        Returns:
            a function from the result of ``compute()`` to a complex matrix of ``2**len(qubits)``
            rows.
        """

    @abstractmethod
    def request_state(self, name: str) -> Callable[[Any], Any]:
        """Request the state of the circuit: a state vector, or a density matrix.

        Args:
            name: the user's measurement that needs the state, such as ``state``, for error
                messages.

        Returns:
            a function from the result of ``compute()`` to a complex vector of ``2**n`` entries for
            ``n`` qubits, or a matrix of ``2**n`` rows.
        """

    @abstractmethod
    def compute(self) -> Any:
        """Compute all requested values together.

        Returns:
            an object to be passed to each function that a ``request_...`` method returned.
        """

    @staticmethod
    def mixed_state_error(where: str, name: str) -> CompileError:
        """Make the error for a measurement of the state if the final state is mixed.

        Args:
            where: the QNode's name and line, with which the message begins.
            name: the user's measurement that needs the state, such as ``state``.
        """
        return unsupported_error(
            where,
            f"{name} after mid-circuit measurements, which give a mixture of states",
            "Return qml.density_matrix, or set mcm_method='single-branch-statistics' for the state "
            "of one random run.",
        )


def unsupported_error(where: str, label: str, instead: str) -> CompileError:
    """Make the error for an unsupported measurement.

    Args:
        where: the QNode's name and line, with which the message begins.
        label: the measurement, such as "counts without shots".
        instead: a sentence that tells the user what to do instead.
    """
    return CompileError(f"{where}: bellhop does not support {label}. {instead}")
