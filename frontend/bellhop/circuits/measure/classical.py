"""Values that a quantum function computes and returns beside measurements."""

from typing import Any

import jax.numpy as jnp

from bellhop.circuits.measure.process import Process
from bellhop.circuits.measure.sampling import Rounds
from bellhop.circuits.measure.statistics import ExactValues, Make, Statistic


class Classical(Process):
    """A value that is no measurement: it is as it is, or one for each shot that is a run."""

    def without_shots(self, asked: ExactValues) -> Make:
        """Return what makes a statistic of it."""
        return lambda _: Statistic(self.process, is_measured=False)

    def with_shots(self, rounds: Rounds) -> Make:
        """Return what makes a statistic of it, for each shot or each group of these."""
        circuit, value = self._circuit, self.process
        if circuit.is_one_shot:
            values = circuit.of_each_shot(value)
        else:
            values = jnp.broadcast_to(value, (len(circuit.groups), *value.shape))
        return lambda _: Statistic(values, is_of_shots=circuit.is_one_shot, is_measured=False)

    def null(self, shots: int | None) -> Any:
        """Return it, or one for each shot."""
        value = self.process
        return (
            jnp.broadcast_to(value, (shots, *value.shape)) if self._circuit.is_one_shot else value
        )

    def check_wires(self) -> None:
        """It has none."""
