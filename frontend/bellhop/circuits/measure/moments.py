"""Expectation values and variances: moments of an observable, or of mid-circuit outcomes."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bellhop.circuits.measure.bases import as_diagonals, diagonalized
from bellhop.circuits.measure.computed_wires import on_known_wires
from bellhop.circuits.measure.observables import terms_of
from bellhop.circuits.measure.process import Means, Process, as_number
from bellhop.circuits.measure.sampling import Rounds, product_mean
from bellhop.circuits.measure.statistics import ExactValues, Make, Statistic, of_moments, variance


class _Moment(Process):
    def _on_known_wires(self) -> Any:
        return on_known_wires(self._observable(), self.process, self._circuit)


class ExpvalProcess(_Moment):
    """An expectation value."""

    is_linear = True

    def _exact(self, asked: ExactValues) -> Make:
        take = asked.expval(self._on_known_wires())
        return lambda answers: Statistic(take(answers))

    def _sampled(self, rounds: Rounds) -> Make:
        """Estimate it term by term, each in the basis that it needs."""
        means = [
            (jnp.real(c), product_mean(list(map(diagonalized, factors)), rounds, self._wires))
            for c, factors in terms_of(self._on_known_wires(), self._where)
        ]
        return lambda answers: Statistic(sum(c * mean(answers) for c, mean in means))

    def _means_of_outcomes(self, outcomes: Sequence[Any]) -> Means:
        return [as_number(outcomes[0]).astype(float)], lambda means: means[0]


class VarProcess(_Moment):
    """A variance."""

    def _exact(self, asked: ExactValues) -> Make:
        return asked.variance(self._on_known_wires())

    def _sampled(self, rounds: Rounds) -> Make:
        """Estimate it from samples of eigenvalues, in the observable's own eigenbasis."""
        coefficient, diagonals = as_diagonals(self._on_known_wires(), self._where)
        mean, square = (product_mean(diagonals, rounds, self._wires, power=p) for p in (1, 2))
        scale = jnp.real(coefficient)
        return lambda answers: of_moments(scale * mean(answers), scale**2 * square(answers))

    def _means_of_outcomes(self, outcomes: Sequence[Any]) -> Means:
        value = as_number(outcomes[0]).astype(float)
        return [value, value**2], variance
