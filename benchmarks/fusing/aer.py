"""Qiskit Aer's state vector, which fuses gates by itself; in single precision or in double."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fusing import IF_MEASURED, MEASURE
from benchmarks.simulators import Model

# The methods of its circuits, by PennyLane's names.
METHODS = {
    "Hadamard": "h",
    "RX": "rx",
    "RY": "ry",
    "RZ": "rz",
    "CNOT": "cx",
    "CZ": "cz",
    "SWAP": "swap",
    "ControlledPhaseShift": "cp",
    "IsingZZ": "rzz",
}


class Fusing:
    """Runs a model."""

    def __init__(self, model: Model, precision: str) -> None:
        """Build the circuit, once to measure the observable and once to draw shots."""
        from qiskit.quantum_info import SparsePauliOp
        from qiskit_aer import AerSimulator

        self._simulator = AerSimulator(method="statevector", precision=precision)
        self._wires = model.wires
        words = [
            ("".join(pauli for _, pauli in word), [wire for wire, _ in word], coefficient)
            for coefficient, word in model.terms
        ]
        observable = SparsePauliOp.from_sparse_list(words, model.wires)
        self._measured = self._circuit(model)
        self._measured.save_expectation_value(observable, range(model.wires))
        self._drawn = self._circuit(model)
        self._drawn.measure_all()

    def _circuit(self, model: Model) -> Any:
        from qiskit import QuantumCircuit

        measured = [gate.name for gate in model.gates].count(MEASURE)
        made = QuantumCircuit(model.wires, measured)
        place = -1
        for gate in model.gates:
            if gate.name == MEASURE:
                place += 1
                made.measure(*gate.wires, place)
            elif gate.name == IF_MEASURED:
                with made.if_test((made.clbits[place], 1)):
                    made.x(*gate.wires)
            elif gate.name == "MultiControlledX":
                made.mcx(list(gate.wires[:-1]), gate.wires[-1])
            else:
                angles = [] if gate.slot is None else [float(model.angles[gate.slot])]
                getattr(made, METHODS[gate.name])(*angles, *gate.wires)
        return made

    def value(self) -> float:
        """Run the circuit once."""
        result = self._simulator.run(self._measured).result()
        return float(result.data()["expectation_value"])

    def outcomes(self, shots: int) -> np.ndarray:
        """Run the circuit once, and add up the bits of what was counted."""
        counts = self._simulator.run(self._drawn, shots=shots).result().data()["counts"]
        # The last bits are the outcomes in the middle.
        found = np.array(
            [int(outcome, 16) >> self._drawn.num_clbits - self._wires for outcome in counts]
        )
        often = np.fromiter(counts.values(), int)
        return np.array([often @ (found >> wire & 1) for wire in range(self._wires)])
