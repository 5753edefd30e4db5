"""Measurements with shots: which samples and frequencies they need, and their results from these.

Expectation values, variances and probabilities are computed from frequencies.  Their expectation
is a probability, so devices differentiate them like exact values.  Coefficients and eigenvalues are
applied to them afterwards, in classical equations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.measure.bases import Bases, Diagonal
from bellhop.circuits.measure.device_measurements import Frequencies, Samples, Snapshots

Asked = Frequencies | Samples | Snapshots
# By round; those of snapshots come last, by number.
Answers = Sequence[dict[Any, Any]]


class Rounds:
    """Rounds of samples, each in a basis of its own, and what is asked of each.

    Args:
        groups: the shots of each group.
    """

    def __init__(self, groups: tuple[int, ...]) -> None:
        self._groups = groups
        self._bases = Bases()
        self._asked: list[list[Asked]] = []
        self._snapshots: list[Snapshots] = []

    def frequencies(
        self, diagonals: Sequence[Diagonal], wires: Sequence[int], signs: Sequence[int] = ()
    ) -> Callable[[Answers], Any]:
        """Ask how often outcomes come, in each group; return what takes it from the answers."""
        return self._ask(diagonals, Frequencies(tuple(wires), tuple(signs), self._groups))

    def outcomes(self, diagonals: Sequence[Diagonal]) -> Callable[[Answers], Any]:
        """Ask for the outcomes of all qubits, a row for each shot."""
        return self._ask(diagonals, Samples())

    def snapshots(self, what: Snapshots) -> Callable[[Answers], Any]:
        """Ask for samples whose basis is another one for each shot."""
        self._snapshots.append(what)
        place = len(self._snapshots) - 1
        return lambda answers: answers[-1][place]

    def _ask(self, diagonals: Sequence[Diagonal], what: Asked) -> Callable[[Answers], Any]:
        number = self._bases.place(diagonals)
        if number == len(self._asked):
            self._asked.append([])
        if what not in self._asked[number]:
            self._asked[number].append(what)
        return lambda answers: answers[number][what]

    def answers(self, circuit: Any) -> Answers:
        """Sample a circuit at its end; ``circuit.sample`` answers what is asked of a round."""
        answers = []
        # They need the circuit as it is, and the last basis is not undone.
        snapshots = dict(enumerate(circuit.sample(self._snapshots))) if self._snapshots else {}
        for number, (basis, asked) in enumerate(zip(self._bases.bases, self._asked, strict=True)):
            circuit.apply(basis.gates)
            answers.append(dict(zip(asked, circuit.sample(asked), strict=True)))
            if number + 1 < len(self._asked):
                circuit.apply([qml.adjoint(gate) for gate in reversed(basis.gates)])
        return [*answers, snapshots]


def product_mean(
    diagonals: Sequence[Diagonal], rounds: Rounds, wires: WireMap, *, power: int = 1
) -> Callable[[Answers], Any]:
    """Ask for the mean of a power of a product of diagonal factors, for each group of shots."""
    others = [diagonal for diagonal in diagonals if not _is_sign(diagonal)]
    of_signs = [wire for diagonal in diagonals if _is_sign(diagonal) for wire in diagonal.wires]
    columns = [wires(wire) for diagonal in others for wire in diagonal.wires]
    take = rounds.frequencies(diagonals, columns, list(map(wires, of_signs)) if power % 2 else [])
    eigenvalues = all_eigenvalues(others) ** power
    return lambda answers: take(answers) @ jnp.asarray(eigenvalues)


def _is_sign(diagonal: Diagonal) -> bool:
    eigenvalues = diagonal.eigenvalues
    is_known = not isinstance(eigenvalues, jax.core.Tracer)
    return is_known and np.array_equal(eigenvalues, [1.0, -1.0])


def packed(bits: Any) -> Any:
    """Return the number that each row of bits is."""
    powers = 2 ** np.arange(bits.shape[1])[::-1]
    return bits.astype(int) @ powers if bits.shape[1] else jnp.zeros(bits.shape[0], int)


def all_eigenvalues(diagonals: Sequence[Diagonal]) -> Any:
    """Return the eigenvalues of a product, one an outcome."""
    values: Any = np.ones(1)
    for diagonal in diagonals:
        values = qml.math.kron(values, diagonal.eigenvalues)
    return values


def group_of_shot(groups: Sequence[int]) -> Any:
    """Return for each shot the number of its group, given the sizes of these.

    It is computed in the program, whose constants would grow with the shots.
    """
    if len(groups) == 1:
        return jnp.zeros(groups[0], int)
    return jnp.searchsorted(np.cumsum(groups), jnp.arange(sum(groups)), side="right")
