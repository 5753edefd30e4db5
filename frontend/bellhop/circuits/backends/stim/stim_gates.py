"""Conversion of PennyLane operations to Stim instructions, by their matrices.

``qml.adjoint(qml.S(3))`` and ``qml.RZ(-np.pi / 2, 3)`` both become ``S_DAG 3``.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pennylane as qml

# For each instruction, its name and the indices of its targets among the operation's wires.
Instructions = Sequence[tuple[str, Sequence[int]]]

# Operations on more wires are decomposed first.
MAX_MATRIX_WIRES = 4

# Stim instructions of the one-wire channels that default.clifford supports.
_CHANNELS = {
    qml.BitFlip: "X_ERROR",
    qml.PhaseFlip: "Z_ERROR",
    qml.DepolarizingChannel: "DEPOLARIZE1",
}


def find_channel(op: qml.operation.Operator) -> tuple[str, str] | None:
    """Convert a noise channel to a Stim instruction.

    The last parameter of a channel is the error's probability, which is not part of the result.

    Returns:
        the name of the instruction, such as ``"X_ERROR"``, and a Pauli letter for each wire (such
        as "XZ") if the instruction needs them, otherwise ""; None for any other operation.
    """
    if isinstance(op, qml.PauliError):
        return "E", op.hyperparameters["operators"]
    name = _CHANNELS.get(type(op))
    return None if name is None else (name, "")


def import_stim() -> Any:
    """Import and return Stim, which ``default.clifford`` has imported before."""
    import stim as package

    return package


@functools.cache
def _get_gate_names() -> dict[str, str]:
    """Return a dictionary from the ``repr`` of a gate's tableau to its name in Stim."""
    gates = [
        gate
        for gate in import_stim().gate_data().values()
        if gate.is_unitary and (gate.is_single_qubit_gate or gate.is_two_qubit_gate)
    ]
    return {repr(gate.tableau): gate.name for gate in gates if not gate.takes_pauli_targets}


# Stim rounds matrices to Clifford gates with a larger tolerance, so the result is compared again.
_TOLERANCE = 1e-6


@functools.lru_cache(1024)
def _find_matrix_instructions(entries: bytes, n_wires: int) -> Instructions | None:
    """Convert a unitary matrix to Stim instructions. Cached by the matrix.

    Args:
        entries: the bytes of the matrix, complex128.
        n_wires: the number of wires on which it acts.

    Returns:
        pairs of an instruction's name and the indices of its target wires; None if no Clifford gate
        has this matrix up to a phase.
    """
    matrix = np.frombuffer(entries, np.complex128).reshape(2**n_wires, -1)
    try:
        tableau = import_stim().Tableau.from_unitary_matrix(matrix, endian="big")
    except ValueError:
        return None
    rounded = tableau.to_unitary_matrix(endian="big")
    if not np.allclose(
        rounded * np.vdot(rounded, matrix) / len(matrix), matrix, atol=_TOLERANCE, rtol=0
    ):
        return None
    name = _get_gate_names().get(repr(tableau))
    if name is not None:
        return [(name, range(n_wires))]
    circuit = tableau.to_circuit()
    return [(each.name, [t.value for t in each.targets_copy()]) for each in circuit]


def find_instructions(op: Any) -> Instructions | None:
    """Convert a gate to Stim instructions, by its matrix.

    Args:
        op: a PennyLane operation on few wires, with a static matrix.

    Returns:
        pairs of an instruction's name and the indices of its targets in ``op.wires``; None if it is
        not a Clifford gate.
    """
    matrix = np.asarray(op.matrix(wire_order=op.wires), np.complex128)
    return _find_matrix_instructions(matrix.tobytes(), len(op.wires))


@functools.lru_cache(1024)
def _find_state_instructions(entries: bytes) -> Instructions | None:
    """Convert a state vector to Stim instructions that prepare it.

    Args:
        entries: the bytes of the state vector, complex64. Results are cached by them.

    Returns:
        pairs of an instruction's name and the indices of its target wires; None if the state is not
        a stabilizer state.
    """
    try:
        tableau = import_stim().Tableau.from_state_vector(
            np.frombuffer(entries, np.complex64), endian="big"
        )
    except ValueError:
        return None
    return [(each.name, [t.value for t in each.targets_copy()]) for each in tableau.to_circuit()]


def find_preparation(op: Any) -> Instructions | None:
    """Convert a state preparation to Stim instructions that act on the state zero.

    Args:
        op: PennyLane state preparation with a static state vector.

    Returns:
        pairs of an instruction's name and the indices of its targets in ``op.wires``; None if the
        state is not a stabilizer state.
    """
    vector = np.asarray(op.state_vector(wire_order=op.wires), np.complex64)
    return _find_state_instructions(vector.tobytes())


def find_pauli_product(text: str) -> frozenset[tuple[int, str]] | None:
    """Return the product of Paulis that a Stim program applies.

    Args:
        text: the lines of the program.

    Returns:
        pairs of a qubit and "X" or "Z", where a Y is both: ``{(0, "X"), (2, "X"), (2, "Z")}``. None
        if the program is not a product of Paulis.
    """
    try:
        product = import_stim().Circuit(text).to_tableau().to_pauli_string()
    except (ValueError, IndexError):
        # A reference to an earlier outcome raises IndexError.
        return None
    factors = {0: "", 1: "X", 2: "XZ", 3: "Z"}
    return frozenset((q, pauli) for q in range(len(product)) for pauli in factors[product[q]])
