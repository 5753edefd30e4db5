"""Circuits without a compiler of hybrid programs: Lightning, TensorCircuit-NG, Qulacs, MindQuantum.

A `Model` is a circuit of rotations and CNOT and the observable that it measures.  Each module
has a class that runs one; the benchmarks compare what they give with the other frameworks'.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.gates import Gate, parameters

#: A coefficient and the Pauli operators that it multiplies, by wire: ``(0.5, ((0, "Z"),))``.
Term = tuple[float, tuple[tuple[int, str], ...]]


@dataclass(frozen=True)
class Model:
    """A circuit whose every rotation has an angle of its own, and a sum of Pauli words."""

    wires: int
    gates: Sequence[Gate]
    terms: Sequence[Term] = ((1.0, ((0, "Z"),)),)

    @property
    def angles(self) -> np.ndarray:
        """Distinct angles, one for each rotation."""
        return parameters(self.gates)


class Simulator(Protocol):
    """What each module has a class of that name for, made from a `Model`."""

    def value(self, angles: np.ndarray) -> Any:
        """Return the expectation value."""

    def value_and_gradient(self, angles: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the expectation value and its gradient."""

    def batch(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values, and the gradients, of rows of angles."""


def simulator(name: str, model: Model) -> Simulator:
    """Prepare a model for the simulator of that name."""
    module = importlib.import_module(f"benchmarks.simulators.{name}")
    made: Simulator = module.Simulator(model)
    return made
