"""Measurements of the runtime that no user returns: derivatives and shared executions need them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.device_spec import DeviceSpec


@dataclass(frozen=True)
class ShotMembership(Measurement):
    """Whether each shot belongs to this execution of the circuit, u8[shots] of 0 and 1.

    It is measured if shots with equal mid-circuit outcomes share an execution.
    """

    kind = "run"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return no operands: this measurement has neither wires nor observables."""
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (device.shots,)

    def _get_dtype(self) -> Any:
        return np.uint8


@dataclass(frozen=True)
class Score(Measurement):
    """A zero whose derivative is the score function of an execution of one shot.

    The score function is the derivative of the log-probability of all samples that the execution
    has drawn. The runtime does not measure the value; the engine computes the derivative
    (``score_function.py``).
    """

    kind = "score"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return no operands: this measurement has neither wires nor observables."""
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return ()
