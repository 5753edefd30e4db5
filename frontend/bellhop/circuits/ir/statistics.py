"""How results are computed: values that one run of the circuit gives, and a function of them.

Without shots, values are exact.  With shots they are frequencies (means over groups of shots) or
samples (``sampling``).  For a circuit that runs once for each combination of outcomes, values are
summed over its runs, weighted by probability, before the function is applied.
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
        values: arrays of one run; with shots, with an axis in front, of groups of shots or of
            shots.
        finish: takes their mean over the runs, or the samples of all shots, and returns the
            result; with shots, that of one group.
        is_per_shot: whether the axis in front is one of shots.
        is_measured: whether it is the result of a measurement.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values
    is_per_shot: bool = False
    is_measured: bool = True

    @classmethod
    def from_moments(cls, mean: Any, square: Any) -> "Statistic":
        """Return the statistic of a variance.

        Args:
            mean: array, the mean of an observable.
            square: array, the mean of the observable's square.
        """
        return cls((mean, square), lambda moments: moments[1] - moments[0] ** 2)

    def map_values(self, change: Callable[[Any], Any]) -> "Statistic":
        """Return the same, each array of its values changed by a function."""
        return replace(self, values=jax.tree.map(change, self.values))

    def to_single_precision(self) -> "Statistic":
        """Return the same in single precision."""
        return replace(self, finish=lambda values: to_single_precision(self.finish(values)))


# Functions of all values that a circuit computed: one returns a value, the other a statistic.
ValueReader = Callable[[Any], Any]
StatisticMaker = Callable[[Any], Statistic]


class ExactValues(ABC):
    """The exact values of a circuit: all are asked for first, and then computed by ``compute``.

    Each method asks for one value, and returns a function that takes the result of ``compute`` and
    returns the value.  Where a circuit has several runs, the values of each have its probability
    as a factor.

    Attributes:
        where: the QNode, for errors.
    """

    where: str

    @abstractmethod
    def request_probability(self) -> ValueReader:
        """Ask for the probability of the run."""

    @abstractmethod
    def request_expval(self, observable: Any) -> ValueReader:
        """Ask for an expectation value."""

    @abstractmethod
    def request_variance(self, observable: Any) -> StatisticMaker:
        """Ask for a variance."""

    @abstractmethod
    def request_probabilities(
        self, wires: Sequence[Any], rotations: Sequence[Any] = ()
    ) -> ValueReader:
        """Ask for the probabilities of the outcomes of wires, after some gates."""

    @abstractmethod
    def request_density_matrix(self, qubits: Sequence[int], name: str) -> ValueReader:
        """Ask for the density matrix of qubits; the name is that of what is made of it."""

    @abstractmethod
    def request_state(self, name: str) -> ValueReader:
        """Ask for the state of the circuit: a vector, which no mixture has, or a matrix."""

    @abstractmethod
    def compute(self) -> Any:
        """Compute all values that were asked for."""


def unsupported_error(where: str, label: str, instead: str) -> CompileError:
    """Return the error of a measurement that is not supported."""
    return CompileError(f"{where}: {label}: not supported by bellhop. {instead}")


def mixed_state_error(where: str) -> CompileError:
    """Return the error of the state vector of a circuit that goes through several outcomes."""
    return unsupported_error(
        where,
        "state after mid-circuit measurements, where it is a mixture of several",
        "Return qml.density_matrix, or set mcm_method='single-branch-statistics' for the state of "
        "one random run.",
    )
