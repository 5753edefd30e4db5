"""Request samples and frequencies for measurements with shots, and combine them.

Expectation values, variances and probabilities are computed from frequencies.  The expectation of a
frequency is a probability, so devices differentiate frequencies like exact values.  Coefficients
and eigenvalues are applied afterwards, in classical equations.  Compatible measurements share a
basis of each wire, and so share samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand, Wire
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.answers import Answers
from bellhop.circuits.ir.device_measurements import (
    Frequencies,
    SampleRequest,
    Samples,
    ShadowSnapshots,
)
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import unsupported_error
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, MatrixFactor, NamedFactor, find_terms

# The result of each request, for each round; the last dict has the results of snapshots, by index.
SampledValues = Sequence[dict[Any, Any]]


@dataclass(frozen=True)
class DiagonalFactor:
    """A factor of an observable, with gates that diagonalize it.

    ``X(0)`` has the gates ``(Hadamard(0),)`` and the eigenvalues ``[1, -1]``.

    Attributes:
        wires: wire labels, the first one for the most significant bit of an outcome.
        basis: hashable key of the eigenbasis, such as ``"X"``; measurements with equal keys on
            their wires can share samples.
        gates: PennyLane gates that rotate the eigenvectors to the computational basis.
        eigenvalues: ``[2**wires]``, the eigenvalue of each outcome; None if not needed.
    """

    wires: tuple[Any, ...]
    basis: Any
    gates: tuple[Any, ...]
    eigenvalues: Any


COMPUTATIONAL = "Z"


def make_computational_factor(wires: Sequence[Any]) -> DiagonalFactor:
    """Return a diagonal factor without gates: the wires are measured in the computational basis.

    The factor has no eigenvalues.
    """
    return DiagonalFactor(tuple(wires), COMPUTATIONAL, (), None)


def diagonalize(factor: Factor) -> DiagonalFactor:
    """Find the eigenvalues of a factor, and gates that diagonalize it.

    Args:
        factor: a factor of an observable; the eigenvalues of a traced matrix are traced.

    Returns:
        the factor's wires, basis, gates and eigenvalues: 1 and -1 for a Pauli matrix or Hadamard,
        in ascending order for a matrix.
    """
    if isinstance(factor, MatrixFactor):
        is_traced = is_dynamic(factor.matrix)
        eigenvalues, vectors = (jnp if is_traced else np).linalg.eigh(factor.matrix)
        gate = qml.QubitUnitary(vectors.conj().T, wires=factor.wires)
        # Equal static matrices share a basis; traced matrices may differ.
        basis = factor if is_traced else (factor.wires, np.asarray(factor.matrix).tobytes())
        return DiagonalFactor(factor.wires, basis, (gate,), eigenvalues)
    return DiagonalFactor(
        factor.wires, _NAMES[factor.name], _find_rotation(factor), np.array([1.0, -1.0])
    )


def as_diagonals(
    observable: qml.operation.Operator, where: str
) -> tuple[Any, list[DiagonalFactor]]:
    """Write an observable as a coefficient times a product of diagonal factors.

    ``2 * X(0) @ Z(1)`` gives 2 and the factors of ``X(0)`` and ``Z(1)``. A sum becomes one factor,
    diagonal in a common basis of its terms or in the eigenbasis of its matrix.

    Args:
        observable: PennyLane operator on static wires.
        where: the QNode's name and line, for error messages.

    Returns:
        the coefficient, static or traced, and the factors, which act on disjoint wires.

    Raises:
        CompileError: if the observable is a sum without a matrix, or not a valid observable.
    """
    terms = find_terms(observable, where)
    if len(terms) == 1:
        coefficient, factors = terms[0]
        return coefficient, [diagonalize(factor) for factor in factors]
    if not observable.has_matrix:
        raise unsupported_error(
            where,
            f"samples of {observable.name}, a sum whose eigenvalues are not known",
            "Measure the terms of the sum.",
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
    """Merge the terms of a sum into one diagonal factor, if they share a basis.

    ``X(0) @ Z(1) + X(0)`` is diagonal after a Hadamard gate on wire 0.

    Args:
        wires: wire labels of the sum, in order.
        terms: pairs of a coefficient and diagonal factors on one wire each.

    Returns:
        the sum as one factor; None if two terms have different bases on a wire.
    """
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
    """Diagonalize an observable with PennyLane's diagonalizing gates.

    The order of eigenvalues, and the basis of each eigenspace, then agree with PennyLane. An
    observable with traced parameters, and a product of Pauli matrices and Hadamards on different
    wires, are diagonalized by ``as_diagonals``.

    Args:
        observable: PennyLane operator on static wires.
        where: the QNode's name and line, for error messages.

    Returns:
        factors on disjoint wires, without the observable's coefficient; their eigenvalues are None
        if PennyLane's gates are used.
    """
    # PennyLane caches diagonalizations by a key that is equal for different tracers.
    is_computed = any(map(is_dynamic, observable.data))
    terms = [] if is_computed else find_terms(observable, where)
    if is_computed or (len(terms) == 1 and all(isinstance(f, NamedFactor) for f in terms[0][1])):
        return as_diagonals(observable, where)[1]
    gates = tuple(observable.diagonalizing_gates())
    return [DiagonalFactor(tuple(observable.wires), observable.hash, gates, None)]


_NAMES = {"PauliX": "X", "PauliY": "Y", "PauliZ": COMPUTATIONAL, "Hadamard": "H"}


def _find_rotation(factor: NamedFactor) -> tuple[Any, ...]:
    """Return gates that rotate a factor's eigenvectors to the computational basis.

    Returns:
        PennyLane gates on the factor's wire, in order; empty for ``PauliZ``.
    """
    match factor.name:
        case "PauliX":
            return (qml.Hadamard(factor.wire),)
        case "PauliY":
            return (qml.adjoint(qml.S(factor.wire)), qml.Hadamard(factor.wire))
        case "Hadamard":
            return (qml.RY(-np.pi / 4, wires=factor.wire),)
    return ()


def make_basis_rotations(bases: Operand, wires: Sequence[Wire]) -> list[Any]:
    """Make gates that rotate wires from traced Pauli bases to the computational basis.

    Args:
        bases: integer array ``[wires]``, the basis of each wire: 0, 1, 2 for X, Y, Z.
        wires: the wire labels.

    Returns:
        PennyLane operations, two for each wire, with traced angles.
    """
    quarter = jnp.asarray(np.pi / 2, Precision.real_type())
    return [
        gate
        for basis, wire in zip(bases, wires, strict=True)
        for gate in (
            qml.RY(jnp.where(basis == 0, -quarter, 0), wire),
            qml.RX(jnp.where(basis == 1, quarter, 0), wire),
        )
    ]


@dataclass
class Basis:
    """The measurement basis of each wire in a round, and the gates that rotate to it.

    `try_add` adds the bases of wires one by one.

    Attributes:
        bases: maps a wire label to a key of its basis, such as ``"X"``, see `DiagonalFactor`; wires
            without an entry may be measured in any basis.
        gates: PennyLane gates, in order.
    """

    bases: dict[Any, Any] = field(default_factory=dict)
    gates: list[Any] = field(default_factory=list)

    def try_add(self, diagonals: Sequence[DiagonalFactor]) -> bool:
        """Add the bases of factors, unless a wire has another basis already.

        Args:
            diagonals: factors on disjoint wires.

        Returns:
            whether the factors were added; if not, this object is unchanged.
        """
        if any(self.bases.get(w, d.basis) != d.basis for d in diagonals for w in d.wires):
            return False
        for diagonal in diagonals:
            # A sum such as X(0) + X(1) has gates on each wire, and may share some of its wires.
            rotated = self.bases.keys() & set(diagonal.wires)
            self.gates += [gate for gate in diagonal.gates if rotated.isdisjoint(gate.wires)]
            self.bases |= dict.fromkeys(diagonal.wires, diagonal.basis)
        return True


class SamplingRounds:
    """Collects requests for samples, and draws the samples in few measurement bases.

    A *round* draws all shots once, in one measurement basis of each wire. A request is added to the
    first round whose basis agrees, so that compatible measurements share samples, or to a new
    round. ``sample`` draws all rounds.

    Args:
        groups: the number of shots of each group, an entry of the shot vector.
    """

    def __init__(self, groups: tuple[int, ...]) -> None:
        self._groups = groups
        self._rounds: list[tuple[Basis, list[SampleRequest]]] = []
        self._snapshots: list[ShadowSnapshots] = []

    def request_frequencies(
        self,
        diagonals: Sequence[DiagonalFactor],
        wires: Sequence[int],
        signs: Sequence[int] = (),
        groups: Sequence[int] | None = None,
    ) -> Callable[[SampledValues], Any]:
        """Request the relative frequencies of outcomes in each group of shots.

        Args:
            diagonals: factors in whose bases the wires are measured.
            wires: qubit indices of the wires whose outcomes are counted.
            signs: qubit indices; a shot counts as -1 instead of 1 if the outcomes of these qubits
                have odd parity.
            groups: the number of shots of each group, in the order of the shots; by default the
                entries of the shot vector. Only a circuit without mid-circuit measurements may have
                groups that are parts of entries.

        Returns:
            a function from the result of ``sample()`` to the frequencies, a real array
            ``[groups, 2**len(wires)]``; with ``signs``, they may be negative.
        """
        sizes = self._groups if groups is None else tuple(groups)
        return self._add_request(diagonals, Frequencies(tuple(wires), tuple(signs), sizes))

    def request_counts(
        self, diagonals: Sequence[DiagonalFactor], wires: Sequence[int]
    ) -> Callable[[SampledValues], Any]:
        """Request how many shots of each group have each outcome of some wires.

        Args:
            diagonals: factors in whose bases the wires are measured.
            wires: qubit indices of the wires whose outcomes are counted.

        Returns:
            a function from the result of ``sample()`` to integers ``[groups, 2**len(wires)]``.
        """
        take = self._add_request(diagonals, Frequencies.make_undifferentiable(wires, self._groups))
        sizes = np.array(self._groups)[:, None]
        return lambda values: jnp.round(take(values) * sizes).astype(int)

    def request_outcomes(
        self, diagonals: Sequence[DiagonalFactor], *, is_processed: bool = False
    ) -> Callable[[SampledValues], Any]:
        """Request the bits of all qubits in each shot.

        Args:
            diagonals: factors in whose bases the wires are measured.
            is_processed: True to let the bits have the derivative zero; False to raise an error if
                they are differentiated.

        Returns:
            a function from the result of ``sample()`` to the bits, an array ``[shots, qubits]``.
        """
        return self._add_request(diagonals, Samples(is_processed))

    def request_snapshots(self, what: ShadowSnapshots) -> Callable[[SampledValues], Any]:
        """Request a classical shadow, or means over a classical shadow.

        A shadow has a random basis for each shot, so it is drawn separately from the rounds.

        Args:
            what: describes the shadow or the means.

        Returns:
            a function from the result of ``sample()`` to the requested array.
        """
        self._snapshots.append(what)
        place = len(self._snapshots) - 1
        return lambda values: values[-1][place]

    def _add_request(
        self, diagonals: Sequence[DiagonalFactor], what: SampleRequest
    ) -> Callable[[SampledValues], Any]:
        """Add a request to the first round whose basis agrees, or to a new round.

        Args:
            diagonals: factors in whose bases the wires are measured.
            what: the requested result; equal requests of a round are sampled once.

        Returns:
            a function from the result of ``sample()`` to the request's result.
        """
        number = self._assign_round(diagonals)
        _, asked = self._rounds[number]
        if what not in asked:
            asked.append(what)
        return lambda values: values[number][what]

    def _assign_round(self, diagonals: Sequence[DiagonalFactor]) -> int:
        """Add the bases of factors to the first round where they agree, or to a new round.

        Args:
            diagonals: factors on disjoint wires.

        Returns:
            the index of the round.
        """
        for number, (basis, _) in enumerate(self._rounds):
            if basis.try_add(diagonals):
                return number
        basis = Basis()
        basis.try_add(diagonals)
        self._rounds.append((basis, []))
        return len(self._rounds) - 1

    def sample(self, answers: Answers) -> SampledValues:
        """Draw the samples of all rounds, each in its basis, and the classical shadows.

        The gates of a round's basis are applied to the circuit before it is drawn, and undone
        before the next round. The gates of the last round are not undone.

        Args:
            answers: the backend's circuit, after all gates of the quantum function.

        Returns:
            the argument of the functions that the ``request_...`` methods returned: a list with a
            dictionary of results by request for each round, and last a dictionary of results by
            index for the classical shadows.
        """
        values = []
        # Snapshots need the state as it is, and the last basis is not undone.
        snapshots = dict(enumerate(answers.sample(self._snapshots))) if self._snapshots else {}
        for number, (basis, asked) in enumerate(self._rounds):
            answers.apply(basis.gates)
            values.append(dict(zip(asked, answers.sample(asked), strict=True)))
            if number + 1 < len(self._rounds):
                answers.apply(Modifiers.invert_sequence(basis.gates))
        return [*values, snapshots]


def request_product_mean(
    diagonals: Sequence[DiagonalFactor], rounds: SamplingRounds, wires: WireMap, *, power: int = 1
) -> Callable[[SampledValues], Any]:
    """Request the mean of a product of factors over each group of shots.

    With ``power=1`` it is the estimated expectation value of the product, with ``power=2`` the mean
    of its square.

    Args:
        diagonals: diagonal factors on disjoint wires, with eigenvalues.
        rounds: collects the samples that the circuit's processes request.
        wires: maps wire labels to qubit indices.
        power: the exponent of the product, 1 or 2.

    Returns:
        a function from the result of ``rounds.sample()`` to a real array ``[groups]``.
    """
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
    """Return whether a factor's eigenvalues are static and equal to ``[1, -1]``."""
    eigenvalues = diagonal.eigenvalues
    is_known = not is_dynamic(eigenvalues)
    return is_known and np.array_equal(eigenvalues, [1.0, -1.0])


def compute_eigenvalues(diagonals: Sequence[DiagonalFactor]) -> Any:
    """Compute the eigenvalues of a product of factors on disjoint wires.

    Returns:
        array ``[2**wires]``, static or traced: the eigenvalue of each outcome of all wires, where
        the first factor's wires are the most significant bits.
    """
    values: Any = np.ones(1)
    for diagonal in diagonals:
        values = qml.math.kron(values, diagonal.eigenvalues)
    return values
