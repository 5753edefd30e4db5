"""Circuits as lists of gates, and the two ways to run them.

One description serves PennyLane's operations and Lightning's own Python
bindings, so that the limit applies exactly the gates of the program it bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Gate:
    """A gate by its PennyLane name; `slot` is the index of its parameter."""

    name: str
    wires: tuple[int, ...]
    slot: int | None = None


def parameters(gates: Sequence[Gate]) -> np.ndarray:
    """Return distinct angles, one for each slot."""
    return np.linspace(0.1, 2.9, 1 + max(gate.slot for gate in gates if gate.slot is not None))


def apply(gates: Sequence[Gate], angles: Any) -> None:
    """Queue the gates as PennyLane operations."""
    import pennylane as qml

    for gate in gates:
        operation = getattr(qml, gate.name)
        if gate.slot is None:
            operation(wires=gate.wires)
        else:
            operation(angles[gate.slot], wires=gate.wires)


def observable(terms: Sequence[tuple[float, Sequence[tuple[int, str]]]]) -> Any:
    """Return a sum of Pauli words in PennyLane, or the word where there is one with 1."""
    import pennylane as qml

    words = [
        qml.prod(*(getattr(qml, f"Pauli{pauli}")(wire) for wire, pauli in word))
        for _, word in terms
    ]
    coefficients = [coefficient for coefficient, _ in terms]
    return words[0] if coefficients == [1.0] else qml.Hamiltonian(coefficients, words)


class Lightning:
    """Runs gates through the Python bindings of lightning.qubit.

    The calls are bound in advance; what remains beside Lightning's own time is
    one call from Python to C++ for each gate.
    """

    def __init__(self, wires: int, gates: Sequence[Gate], angles: np.ndarray, wire: int) -> None:
        """Prepare the calls that end in the expectation value of Z on `wire`."""
        from pennylane_lightning import lightning_qubit_ops as lightning

        self._module = lightning
        self._wires, self._wire = wires, wire
        self._calls: list[tuple[str, list[int], list[float]]] = [
            (gate.name, list(gate.wires), [] if gate.slot is None else [float(angles[gate.slot])])
            for gate in gates
        ]
        names, places, values = ([call[part] for call in self._calls] for part in range(3))
        self._operations = lightning.algorithms.create_ops_listC128(
            names,
            values,
            places,
            [False] * len(self._calls),
            [np.zeros(0, dtype=np.complex128)] * len(self._calls),
            [[]] * len(self._calls),
            [[]] * len(self._calls),
        )
        self._slots = list(range(len(angles)))

    def _run(self) -> Any:
        state = self._module.StateVectorC128(self._wires)
        bound: dict[str, Callable[..., None]] = {
            name: getattr(state, name) for name in {call[0] for call in self._calls}
        }
        for name, wires, values in self._calls:
            bound[name](wires, False, values)
        return state

    def expectation(self) -> float:
        """Build the state and measure."""
        # Lightning's measurements do not keep the state alive; this name does.
        state = self._run()
        measurements = self._module.MeasurementsC128(state)
        return float(measurements.expval("PauliZ", [self._wire]))

    def gradient(self) -> Any:
        """Build the state and differentiate by the adjoint method."""
        observable = self._module.observables.NamedObsC128("PauliZ", [self._wire])
        adjoint = self._module.algorithms.AdjointJacobianC128()
        return adjoint(self._run(), [observable], self._operations, self._slots).reshape(-1)
