"""Simulators that multiply gates into few larger ones: Qiskit Aer, qsim through cirq, Qulacs.

Each module has a class that takes a `Model`, builds its circuit once with all angles in it, and
runs it; what a user's program would bind anew in each call is not counted against them.
"""

from __future__ import annotations

import importlib
from typing import Protocol

import numpy as np

from benchmarks.simulators import Model

#: A measurement in the middle, and an X that is applied where the last of these gave 1: names of
#: gates beside PennyLane's.
MEASURE, IF_MEASURED = "measure", "x if measured"


class Fusing(Protocol):
    """What each module has a class of that name for, made from a `Model` and a precision."""

    def value(self) -> float:
        """Return the expectation value."""

    def outcomes(self, shots: int) -> np.ndarray:
        """Draw shots of all wires; return how often each wire was found in 1."""


def fusing(name: str, model: Model, precision: str = "double") -> Fusing:
    """Prepare a model for the simulator of that name."""
    module = importlib.import_module(f"benchmarks.fusing.{name}")
    made: Fusing = module.Fusing(model, precision)
    return made
