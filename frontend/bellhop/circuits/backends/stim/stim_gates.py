"""Operations of PennyLane as instructions of Stim: what a gate is, its matrix says.

``qml.adjoint(qml.S(3))`` and ``qml.RZ(-np.pi / 2, 3)`` are ``S_DAG 3``.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pennylane as qml

# The name of an instruction, and the places of its targets.
Instructions = Sequence[tuple[str, Sequence[int]]]

# Tableaus of more wires are asked of the parts that an operation is decomposed into.
MATRIX_WIRES = 4

# The channels that default.clifford has, by the instruction of their only wire.
CHANNELS = {
    qml.BitFlip: "X_ERROR",
    qml.PhaseFlip: "Z_ERROR",
    qml.DepolarizingChannel: "DEPOLARIZE1",
}


def stim() -> Any:
    """Return the package; ``default.clifford`` cannot be made without."""
    import stim as package

    return package


@functools.cache
def _names() -> dict[str, str]:
    """Return the name of each gate that Stim has, by its tableau."""
    gates = [
        gate
        for gate in stim().gate_data().values()
        if gate.is_unitary and (gate.is_single_qubit_gate or gate.is_two_qubit_gate)
    ]
    return {repr(gate.tableau): gate.name for gate in gates if not gate.takes_pauli_targets}


# Stim takes matrices for those of Clifford gates that are farther from them.
_SAME = 1e-6


@functools.lru_cache(1024)
def _of_matrix(entries: bytes, n_wires: int) -> Instructions | None:
    matrix = np.frombuffer(entries, np.complex128).reshape(2**n_wires, -1)
    try:
        tableau = stim().Tableau.from_unitary_matrix(matrix, endian="big")
    except ValueError:
        return None
    found = tableau.to_unitary_matrix(endian="big")
    if not np.allclose(found * np.vdot(found, matrix) / len(matrix), matrix, atol=_SAME, rtol=0):
        return None
    name = _names().get(repr(tableau))
    if name is not None:
        return [(name, range(n_wires))]
    circuit = tableau.to_circuit()
    return [(each.name, [t.value for t in each.targets_copy()]) for each in circuit]


def instructions_of(op: Any) -> Instructions | None:
    """Return a gate of few wires as instructions; None for what is no Clifford gate."""
    matrix = np.asarray(op.matrix(wire_order=op.wires), np.complex128)
    return _of_matrix(matrix.tobytes(), len(op.wires))


@functools.lru_cache(1024)
def _of_state(entries: bytes) -> Instructions | None:
    try:
        tableau = stim().Tableau.from_state_vector(
            np.frombuffer(entries, np.complex64), endian="big"
        )
    except ValueError:
        return None
    return [(each.name, [t.value for t in each.targets_copy()]) for each in tableau.to_circuit()]


def preparation_of(op: Any) -> Instructions | None:
    """Return what prepares a state of wires that are zero; None for one of no stabilizers."""
    vector = np.asarray(op.state_vector(wire_order=op.wires), np.complex64)
    return _of_state(vector.tobytes())


def pauli_of(text: str) -> frozenset[tuple[int, str]] | None:
    """Return the factors X and Z that a program multiplies qubits by; None where it does more."""
    try:
        product = stim().Circuit(text).to_tableau().to_pauli_string()
    except (ValueError, IndexError):
        # The latter of an outcome from before.
        return None
    factors = {0: "", 1: "X", 2: "XZ", 3: "Z"}
    return frozenset((q, pauli) for q in range(len(product)) for pauli in factors[product[q]])
