"""What operations consist of that a device does not apply itself."""

from collections.abc import Sequence
from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.device import GateSet, split
from bellhop.circuits.gates.pauli_exponentials import is_damping, rotation_of
from bellhop.errors import CompileError

# How deep decompositions may nest before they are taken to go on for ever.
DECOMPOSITION_DEPTH = 50

NOTHING_TO_APPLY = (qml.Identity, qml.ops.Barrier, qml.ops.WireCut)

# Up to here, an operation that nobody decomposes is applied as its matrix.
_MATRIX_WIRES = 10


def parts_of(op: qml.operation.Operator, depth: int) -> Sequence[Any] | None:
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
        # That of a qutrit's observable is inherited from Hermitian.
        has_parts = op.has_decomposition and not isinstance(op, qml.THermitian)
        if depth < DECOMPOSITION_DEPTH and not is_damping(op) and has_parts:
            return decomposition_of(op)
        if op.name != "QubitUnitary" and op.has_matrix and len(op.wires) <= _MATRIX_WIRES:
            matrix = op.matrix()
            if matrix.shape[-1] == 2 ** len(op.wires):  # not that of a qutrit gate
                return [qml.QubitUnitary(matrix, wires=op.wires)]
    return None


def decomposition_of(op: qml.operation.Operator) -> Sequence[Any]:
    """Return what PennyLane decomposes an operation into."""
    parts: Any = op.decomposition()
    # A power of an evolution is one evolution, which PennyLane does not put into a list.
    return [parts] if isinstance(parts, qml.operation.Operator) else parts


def decomposition_inside(op: qml.operation.Operator) -> Sequence[Any]:
    """Return what PennyLane decomposes an operation into, of which only the form is taken off.

    What is controlled is decomposed first: ``ctrl(pow(RX(x), z))`` is ``ctrl(RX(z x))``, where
    PennyLane looks at the number ``x``.
    """
    base, adjoint, controls = split(op, ())
    if not base.has_decomposition:
        return decomposition_of(op)
    parts = decomposition_of(base)
    return [in_form(part, adjoint, controls) for part in (parts[::-1] if adjoint else parts)]


def in_form(part: Any, adjoint: bool, controls: Sequence[tuple[Any, Any]]) -> Any:
    """Return an operation inverted, and with controls, as given."""
    if not adjoint and not controls:
        return part
    with qml.QueuingManager.stop_recording():
        if adjoint:
            part = qml.adjoint(part)
        if controls:
            wires, values = zip(*controls, strict=True)
            part = qml.ctrl(part, control=wires, control_values=values)
    return part


def phase_of_controls(
    phase: Any, adjoint: bool, controls: Sequence[tuple[Any, Any]]
) -> list[qml.operation.Operator]:
    """Return a controlled global phase as gates; its decomposition is none, without controls."""
    *others, (wire, value) = controls
    angle = phase.data[0] if adjoint else -phase.data[0]
    with qml.QueuingManager.stop_recording():
        flips = [] if value else [qml.X(wire)]
        shift = qml.PhaseShift(angle, wires=wire)
        if others:
            wires, values = zip(*others, strict=True)
            shift = qml.ctrl(shift, control=list(wires), control_values=list(values))
    return [*flips, shift, *flips]


def end_well(operations: Sequence[Any], depth: int, gates: GateSet) -> bool:
    """Tell whether a device applies all that operations consist of in the end."""
    for op in operations:
        base, adjoint, controls = split(op, gates)
        if isinstance(base, NOTHING_TO_APPLY) or is_control_flow(base):
            continue
        if gates.applies(base.name, adjoint=adjoint, controlled=bool(controls)):
            continue
        parts = parts_of(base, depth)
        if parts is None:
            return False
        inner = [in_form(part, adjoint, controls) for part in parts]
        if not end_well(inner, depth + 1, gates):
            return False
    return True


def not_applied(op: qml.operation.Operator, where: str, written: str = "") -> CompileError:
    """Return the error of an operation that neither the device nor PennyLane knows how to apply.

    Args:
        op: the operation.
        where: the QNode, for errors.
        written: the name of the one that the user wrote, if it consists of others.
    """
    if isinstance(op, qml.ops.SymbolicOp) and isinstance(op.base, qml.operation.Channel):
        return CompileError(
            f"{where}: it has {op.name}, and a channel has no inverse and no controlled form. If "
            "circuits are mitigated, which are folded, add noise to the QNode by qml.add_noise: "
            "that comes after folding."
        )
    part = f" ({written} consists of it)" if written not in ("", op.name) else ""
    other = "qml.device('default.mixed', wires=...)" if _makes_mixtures(op) else "another device"
    return CompileError(
        f"{where}: the device does not apply {op.name}{part}, and PennyLane has no decomposition "
        f"of it. Use gates that the device has, or {other}."
    )


def _makes_mixtures(op: qml.operation.Operator) -> bool:
    """Tell whether an operation is a channel of qubits, or prepares a mixture of them."""
    if isinstance(op, qml.operation.Channel):
        return op.name not in qml.ops.qutrit.__all__
    return isinstance(op, qml.QubitDensityMatrix)
