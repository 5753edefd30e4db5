"""Qulacs with its optimizer of circuits, which multiplies gates on up to four qubits."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.fusing import IF_MEASURED, MEASURE
from benchmarks.gates import Gate
from benchmarks.simulators import Model

#: The most qubits of a fused gate.  More than two are slower in Qulacs, but in few circuits.
BLOCK = 2


class Fusing:
    """Runs a model."""

    def __init__(self, model: Model, precision: str) -> None:
        """Build and optimize the circuit."""
        os.environ["OMP_WAIT_POLICY"] = "passive"  # as benchmarks.simulators.qulacs says
        import qulacs
        from qulacs.circuit import QuantumCircuitOptimizer

        if precision != "double":
            raise NotImplementedError("Qulacs has double precision alone")
        self._circuit = qulacs.QuantumCircuit(model.wires)
        self._is_drawn_anew = False
        for gate in model.gates:
            if gate.name == MEASURE:
                self._is_drawn_anew = True
                self._circuit.add_gate(qulacs.gate.Measurement(*gate.wires, 0))
            elif gate.name == IF_MEASURED:
                made = qulacs.gate.Adaptive(qulacs.gate.X(*gate.wires), lambda bits: bits[0] == 1)
                self._circuit.add_gate(made)
            else:
                self._circuit.add_gate(_gate(gate, model.angles))
        if not self._is_drawn_anew:
            QuantumCircuitOptimizer().optimize(self._circuit, BLOCK)
        self._observable = qulacs.Observable(model.wires)
        for coefficient, word in model.terms:
            text = " ".join(f"{pauli} {wire}" for wire, pauli in word)
            self._observable.add_operator(coefficient, text)
        self._state = qulacs.QuantumState(model.wires)
        self._wires = model.wires

    def _run(self) -> None:
        self._state.set_zero_state()
        self._circuit.update_quantum_state(self._state)

    def value(self) -> float:
        """Run the circuit once."""
        self._run()
        return float(self._observable.get_expectation_value(self._state).real)

    def outcomes(self, shots: int) -> np.ndarray:
        """Run the circuit once, or for each shot, and add up the bits of what is drawn."""
        drawn = []
        runs = shots if self._is_drawn_anew else 1
        for _ in range(runs):
            self._run()
            drawn += self._state.sampling(shots // runs)
        drawn = np.array(drawn)
        return np.array([np.sum(drawn >> wire & 1) for wire in range(self._wires)])


def _gate(gate: Gate, angles: np.ndarray) -> Any:
    from qulacs import gate as gates

    if gate.name == "MultiControlledX":
        made = gates.to_matrix_gate(gates.X(gate.wires[-1]))
        for control in gate.wires[:-1]:
            made.add_control_qubit(control, 1)
        return made
    if gate.slot is None:
        return getattr(gates, {"Hadamard": "H"}.get(gate.name, gate.name))(*gate.wires)
    angle = float(angles[gate.slot])
    if gate.name == "IsingZZ":
        # Its own angles turn the other way.
        return gates.PauliRotation(list(gate.wires), [3, 3], -angle)
    if gate.name == "ControlledPhaseShift":
        made = gates.to_matrix_gate(gates.U1(gate.wires[1], angle))
        made.add_control_qubit(gate.wires[0], 1)
        return made
    return getattr(gates, gate.name)(*gate.wires, -angle)
