"""Qulacs: one parametric circuit, whose parameters are set for each row."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.simulators import Model


class Simulator:
    """Runs a model; gradients are Qulacs' backpropagation."""

    def __init__(self, model: Model) -> None:
        """Build the circuit and the observable."""
        # OpenMP's threads wait for one another by spinning: where a core is taken, a circuit of
        # four qubits takes 300 times as long.  Read when Qulacs is loaded.
        os.environ["OMP_WAIT_POLICY"] = "passive"
        import qulacs

        self._circuit = qulacs.ParametricQuantumCircuit(model.wires)
        for gate in model.gates:
            if gate.slot is None:
                self._circuit.add_CNOT_gate(*gate.wires)
            else:
                # Its own angles turn the other way.
                getattr(self._circuit, f"add_parametric_{gate.name}_gate")(*gate.wires, 0.0)
        self._slots = [gate.slot for gate in model.gates if gate.slot is not None]
        self._observable = qulacs.Observable(model.wires)
        for coefficient, word in model.terms:
            text = " ".join(f"{pauli} {wire}" for wire, pauli in word)
            self._observable.add_operator(coefficient, text)
        self._state = qulacs.QuantumState(model.wires)

    def _set(self, angles: np.ndarray) -> None:
        turned = (-angles[self._slots]).tolist()
        for place, angle in enumerate(turned):
            self._circuit.set_parameter(place, angle)

    def _measured(self) -> float:
        self._state.set_zero_state()
        self._circuit.update_quantum_state(self._state)
        return float(self._observable.get_expectation_value(self._state))

    def _gradient(self) -> np.ndarray:
        gradient = np.empty(len(self._slots))
        gradient[self._slots] = self._circuit.backprop(self._observable)
        return -gradient

    def value(self, angles: np.ndarray) -> Any:
        """Run the circuit once."""
        self._set(angles)
        return self._measured()

    def value_and_gradient(self, angles: np.ndarray) -> tuple[Any, np.ndarray]:
        """Run the circuit for its value and once more for the gradient, which has no value."""
        self._set(angles)
        return self._measured(), self._gradient()

    def batch(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run row after row."""
        values, gradients = zip(*map(self.value_and_gradient, angles), strict=True)
        return np.array(values), np.array(gradients)
