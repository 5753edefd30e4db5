"""Measurement bases of wires: compatible measurements share one, and so their samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.measure.observables import Factor, Matrix, NamedFactor, terms_of
from bellhop.circuits.measure.statistics import unsupported


@dataclass(frozen=True)
class Diagonal:
    """A factor of an observable, diagonalised.

    Attributes:
        wires: labels; outcomes of the first are the most significant bit.
        basis: what measurements of these wires must agree on to share samples.
        gates: bring the eigenvectors to the computational basis.
        eigenvalues: one an outcome; None where nobody asks for them.
    """

    wires: tuple[Any, ...]
    basis: Any
    gates: tuple[Any, ...]
    eigenvalues: Any


COMPUTATIONAL = "Z"


def computational(wires: Sequence[Any]) -> Diagonal:
    """Return what measures wires as they are."""
    return Diagonal(tuple(wires), COMPUTATIONAL, (), None)


def diagonalized(factor: Factor) -> Diagonal:
    """Return a factor with its eigenvalues and the gates that diagonalise it."""
    if isinstance(factor, Matrix):
        is_traced = isinstance(factor.matrix, jax.core.Tracer)
        eigenvalues, vectors = (jnp if is_traced else np).linalg.eigh(factor.matrix)
        gate = qml.QubitUnitary(vectors.conj().T, wires=factor.wires)
        # Equal ones are of one basis, where it is known that they are.
        basis = factor if is_traced else (factor.wires, np.asarray(factor.matrix).tobytes())
        return Diagonal(factor.wires, basis, (gate,), eigenvalues)
    return Diagonal(factor.wires, _NAMES[factor.name], _rotation(factor), np.array([1.0, -1.0]))


def as_diagonals(observable: qml.operation.Operator, where: str) -> tuple[Any, list[Diagonal]]:
    """Return a coefficient and the diagonal factors that an observable is the product of."""
    terms = terms_of(observable, where)
    if len(terms) == 1:
        coefficient, factors = terms[0]
        return coefficient, [diagonalized(factor) for factor in factors]
    if not observable.has_matrix:
        raise unsupported(where, f"the eigenvalues of {observable.name}", "Measure its terms.")
    wires = tuple(observable.wires)
    return 1.0, [diagonalized(Matrix(wires, observable.matrix(wire_order=wires)))]


def rotated_as_in_pennylane(observable: qml.operation.Operator, where: str) -> list[Diagonal]:
    """Return factors whose gates are those that PennyLane diagonalises an observable with.

    Which outcome is which eigenvalue, and which basis an eigenspace has, is PennyLane's choice.
    """
    # PennyLane keeps what it diagonalises under a key that does not tell tracers apart.
    is_computed = any(isinstance(value, jax.core.Tracer) for value in observable.data)
    terms = [] if is_computed else terms_of(observable, where)
    if is_computed or (len(terms) == 1 and all(isinstance(f, NamedFactor) for f in terms[0][1])):
        return as_diagonals(observable, where)[1]
    gates = tuple(observable.diagonalizing_gates())
    return [Diagonal(tuple(observable.wires), observable.hash, gates, None)]


_NAMES = {"PauliX": "X", "PauliY": "Y", "PauliZ": COMPUTATIONAL, "Hadamard": "H"}


def _rotation(factor: NamedFactor) -> tuple[Any, ...]:
    match factor.name:
        case "PauliX":
            return (qml.Hadamard(factor.wire),)
        case "PauliY":
            return (qml.adjoint(qml.S(factor.wire)), qml.Hadamard(factor.wire))
        case "Hadamard":
            return (qml.RY(-np.pi / 4, wires=factor.wire),)
    return ()


@dataclass
class Basis:
    """The basis of each wire in one round of samples, and the gates that lead there."""

    bases: dict[Any, Any] = field(default_factory=dict)
    gates: list[Any] = field(default_factory=list)

    def take(self, diagonals: Sequence[Diagonal]) -> bool:
        """Take in what agrees with what there is; return whether it does."""
        if any(self.bases.get(w, d.basis) != d.basis for d in diagonals for w in d.wires):
            return False
        for diagonal in diagonals:
            if not all(wire in self.bases for wire in diagonal.wires):
                self.gates += diagonal.gates
            self.bases |= dict.fromkeys(diagonal.wires, diagonal.basis)
        return True


class Bases:
    """As few bases as first come, first served, gives."""

    def __init__(self) -> None:
        self.bases: list[Basis] = []

    def place(self, diagonals: Sequence[Diagonal]) -> int:
        """Return the number of a basis in which all of these are measured."""
        for number, basis in enumerate(self.bases):
            if basis.take(diagonals):
                return number
        self.bases.append(Basis())
        self.bases[-1].take(diagonals)
        return len(self.bases) - 1
