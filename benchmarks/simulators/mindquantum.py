"""MindQuantum: a circuit all of whose angles are data, of which it runs rows in parallel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.simulators import Model


class Simulator:
    """Runs a model on `mqvector`; gradients are MindQuantum's adjoint method."""

    def __init__(self, model: Model) -> None:
        """Build the circuit, and the functions of one row and of a batch."""
        from mindquantum.core import gates
        from mindquantum.core.circuit import Circuit
        from mindquantum.core.operators import Hamiltonian, QubitOperator
        from mindquantum.simulator import Simulator as StateVector

        circuit = Circuit()
        for gate in model.gates:
            if gate.slot is None:
                control, target = gate.wires
                circuit += gates.X.on(target, control)
            else:
                circuit += getattr(gates, gate.name)(f"p{gate.slot}").on(*gate.wires)
        self._slots = [int(name[1:]) for name in circuit.params_name]
        sum_of_words = QubitOperator()
        for coefficient, word in model.terms:
            text = " ".join(f"{pauli}{wire}" for wire, pauli in word)
            sum_of_words += QubitOperator(text, coefficient)
        self._observable = Hamiltonian(sum_of_words)
        self._state = StateVector("mqvector", model.wires)
        self._circuit, self._names = circuit, circuit.params_name
        self._differentiate = self._state.get_expectation_with_grad(self._observable, circuit)
        self._differentiate_rows = StateVector("mqvector", model.wires).get_expectation_with_grad(
            self._observable,
            circuit.copy().as_encoder(),
            parallel_worker=len(os.sched_getaffinity(0)),
        )

    def _ordered(self, gradients: np.ndarray) -> np.ndarray:
        ordered = np.empty(gradients.shape)
        ordered[..., self._slots] = gradients.real
        return ordered

    def value(self, angles: np.ndarray) -> Any:
        """Run the circuit once."""
        named = dict(zip(self._names, angles[self._slots].tolist(), strict=True))
        return self._state.get_expectation(self._observable, self._circuit, pr=named).real

    def value_and_gradient(self, angles: np.ndarray) -> tuple[Any, np.ndarray]:
        """Run the circuit forward and back."""
        value, gradient = self._differentiate(angles[self._slots])
        return value[0, 0].real, self._ordered(gradient[0, 0])

    def batch(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run all rows in one call."""
        values, gradients, *_ = self._differentiate_rows(angles[:, self._slots])
        return values[:, 0].real, self._ordered(gradients[:, 0])
