"""Circuits of all kinds of gates that the engine has."""

import numpy as np
import pennylane as qml

_ONE = [qml.RX, qml.RY, qml.RZ, qml.PhaseShift]
_TWO = [qml.IsingXX, qml.IsingXY, qml.IsingYY, qml.IsingZZ, qml.CRX, qml.CRY, qml.CRZ]
_TWO += [qml.SingleExcitation, qml.SingleExcitationPlus, qml.SingleExcitationMinus]
_FIXED = [(qml.Hadamard, 1), (qml.T, 1), (qml.SX, 1), (qml.CNOT, 2), (qml.CY, 2), (qml.CZ, 2)]
_FIXED += [(qml.SWAP, 2), (qml.Toffoli, 3), (qml.CSWAP, 3)]


def _wires(rng, qubits, count):
    return rng.permutation(qubits)[:count].tolist()


def _random_gate(rng, qubits, angle):
    """One of all kinds, perhaps inverted or controlled."""
    kind = rng.integers(5)
    if kind == 0:
        op = _ONE[rng.integers(len(_ONE))](angle, wires=_wires(rng, qubits, 1))
    elif kind == 1:
        op = _TWO[rng.integers(len(_TWO))](angle, wires=_wires(rng, qubits, 2))
    elif kind == 2:
        word = "".join(rng.choice(list("XYZ"), 3))
        op = qml.PauliRot(angle, word, wires=_wires(rng, qubits, 3))
    elif kind == 3:
        op = qml.DoubleExcitation(angle, wires=_wires(rng, qubits, 4))
    else:
        gate, count = _FIXED[rng.integers(len(_FIXED))]
        return gate(wires=_wires(rng, qubits, count))
    if rng.integers(3) == 0:
        op = qml.adjoint(op, lazy=True)
    free = [wire for wire in range(qubits) if wire not in op.wires]
    if free and rng.integers(3) == 0:
        control = rng.choice(free, size=rng.integers(1, len(free) + 1), replace=False)
        values = rng.integers(2, size=len(control))
        op = qml.ctrl(op, control=control.tolist(), control_values=values.tolist())
    return op


def random_circuit(seed, qubits, device):
    """Return a QNode with a gate for each angle and three expectation values."""

    def circuit(angles):
        rng = np.random.default_rng(seed)
        for angle in angles:
            _random_gate(rng, qubits, angle)
        a, b, c = _wires(rng, qubits, 3)
        return (
            qml.expval(qml.X(a) @ qml.Y(b)),
            qml.expval(0.7 * qml.Z(c) - 1.3 * qml.X(b) @ qml.Z(a) @ qml.Y(c)),
            qml.expval(qml.Hadamard(a) @ qml.Projector([1], wires=b)),
        )

    return qml.QNode(circuit, qml.device(device, wires=qubits))
