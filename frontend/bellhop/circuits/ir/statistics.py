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

from bellhop.circuits.ir.precision import in_single
from bellhop.errors import CompileError


@dataclass(frozen=True)
class Statistic:
    """One result of a circuit.

    Attributes:
        values: arrays of one run; with shots, with an axis in front, of groups of shots or of
            shots.
        finish: takes their mean over the runs, or the samples of all shots, and returns the
            result; with shots, that of one group.
        is_of_shots: whether the axis in front is one of shots.
        is_measured: whether it is the result of a measurement.
    """

    values: Any
    finish: Callable[[Any], Any] = lambda values: values
    is_of_shots: bool = False
    is_measured: bool = True

    @classmethod
    def from_moments(cls, mean: Any, square: Any) -> "Statistic":
        """Return the statistic of a variance.

        Args:
            mean: array, the mean of an observable.
            square: array, the mean of the observable's square.
        """
        return cls((mean, square), lambda moments: moments[1] - moments[0] ** 2)

    def changed(self, change: Callable[[Any], Any]) -> "Statistic":
        """Return the same, each array of its values changed by a function."""
        return replace(self, values=jax.tree.map(change, self.values))

    def in_single(self) -> "Statistic":
        """Return the same in single precision."""
        return replace(self, finish=lambda values: in_single(self.finish(values)))


# Functions of all values that a circuit computed: one returns a value, the other a statistic.
Take = Callable[[Any], Any]
Make = Callable[[Any], Statistic]


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
    def weight(self) -> Take:
        """Ask for the probability of the run."""

    @abstractmethod
    def expval(self, observable: Any) -> Take:
        """Ask for an expectation value."""

    @abstractmethod
    def variance(self, observable: Any) -> Make:
        """Ask for a variance."""

    @abstractmethod
    def probabilities(self, wires: Sequence[Any], rotations: Sequence[Any] = ()) -> Take:
        """Ask for the probabilities of the outcomes of wires, after some gates."""

    @abstractmethod
    def density_matrix(self, qubits: Sequence[int], name: str) -> Take:
        """Ask for the density matrix of qubits; the name is that of what is made of it."""

    @abstractmethod
    def state(self, name: str) -> Take:
        """Ask for the state of the circuit: a vector, which no mixture has, or a matrix."""

    @abstractmethod
    def compute(self) -> Any:
        """Compute all values that were asked for."""


def unsupported(where: str, what: str, instead: str) -> CompileError:
    """Return the error of a measurement that is not supported."""
    return CompileError(f"{where}: {what}: not supported by bellhop. {instead}")


def state_of_mixture(where: str) -> CompileError:
    """Return the error of the state vector of a circuit that goes through several outcomes."""
    return unsupported(
        where,
        "state after mid-circuit measurements, where it is a mixture of several",
        "Return qml.density_matrix, or set mcm_method='single-branch-statistics' for the state of "
        "one random run.",
    )
