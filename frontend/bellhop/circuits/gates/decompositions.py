"""What operations consist of that a device does not apply itself.

An exponential of a Pauli word is a rotation: ``exp(-i x P / 2)`` is ``RX(x)`` for the word X,
``IsingZZ(x)`` for ZZ, and ``PauliRot(x, "XY")`` for XY.  PennyLane finds that by a search through
all of its gates, which takes milliseconds for each.
"""

import functools
import itertools
from collections.abc import Container, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.concretization_errors import CONCRETIZATION_ERRORS
from bellhop.circuits.gates.real_imag_inference import find_nonzero_parts
from bellhop.circuits.gates.tape_control_flow import is_control_flow
from bellhop.circuits.gates.traced_powers import decompose_traced_power
from bellhop.circuits.ir.device_spec import GateSet
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

# How deep decompositions may nest before they are taken to go on for ever.
MAX_DECOMPOSITION_DEPTH = 50

IGNORED_OPERATIONS = (qml.Identity, qml.ops.Barrier, qml.ops.WireCut)

# Up to here, an operation that nobody decomposes is applied as its matrix.
_MAX_MATRIX_WIRES = 10

_ROTATIONS = {
    "X": qml.RX,
    "Y": qml.RY,
    "Z": qml.RZ,
    "XX": qml.IsingXX,
    "YY": qml.IsingYY,
    "ZZ": qml.IsingZZ,
}


def decompose(op: qml.operation.Operator, depth: int) -> Sequence[Any] | None:
    """Return what an operation consists of, in order; None where nobody knows.

    Args:
        op: the operation, without controls.
        depth: how many decompositions it comes of.
    """
    with qml.QueuingManager.stop_recording():
        rotation = find_rotation(op)
        if rotation is not None:
            return [rotation]
        power = _decompose_power(op)
        if power is not None:
            return power
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
        if depth < MAX_DECOMPOSITION_DEPTH and not is_nonunitary_exponential(op) and has_parts:
            return decompose_with_pennylane(op)
        if op.name != "QubitUnitary" and op.has_matrix and len(op.wires) <= _MAX_MATRIX_WIRES:
            matrix = op.matrix()
            if matrix.shape[-1] == 2 ** len(op.wires):  # not that of a qutrit gate
                return [qml.QubitUnitary(matrix, wires=op.wires)]
    return None


def _decompose_power(op: qml.operation.Operator) -> Sequence[Any] | None:
    """Return the gates of a power that follow from the matrix of its base; None for others."""
    if not isinstance(op, qml.ops.Pow):
        return None
    if isinstance(op.base, qml.ops.Pow) and not any(map(is_dynamic, (*op.data, *op.wires, op.z))):
        # PennyLane multiplies the exponents, and the root of a square is not the base.
        return [qml.QubitUnitary(op.matrix(), wires=op.wires)] if op.has_matrix else None
    if not is_dynamic(op.z):
        return None
    if not isinstance(op.base, qml.ops.Pow):
        try:
            # A rotation by a multiple of its angle needs no value.
            op.base.pow(op.z)
        except (*CONCRETIZATION_ERRORS, qml.exceptions.PowUndefinedError):
            return decompose_traced_power(op)
        return None
    return decompose_traced_power(op)


def decompose_with_pennylane(op: qml.operation.Operator) -> Sequence[Any]:
    """Return what PennyLane decomposes an operation into."""
    parts: Any = op.decomposition()
    # A power of an evolution is one evolution, which PennyLane does not put into a list.
    return [parts] if isinstance(parts, qml.operation.Operator) else parts


def decompose_base(op: qml.operation.Operator) -> Sequence[Any]:
    """Return what PennyLane decomposes an operation into, of which only the form is taken off.

    What is controlled is decomposed first: ``ctrl(pow(RX(x), z))`` is ``ctrl(RX(z x))``, where
    PennyLane looks at the number ``x``.
    """
    base, adjoint, controls = strip_modifiers(op, ())
    if not base.has_decomposition:
        return decompose_with_pennylane(op)
    parts = decompose_with_pennylane(base)
    return [add_modifiers(part, adjoint, controls) for part in (parts[::-1] if adjoint else parts)]


def strip_modifiers(
    op: qml.operation.Operator, gates: Container[str]
) -> tuple[qml.operation.Operator, bool, list[tuple[Any, Any]]]:
    """Take adjoints and controls off an operation, as far as the device wants it.

    Named gates with controls, CNOT say, stay what they are if the device knows them.

    Returns:
        the operation inside, whether it is inverted, and pairs of control wire and value.
    """
    adjoint = False
    controls: list[tuple[Any, Any]] = []
    while True:
        if isinstance(op, qml.ops.Adjoint):
            adjoint = not adjoint
            op = op.base
        elif isinstance(op, qml.ops.Controlled) and (controls or op.name not in gates):
            controls += zip(op.control_wires, op.control_values, strict=True)
            op = op.base
        else:
            return op, adjoint, controls


def add_modifiers(part: Any, adjoint: bool, controls: Sequence[tuple[Any, Any]]) -> Any:
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


def decompose_controlled_phase(
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


def can_decompose_fully(operations: Sequence[Any], depth: int, gates: GateSet) -> bool:
    """Tell whether a device applies all that operations consist of in the end."""
    for op in operations:
        base, adjoint, controls = strip_modifiers(op, gates)
        if isinstance(base, IGNORED_OPERATIONS) or is_control_flow(base):
            continue
        if gates.can_apply(base.name, adjoint=adjoint, controlled=bool(controls)):
            continue
        parts = decompose(base, depth)
        if parts is None:
            return False
        inner = [add_modifiers(part, adjoint, controls) for part in parts]
        if not can_decompose_fully(inner, depth + 1, gates):
            return False
    return True


def unsupported_operation_error(
    op: qml.operation.Operator, where: str, written: str = ""
) -> CompileError:
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
    other = (
        "qml.device('default.mixed', wires=...)" if _is_mixed_operation(op) else "another device"
    )
    return CompileError(
        f"{where}: the device does not apply {op.name}{part}, and PennyLane has no decomposition "
        f"of it. Use gates that the device has, or {other}."
    )


def _is_mixed_operation(op: qml.operation.Operator) -> bool:
    """Tell whether an operation is a channel of qubits, or prepares a mixture of them."""
    if isinstance(op, qml.operation.Channel):
        return op.name not in qml.ops.qutrit.__all__
    return isinstance(op, qml.QubitDensityMatrix)


def find_rotation(op: qml.operation.Operator) -> Any | None:
    """Return the rotation that ``qml.exp`` or ``qml.evolve`` of a Pauli word is.

    Args:
        op: any operation.

    Returns:
        None for what is no exponential of one word, and for exponentials that are not unitary.
    """
    if not isinstance(op, qml.ops.Exp):
        return None
    words = op.base.pauli_rep
    if words is None or len(words) != 1:
        return None
    ((word, factor),) = words.items()
    angle = _find_angle(op, factor)
    if angle is None:
        return None
    letters = "".join(word.values())
    if not letters:
        return qml.GlobalPhase(angle / 2, wires=op.wires)
    if set(letters) == {"Z"} and len(letters) > 2:
        return qml.MultiRZ(angle, wires=list(word))
    if letters in _ROTATIONS:
        return _ROTATIONS[letters](angle, wires=list(word))
    return qml.PauliRot(angle, letters, wires=list(word))


def is_nonunitary_exponential(op: qml.operation.Operator) -> bool:
    """Tell whether an exponential need not be unitary; such a one is no gate but has a matrix."""
    return isinstance(op, qml.ops.Exp) and find_nonzero_parts(_get_exponent(op)).real


def _find_angle(op: qml.operation.Operator, factor: Any) -> Any | None:
    """Return ``x`` of ``exp(-i x word / 2)``; None where it may not be real."""
    if isinstance(op, qml.ops.Evolution) and not jnp.iscomplexobj(op.param):
        # Its generator is Hermitian.
        return 2 * op.param * np.real(factor)
    exponent = _get_exponent(op) * factor
    if find_nonzero_parts(exponent).real:
        return None
    return -2 * (jnp.imag(exponent) if is_dynamic(exponent) else np.imag(exponent))


def _get_exponent(op: qml.operation.Operator) -> Any:
    """Return what the base of an exponential is multiplied by."""
    return -1j * op.param if isinstance(op, qml.ops.Evolution) else op.coeff


def convert_embedding(op: qml.operation.Operator) -> qml.operation.Operator:
    """Return the state preparation that an amplitude embedding is, and others as they are."""
    return (
        _make_state_preparation(op.data[0], op.wires)
        if isinstance(op, qml.AmplitudeEmbedding)
        else op
    )


def merge_preparations(operations: Sequence[Any]) -> list[Any]:
    """Return the operations that a circuit begins with, its preparations as one of all their wires.

    Devices prepare a state once, and what others decompose to has no derivative by an amplitude
    of zero.
    """
    first = list(itertools.takewhile(_is_preparation, operations))
    wires = [wire for op in first for wire in op.wires]
    if len(first) < 2 or any(map(is_dynamic, wires)) or len(set(wires)) < len(wires):
        return list(operations)
    states = [op.data[0] for op in first]
    is_traced = any(map(is_dynamic, states))
    state = functools.reduce(jnp.kron if is_traced else np.kron, states)
    return [_make_state_preparation(state, wires), *operations[len(first) :]]


def _make_state_preparation(state: Any, wires: Any) -> qml.StatePrep:
    with qml.QueuingManager.stop_recording():
        return qml.StatePrep(state, wires=wires, validate_norm=False)


def _is_preparation(op: qml.operation.Operator) -> bool:
    return isinstance(op, qml.StatePrep) and op.batch_size is None
