"""qsim through cirq, which has single precision alone: fusion to gates of four qubits."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.gates import Gate
from benchmarks.simulators import Model


class Fusing:
    """Runs a model."""

    def __init__(self, model: Model, precision: str) -> None:
        """Build the circuit and the observable."""
        import cirq
        import qsimcirq

        if precision != "single":
            raise NotImplementedError("qsim has single precision alone")
        options = qsimcirq.QSimOptions(
            max_fused_gate_size=4, cpu_threads=len(os.sched_getaffinity(0))
        )
        self._simulator = qsimcirq.QSimSimulator(options)
        self._qubits = cirq.LineQubit.range(model.wires)
        self._circuit = cirq.Circuit(self._gate(gate, model.angles) for gate in model.gates)
        self._observable = cirq.PauliSum()
        for coefficient, word in model.terms:
            paulis = {self._qubits[wire]: getattr(cirq, pauli) for wire, pauli in word}
            self._observable += cirq.PauliString(paulis, coefficient=coefficient)

    def _gate(self, gate: Gate, angles: np.ndarray) -> Any:
        import cirq

        qubits = [self._qubits[wire] for wire in gate.wires]
        if gate.name == "MultiControlledX":
            return cirq.X(qubits[-1]).controlled_by(*qubits[:-1])
        if gate.slot is None:
            return getattr(cirq, {"Hadamard": "H"}.get(gate.name, gate.name))(*qubits)
        angle = float(angles[gate.slot])
        made = {
            "ControlledPhaseShift": lambda: cirq.CZPowGate(exponent=angle / np.pi),
            "IsingZZ": lambda: cirq.ZZPowGate(exponent=angle / np.pi, global_shift=-0.5),
        }
        return made.get(gate.name, lambda: getattr(cirq, gate.name.lower())(angle))()(*qubits)

    def value(self) -> float:
        """Run the circuit once."""
        (value,) = self._simulator.simulate_expectation_values(self._circuit, self._observable)
        return float(value.real)

    def outcomes(self, shots: int) -> np.ndarray:
        """Run the circuit once, and add up the outcomes that are drawn."""
        import cirq

        measured = self._circuit + cirq.measure(*self._qubits, key="all")
        drawn = self._simulator.run(measured, repetitions=shots).measurements["all"]
        return np.asarray(drawn.sum(axis=0))
