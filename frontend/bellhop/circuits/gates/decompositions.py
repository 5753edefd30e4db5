"""What operations consist of that a device does not apply itself."""

from collections.abc import Sequence
from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.gates.pauli_exponentials import is_damping, rotation_of

# How deep decompositions may nest before they are taken to go on for ever.
DECOMPOSITION_DEPTH = 50

# Up to here, an operation that nobody decomposes is applied as its matrix.
_MATRIX_WIRES = 10


def parts_of(op: Any, depth: int) -> Sequence[Any] | None:
    """Return what an operation consists of, in order; None where nobody knows.

    Args:
        op: the operation, without controls.
        depth: how many decompositions it comes of.
    """
    with qml.QueuingManager.stop_recording():
        rotation = rotation_of(op)
        if rotation is not None:
            return [rotation]
        if op.name == "TmpPauliRot":
            # A part of SpecialUnitary, which asks for the value of its angle.
            return [qml.PauliRot(op.data[0], op.hyperparameters["pauli_word"], wires=op.wires)]
        if op.name == "SpecialUnitary":
            # PennyLane's ends with one by detached angles, which is decomposed alike for ever.
            *rotations, rest = op.decomposition()
            matrix = jax.lax.stop_gradient(rest.matrix()) if rotations else rest.matrix()
            return [*rotations, qml.QubitUnitary(matrix, wires=rest.wires)]
        if depth < DECOMPOSITION_DEPTH and not is_damping(op) and op.has_decomposition:
            return op.decomposition()
        if op.name != "QubitUnitary" and op.has_matrix and len(op.wires) <= _MATRIX_WIRES:
            return [qml.QubitUnitary(op.matrix(), wires=op.wires)]
    return None
