"""Measurements with shots: which samples and frequencies they need, and their results from these.

Expectation values, variances and probabilities are computed from frequencies.  Their expectation
is a probability, so devices differentiate them like exact values.  Coefficients and eigenvalues are
applied to them afterwards, in classical equations.  Measurements that are compatible share a basis
of each wire, and so their samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.answers import Answers
from bellhop.circuits.ir.device_measurements import (
    CountedFrequencies,
    Frequencies,
    SampleRequest,
    Samples,
    ShadowSnapshots,
)
from bellhop.circuits.ir.statistics import unsupported_error
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, MatrixFactor, NamedFactor, find_terms

# For each round, the result of each request; the last dict has those of snapshots, by index.
SampledValues = Sequence[dict[Any, Any]]


@dataclass(frozen=True)
class DiagonalFactor:
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


def make_computational_factor(wires: Sequence[Any]) -> DiagonalFactor:
    """Return what measures wires as they are."""
    return DiagonalFactor(tuple(wires), COMPUTATIONAL, (), None)


def diagonalize(factor: Factor) -> DiagonalFactor:
    """Return a factor with its eigenvalues and the gates that diagonalise it."""
    if isinstance(factor, MatrixFactor):
        is_traced = is_dynamic(factor.matrix)
        eigenvalues, vectors = (jnp if is_traced else np).linalg.eigh(factor.matrix)
        gate = qml.QubitUnitary(vectors.conj().T, wires=factor.wires)
        # Equal ones are of one basis, where it is known that they are.
        basis = factor if is_traced else (factor.wires, np.asarray(factor.matrix).tobytes())
        return DiagonalFactor(factor.wires, basis, (gate,), eigenvalues)
    return DiagonalFactor(
        factor.wires, _NAMES[factor.name], _find_rotation(factor), np.array([1.0, -1.0])
    )


def as_diagonals(
    observable: qml.operation.Operator, where: str
) -> tuple[Any, list[DiagonalFactor]]:
    """Return a coefficient and the diagonal factors that an observable is the product of."""
    terms = find_terms(observable, where)
    if len(terms) == 1:
        coefficient, factors = terms[0]
        return coefficient, [diagonalize(factor) for factor in factors]
    if not observable.has_matrix:
        raise unsupported_error(
            where, f"the eigenvalues of {observable.name}", "Measure its terms."
        )
    wires = tuple(observable.wires)
    if all(isinstance(factor, NamedFactor) for _, factors in terms for factor in factors):
        together = _find_common_basis(wires, [(c, list(map(diagonalize, f))) for c, f in terms])
        if together is not None:
            return 1.0, [together]
    return 1.0, [diagonalize(MatrixFactor(wires, observable.matrix(wire_order=wires)))]


def _find_common_basis(
    wires: tuple[Any, ...], terms: Sequence[tuple[Any, Sequence[DiagonalFactor]]]
) -> DiagonalFactor | None:
    """Return a sum of products whose factors on a wire are all of one basis; None for others."""
    basis = Basis()
    if not all(basis.try_add(factors) for _, factors in terms):
        return None
    total: Any = 0
    for coefficient, factors in terms:
        of_wire = {factor.wires[0]: factor.eigenvalues for factor in factors}
        product = np.ones(1)
        for wire in wires:
            product = np.kron(product, of_wire.get(wire, np.ones(2)))
        # Known eigenvalues stay known, for counts.
        xp = jnp if is_dynamic(coefficient) else np
        total += xp.real(coefficient) * product
    kinds = tuple(basis.bases.get(wire, COMPUTATIONAL) for wire in wires)
    kind = kinds[0] if len(set(kinds)) == 1 else (wires, kinds)
    return DiagonalFactor(wires, kind, tuple(basis.gates), total)


def diagonalize_with_pennylane(
    observable: qml.operation.Operator, where: str
) -> list[DiagonalFactor]:
    """Return factors whose gates are those that PennyLane diagonalises an observable with.

    Which outcome is which eigenvalue, and which basis an eigenspace has, is PennyLane's choice.
    """
    # PennyLane keeps what it diagonalises under a key that does not tell tracers apart.
    is_computed = any(map(is_dynamic, observable.data))
    terms = [] if is_computed else find_terms(observable, where)
    if is_computed or (len(terms) == 1 and all(isinstance(f, NamedFactor) for f in terms[0][1])):
        return as_diagonals(observable, where)[1]
    gates = tuple(observable.diagonalizing_gates())
    return [DiagonalFactor(tuple(observable.wires), observable.hash, gates, None)]


_NAMES = {"PauliX": "X", "PauliY": "Y", "PauliZ": COMPUTATIONAL, "Hadamard": "H"}


def _find_rotation(factor: NamedFactor) -> tuple[Any, ...]:
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

    def try_add(self, diagonals: Sequence[DiagonalFactor]) -> bool:
        """Take in what agrees with what there is; return whether it does."""
        if any(self.bases.get(w, d.basis) != d.basis for d in diagonals for w in d.wires):
            return False
        for diagonal in diagonals:
            if not all(wire in self.bases for wire in diagonal.wires):
                self.gates += diagonal.gates
            self.bases |= dict.fromkeys(diagonal.wires, diagonal.basis)
        return True


class SamplingRounds:
    """Rounds of samples, each in a basis of its own, and what is asked of each.

    They are as few as first come, first served, gives.

    Args:
        groups: the shots of each group.
    """

    def __init__(self, groups: tuple[int, ...]) -> None:
        self._groups = groups
        self._rounds: list[tuple[Basis, list[SampleRequest]]] = []
        self._snapshots: list[ShadowSnapshots] = []

    def request_frequencies(
        self, diagonals: Sequence[DiagonalFactor], wires: Sequence[int], signs: Sequence[int] = ()
    ) -> Callable[[SampledValues], Any]:
        """Ask how often outcomes come, in each group; return what takes it from the values."""
        return self._add_request(diagonals, Frequencies(tuple(wires), tuple(signs), self._groups))

    def counts(
        self, diagonals: Sequence[DiagonalFactor], wires: Sequence[int]
    ) -> Callable[[SampledValues], Any]:
        """Request how many shots of each group have each outcome of some qubits.

        Returns:
            a function from the sampled values to integers of shape [groups, 2**len(wires)].
        """
        take = self._add_request(diagonals, CountedFrequencies(tuple(wires), (), self._groups))
        sizes = np.array(self._groups)[:, None]
        return lambda values: jnp.round(take(values) * sizes).astype(int)

    def request_outcomes(
        self, diagonals: Sequence[DiagonalFactor]
    ) -> Callable[[SampledValues], Any]:
        """Ask for the outcomes of all qubits, a row for each shot."""
        return self._add_request(diagonals, Samples())

    def request_snapshots(self, what: ShadowSnapshots) -> Callable[[SampledValues], Any]:
        """Ask for samples whose basis is another one for each shot."""
        self._snapshots.append(what)
        place = len(self._snapshots) - 1
        return lambda values: values[-1][place]

    def _add_request(
        self, diagonals: Sequence[DiagonalFactor], what: SampleRequest
    ) -> Callable[[SampledValues], Any]:
        number = self._find_round(diagonals)
        _, asked = self._rounds[number]
        if what not in asked:
            asked.append(what)
        return lambda values: values[number][what]

    def _find_round(self, diagonals: Sequence[DiagonalFactor]) -> int:
        """Return the number of a round in whose basis all of these are measured."""
        for number, (basis, _) in enumerate(self._rounds):
            if basis.try_add(diagonals):
                return number
        basis = Basis()
        basis.try_add(diagonals)
        self._rounds.append((basis, []))
        return len(self._rounds) - 1

    def sample(self, answers: Answers) -> SampledValues:
        """Sample all rounds, each in its basis.

        Args:
            answers: draws the samples, when all gates of the circuit have been applied.

        Returns:
            the values that the functions take which ``frequencies``, ``outcomes`` and
            ``snapshots`` returned.
        """
        values = []
        # Snapshots need the state as it is, and the last basis is not undone.
        snapshots = dict(enumerate(answers.sample(self._snapshots))) if self._snapshots else {}
        for number, (basis, asked) in enumerate(self._rounds):
            answers.apply(basis.gates)
            values.append(dict(zip(asked, answers.sample(asked), strict=True)))
            if number + 1 < len(self._rounds):
                answers.apply([qml.adjoint(gate) for gate in reversed(basis.gates)])
        return [*values, snapshots]


def request_product_mean(
    diagonals: Sequence[DiagonalFactor], rounds: SamplingRounds, wires: WireMap, *, power: int = 1
) -> Callable[[SampledValues], Any]:
    """Ask for the mean of a power of a product of diagonal factors, for each group of shots."""
    others = [diagonal for diagonal in diagonals if not _has_sign_eigenvalues(diagonal)]
    of_signs = [
        wire for diagonal in diagonals if _has_sign_eigenvalues(diagonal) for wire in diagonal.wires
    ]
    columns = [wires(wire) for diagonal in others for wire in diagonal.wires]
    take = rounds.request_frequencies(
        diagonals, columns, list(map(wires, of_signs)) if power % 2 else []
    )
    eigenvalues = compute_eigenvalues(others) ** power
    return lambda values: take(values) @ jnp.asarray(eigenvalues)


def _has_sign_eigenvalues(diagonal: DiagonalFactor) -> bool:
    eigenvalues = diagonal.eigenvalues
    is_known = not is_dynamic(eigenvalues)
    return is_known and np.array_equal(eigenvalues, [1.0, -1.0])


def compute_eigenvalues(diagonals: Sequence[DiagonalFactor]) -> Any:
    """Return the eigenvalues of a product, one an outcome."""
    values: Any = np.ones(1)
    for diagonal in diagonals:
        values = qml.math.kron(values, diagonal.eigenvalues)
    return values
