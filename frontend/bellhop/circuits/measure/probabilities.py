"""Probabilities of the outcomes of wires, of an observable, or of mid-circuit measurements."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.bases import Diagonal, computational, rotated_as_in_pennylane
from bellhop.circuits.measure.computed_wires import probabilities_on_known_wires
from bellhop.circuits.measure.process import Means, Process, as_index
from bellhop.circuits.measure.sampling import Rounds
from bellhop.circuits.measure.statistics import ExactValues, Make, Statistic


class Probabilities(Process):
    """Probabilities, of all wires where none is named."""

    is_of_amplitudes = True

    def _exact(self, asked: ExactValues) -> Make:
        if self.process.obs is None:
            return self._of_wires(asked.probabilities(self._known_labels()), lambda add: add)
        diagonals = self._rotated()
        gates = [gate for diagonal in diagonals for gate in diagonal.gates]
        take = asked.probabilities(self.process.obs.wires, gates)
        return lambda answers: Statistic(take(answers))

    def _sampled(self, rounds: Rounds) -> Make:
        if self.process.obs is None:
            known = self._known_labels()
            take = rounds.frequencies([computational(known)], list(map(self._wires, known)))
            return self._of_wires(take, jax.vmap)
        qubits = list(map(self._wires, self.process.obs.wires))
        take = rounds.frequencies(self._rotated(), qubits)
        return lambda answers: Statistic(take(answers))

    def _rotated(self) -> list[Diagonal]:
        """Return the factors of its observable, and one for wires with identities alone."""
        diagonals = rotated_as_in_pennylane(self.process.obs, self._where)
        labels = [wire for diagonal in diagonals for wire in diagonal.wires]
        others = [wire for wire in self.process.obs.wires if wire not in labels]
        return [*diagonals, computational(others)]

    def _of_wires(self, take: Callable[[Any], Any], of_groups: Callable[..., Any]) -> Make:
        """Return what makes the result of the probabilities of known wires."""
        if not any(map(is_dynamic, self.process.wires)):
            return lambda answers: Statistic(take(answers))
        add_up = of_groups(probabilities_on_known_wires(self._circuit, self.process))
        return lambda answers: Statistic(add_up(take(answers)))

    def _null(self, shots: int | None) -> Any:
        return self._all_in_first(len(self._labels()))

    def _means_of_outcomes(self, outcomes: Sequence[Any]) -> Means:
        frequencies = jax.nn.one_hot(as_index(outcomes), 2 ** len(outcomes), dtype=float)
        return [frequencies], lambda means: means[0]

    def _null_of_outcomes(self, n: int, shots: int | None) -> Any:
        return self._all_in_first(n)
