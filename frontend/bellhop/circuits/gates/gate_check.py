"""Raise errors for operations of a circuit that are not gates."""

import numpy as np
import pennylane as qml

from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

_MAX_CHECKED_WIRES = 8
_OBSERVABLES = (
    qml.Hermitian,
    qml.Projector,
    qml.SparseHamiltonian,
    qml.ops.LinearCombination,
    qml.ops.SProd,
    qml.ops.Sum,
)


_MID_CIRCUIT = ("MidMeasureMP", "MidMeasure", "Conditional", "PauliMeasure")


def check_is_gate(
    op: qml.operation.Operator, where: str, *, is_part: bool, can_apply_matrices: bool
) -> None:
    """Raise an error if an operation must not be applied as a gate.

    That is an observable, except in the cases that ``is_part`` and ``can_apply_matrices`` allow, or
    PennyLane's own mid-circuit measurement or conditional operation.

    Args:
        op: PennyLane operation that the circuit applies.
        where: the QNode's name and line, for error messages.
        is_part: whether the operation results from a decomposition; observables are then allowed.
        can_apply_matrices: whether the device can apply any matrix; an observable with a static
            unitary matrix is then allowed.

    Raises:
        CompileError: for an observable that is not allowed; for PennyLane's mid-circuit
            measurements and the conditional operations that depend on them.
    """
    if op.name in _MID_CIRCUIT:
        raise CompileError(
            f"{where}: the circuit has {op.name}, a mid-circuit measurement or an operation that "
            "depends on one, which was created without bellhop.measure. Use bellhop.measure and "
            "bellhop.cond."
        )
    if not isinstance(op, _OBSERVABLES) or is_part:
        return
    if not (can_apply_matrices and _is_static_unitary(op)):
        raise CompileError(
            f"{where}: the observable {op.name} is applied as a gate. Create the observable in "
            "the call of the measurement, such as qml.expval(qml.Z(0)), or outside the QNode; to "
            "project a wire, use bellhop.measure(wire, postselect=...)."
        )


def _is_static_unitary(op: qml.operation.Operator) -> bool:
    """Return whether an operator has no tracers, and its matrix is unitary.

    Always False for more than `_MAX_CHECKED_WIRES` wires, whose matrix is too large to compute.
    """
    if any(map(is_dynamic, (*op.data, *op.wires))) or len(op.wires) > _MAX_CHECKED_WIRES:
        return False
    if not op.has_matrix:
        return False
    matrix = np.asarray(op.matrix())
    return matrix.ndim == 2 and np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)))
