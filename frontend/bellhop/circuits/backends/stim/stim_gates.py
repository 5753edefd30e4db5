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
MAX_MATRIX_WIRES = 4

# The channels that default.clifford has, by the instruction of their only wire.
CHANNELS = {
    qml.BitFlip: "X_ERROR",
    qml.PhaseFlip: "Z_ERROR",
    qml.DepolarizingChannel: "DEPOLARIZE1",
}


def import_stim() -> Any:
    """Return the package; ``default.clifford`` cannot be made without."""
    import stim as package

    return package


@functools.cache
def _get_gate_names() -> dict[str, str]:
    """Return the name of each gate that Stim has, by its tableau."""
    gates = [
        gate
        for gate in import_stim().gate_data().values()
        if gate.is_unitary and (gate.is_single_qubit_gate or gate.is_two_qubit_gate)
    ]
    return {repr(gate.tableau): gate.name for gate in gates if not gate.takes_pauli_targets}


# Stim takes matrices for those of Clifford gates that are farther from them.
_TOLERANCE = 1e-6


@functools.lru_cache(1024)
def _find_matrix_instructions(entries: bytes, n_wires: int) -> Instructions | None:
    matrix = np.frombuffer(entries, np.complex128).reshape(2**n_wires, -1)
    try:
        tableau = import_stim().Tableau.from_unitary_matrix(matrix, endian="big")
    except ValueError:
        return None
    found = tableau.to_unitary_matrix(endian="big")
    if not np.allclose(
        found * np.vdot(found, matrix) / len(matrix), matrix, atol=_TOLERANCE, rtol=0
    ):
        return None
    name = _get_gate_names().get(repr(tableau))
    if name is not None:
        return [(name, range(n_wires))]
    circuit = tableau.to_circuit()
    return [(each.name, [t.value for t in each.targets_copy()]) for each in circuit]


def find_instructions(op: Any) -> Instructions | None:
    """Return a gate of few wires as instructions; None for what is no Clifford gate."""
    matrix = np.asarray(op.matrix(wire_order=op.wires), np.complex128)
    return _find_matrix_instructions(matrix.tobytes(), len(op.wires))


@functools.lru_cache(1024)
def _find_state_instructions(entries: bytes) -> Instructions | None:
    try:
        tableau = import_stim().Tableau.from_state_vector(
            np.frombuffer(entries, np.complex64), endian="big"
        )
    except ValueError:
        return None
    return [(each.name, [t.value for t in each.targets_copy()]) for each in tableau.to_circuit()]


def find_preparation(op: Any) -> Instructions | None:
    """Return what prepares a state of wires that are zero; None for one of no stabilizers."""
    vector = np.asarray(op.state_vector(wire_order=op.wires), np.complex64)
    return _find_state_instructions(vector.tobytes())


def find_pauli_product(text: str) -> frozenset[tuple[int, str]] | None:
    """Return the factors X and Z that a program multiplies qubits by; None where it does more."""
    try:
        product = import_stim().Circuit(text).to_tableau().to_pauli_string()
    except (ValueError, IndexError):
        # The latter of an outcome from before.
        return None
    factors = {0: "", 1: "X", 2: "XZ", 3: "Z"}
    return frozenset((q, pauli) for q in range(len(product)) for pauli in factors[product[q]])
