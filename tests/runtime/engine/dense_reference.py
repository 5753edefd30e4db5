"""A dense state-vector simulator of rotations and controlled gates, in NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_PAULI = {
    "X": np.array([[0, 1], [1, 0]], complex),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.array([[1, 0], [0, -1]], complex),
}


@dataclass(frozen=True)
class DenseGate:
    """The gate exp(-i angle P / 2), or the Pauli matrix P if it has no angle.

    Attributes:
        pauli: "X", "Y" or "Z".
        wire: the wire of P.
        slot: the index of the angle, or None.
        control: the wire that must be 1, or None.
    """

    pauli: str
    wire: int
    slot: int | None = None
    control: int | None = None

    def matrix(self, angles: np.ndarray) -> np.ndarray:
        """Return the 2x2 matrix of the gate on `wire`."""
        if self.slot is None:
            return _PAULI[self.pauli]
        half = angles[self.slot] / 2
        return np.cos(half) * np.eye(2) - 1j * np.sin(half) * _PAULI[self.pauli]


def random_gates(rng: np.random.Generator, qubits: int, count: int) -> list[DenseGate]:
    """Return `count` rotations, CNOTs, CZs and controlled rotations on random wires."""
    gates: list[DenseGate] = []
    slot = 0
    for _ in range(count):
        kind = rng.integers(4) if qubits > 1 else 0
        wire, control = (rng.permutation(qubits)[:2].tolist() + [None])[:2]
        pauli = "XYZ"[rng.integers(3)]
        if kind == 0 or kind == 3:
            gates.append(DenseGate(pauli, wire, slot, control if kind == 3 else None))
            slot += 1
            # Two rotations of one wire have a general matrix.
            if rng.integers(2):
                gates.append(DenseGate("XYZ"[rng.integers(3)], wire, slot))
                slot += 1
        if kind == 1 or (kind == 0 and qubits > 1 and rng.integers(2)):
            gates.append(DenseGate("X", wire, control=control))
        elif kind == 2:
            gates.append(DenseGate("Z", wire, control=control))
    if slot == 0:
        gates.append(DenseGate("Y", 0, 0))
    return gates


def count_angles(gates: list[DenseGate]) -> int:
    """Return the number of angles that the gates take."""
    return 1 + max(gate.slot for gate in gates if gate.slot is not None)


def _apply(matrix: np.ndarray, gate: DenseGate, state: np.ndarray, outside: complex) -> np.ndarray:
    """Apply a matrix where the gate's control is 1, and multiply by `outside` elsewhere."""
    acted = np.matmul(matrix, state.reshape(2**gate.wire, 2, -1)).reshape(-1)
    if gate.control is None:
        return acted
    out = outside * state
    shape = (2**gate.control, 2, -1)
    out.reshape(shape)[:, 1] = acted.reshape(shape)[:, 1]
    return out


def final_state(gates: list[DenseGate], angles: np.ndarray, qubits: int) -> np.ndarray:
    """Return the amplitudes after the gates, in the order of `qml.state`."""
    state = np.zeros(2**qubits, complex)
    state[0] = 1
    for gate in gates:
        state = _apply(gate.matrix(angles), gate, state, 1)
    return state


def value_and_gradient(
    gates: list[DenseGate], angles: np.ndarray, wires: list[int], qubits: int
) -> tuple[float, np.ndarray]:
    """Return the expectation value of X on each of `wires`, multiplied, and its gradient."""
    ket = final_state(gates, angles, qubits)
    bra = ket
    for wire in wires:
        bra = _apply(_PAULI["X"], DenseGate("X", wire), bra, 1)
    value = np.vdot(bra, ket).real
    gradient = np.zeros(len(angles))
    for gate in reversed(gates):
        if gate.slot is not None:
            turned = _apply(-0.5j * _PAULI[gate.pauli], gate, ket, 0)
            gradient[gate.slot] += 2 * np.vdot(bra, turned).real
        inverse = gate.matrix(angles).conj().T
        ket = _apply(inverse, gate, ket, 1)
        bra = _apply(inverse, gate, bra, 1)
    return value, gradient
