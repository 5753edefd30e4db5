"""Decompose operations that a device does not apply itself.

An exponential of a Pauli word is a rotation: ``exp(-i x P / 2)`` is ``RX(x)`` for the word X,
``IsingZZ(x)`` for ZZ, and ``PauliRot(x, "XY")`` for XY.  PennyLane finds the rotation by a search
through all its gates, which takes milliseconds per operation.
"""

import functools
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.concretization_errors import CONCRETIZATION_ERRORS
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.gates.real_imag_inference import find_nonzero_parts
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.gates.traced_powers import decompose_traced_power
from bellhop.circuits.ir.device_spec import GateSet
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

# Deeper nested decompositions count as endless.
_MAX_DEPTH = 50

# An operation on at most this many wires that has no decomposition is applied as its matrix.
_MAX_MATRIX_WIRES = 10

_ROTATIONS = {
    "X": qml.RX,
    "Y": qml.RY,
    "Z": qml.RZ,
    "XX": qml.IsingXX,
    "YY": qml.IsingYY,
    "ZZ": qml.IsingZZ,
}


def decompose(
    op: qml.operation.Operator, depth: int, into: GateSet | None = None
) -> Sequence[Any] | None:
    """Decompose an operation by one step, into other operations or its matrix.

    The returned operations may need further decompositions.

    Args:
        op: the operation, without adjoints and controls.
        depth: the number of decomposition steps that led to the operation; from `_MAX_DEPTH` on,
            only the matrix is used.
        into: the gates of a device, to check that further steps end in these gates; None to skip
            this check.

    Returns:
        PennyLane operations in order; None if the operation has neither a decomposition nor a
        matrix, or does not decompose completely into the gates ``into``.
    """
    parts = _find_gates_or_matrix(op, depth)
    if parts is None or into is None or _can_decompose_fully(parts, depth + 1, into):
        return parts
    return None


def _find_gates_or_matrix(op: qml.operation.Operator, depth: int) -> Sequence[Any] | None:
    """Decompose an operation by one step, into other operations or its matrix.

    Implements `decompose` without the check whether a device applies the result.

    Args:
        op: the operation, without adjoints and controls.
        depth: the number of decomposition steps that led to the operation.

    Returns:
        PennyLane operations in order; None if the operation has neither a decomposition nor a
        matrix.
    """
    with qml.QueuingManager.stop_recording():
        rotation = find_rotation(op)
        if rotation is not None:
            return [rotation]
        if isinstance(op, qml.AmplitudeEmbedding):
            return [_make_state_preparation(op.data[0], op.wires)]
        power = _decompose_power(op)
        if power is not None:
            return power
        if op.name == "TmpPauliRot":
            # A gate in SpecialUnitary's decomposition. Its own decomposition reads its angle.
            return [qml.PauliRot(op.data[0], op.hyperparameters["pauli_word"], wires=op.wires)]
        if op.name == "SpecialUnitary":
            # PennyLane's decomposition ends with a SpecialUnitary of detached angles, whose
            # decomposition would be endless.
            *rotations, rest = op.decomposition()
            matrix = jax.lax.stop_gradient(rest.matrix()) if rotations else rest.matrix()
            return [*rotations, qml.QubitUnitary(matrix, wires=rest.wires)]
        # THermitian, an observable of qutrits, inherits a decomposition into qubit gates.
        has_parts = op.has_decomposition and not isinstance(op, qml.THermitian)
        if depth < _MAX_DEPTH and not is_nonunitary_exponential(op) and has_parts:
            return _decompose_with_pennylane(op)
        if op.name != "QubitUnitary" and op.has_matrix and len(op.wires) <= _MAX_MATRIX_WIRES:
            matrix = op.matrix()
            if matrix.shape[-1] == 2 ** len(op.wires):  # not the matrix of a qutrit gate
                return [qml.QubitUnitary(matrix, wires=op.wires)]
    return None


def _decompose_power(op: qml.operation.Operator) -> Sequence[Any] | None:
    """Decompose a power for which PennyLane's decomposition raises an error or is wrong.

    PennyLane raises an error for some traced exponents, and is wrong for a power of a power.

    Returns:
        the gates; None if ``op`` is not a power, if PennyLane's decomposition works, or if Bellhop
        has no decomposition either.
    """
    if not isinstance(op, qml.ops.Pow):
        return None
    if isinstance(op.base, qml.ops.Pow) and not any(map(is_dynamic, (*op.data, *op.wires, op.z))):
        # PennyLane multiplies the exponents, which is wrong: the root of a square is not the base.
        return [qml.QubitUnitary(op.matrix(), wires=op.wires)] if op.has_matrix else None
    if not is_dynamic(op.z):
        return None
    if not isinstance(op.base, qml.ops.Pow):
        try:
            # The power of a rotation multiplies its angle and does not read the exponent's value.
            op.base.pow(op.z)
        except (*CONCRETIZATION_ERRORS, qml.exceptions.PowUndefinedError):
            return decompose_traced_power(op)
        return None
    return decompose_traced_power(op)


def get_pennylane_decomposition(
    op: qml.operation.Operator, depth: int = 0, *, of_base: bool = False
) -> Sequence[Any] | None:
    """Return PennyLane's decomposition of an operation, or None if it has none.

    Args:
        op: the operation.
        depth: the number of decomposition steps that led to the operation; from a limit on, the
            decomposition counts as endless, and the result is None.
        of_base: True to decompose the operation without its adjoint and controls, and to add these
            to each gate: ``ctrl(pow(RX(x), z))`` becomes ``ctrl(RX(z x))``. This supports traced
            parameters that PennyLane's decomposition of the whole operation would read. If neither
            the base nor the operation has a decomposition, PennyLane's error is raised.
    """
    if depth >= _MAX_DEPTH:
        return None
    if of_base:
        base, modifiers = Modifiers.strip(op)
        if base.has_decomposition:
            parts = _decompose_with_pennylane(base)
            return [modifiers.apply(part) for part in (parts[::-1] if modifiers.adjoint else parts)]
    return _decompose_with_pennylane(op) if of_base or op.has_decomposition else None


def _decompose_with_pennylane(op: qml.operation.Operator) -> Sequence[Any]:
    """Return PennyLane's decomposition of an operation."""
    parts: Any = op.decomposition()
    # PennyLane returns the power of an evolution without a list around it.
    return [parts] if isinstance(parts, qml.operation.Operator) else parts


class Modifiers(NamedTuple):
    """The adjoint and the controls around an operation, separate from the operation.

    `strip` splits ``adjoint(ctrl(RX(x, 0), 1))`` into ``RX(x, 0)`` and its modifiers. `apply` adds
    the modifiers to another operation, such as each gate of a decomposition.

    Attributes:
        adjoint: whether the operation is inverted.
        controls: pairs of control wire and control value, empty for no control.
    """

    adjoint: bool
    controls: Sequence[tuple[Any, Any]]

    @classmethod
    def strip(
        cls, op: qml.operation.Operator, gates: Container[str] = ()
    ) -> tuple[qml.operation.Operator, "Modifiers"]:
        """Split an operation into its base and its modifiers.

        ``ctrl(adjoint(RX(x, 0)), 1)`` has the base ``RX(x, 0)``, an adjoint and a control.

        Args:
            op: the operation.
            gates: names of controlled gates that count as a base, such as CNOT, which is a
                controlled X. If such a gate has further controls, it is split as well.

        Returns:
            the operation without adjoints and controls, and the modifiers.
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
                return op, cls(adjoint, controls)

    @classmethod
    def is_preparation(cls, op: qml.operation.Operator) -> bool:
        """Return whether an operation prepares a pure state.

        Adjoints and controls around the operation are ignored.
        """
        base, _ = cls.strip(op)
        return OperationKind.classify(base).is_pure_preparation

    def apply(self, part: Any) -> Any:
        """Return a PennyLane operation with this adjoint and these controls around it.

        Without modifiers, ``part`` is returned unchanged.
        """
        if not self.adjoint and not self.controls:
            return part
        with qml.QueuingManager.stop_recording():
            if self.adjoint:
                part = qml.adjoint(part)
            if self.controls:
                wires, values = zip(*self.controls, strict=True)
                part = qml.ctrl(part, control=wires, control_values=values)
        return part

    @staticmethod
    def invert_sequence(gates: Sequence[Any], *, is_lazy: bool = True) -> list[Any]:
        """Return the adjoints of gates, in reverse order.

        Args:
            gates: PennyLane operations in the order of application.
            is_lazy: whether an inverse is always an ``Adjoint``; else it is a plain gate if
                PennyLane has this gate, as ``RX(-x)`` for ``RX(x)``.
        """
        with qml.QueuingManager.stop_recording():
            return [qml.adjoint(gate, lazy=is_lazy) for gate in reversed(gates)]

    @staticmethod
    def find_control_wires(op: qml.operation.Operator) -> set[Any]:
        """Return the wires on which an operator acts only as a control.

        For ``CNOT([0, 1])`` the result is ``{0}``; for ``CNOT([0, 1]) @ X(0)`` it is empty.

        Args:
            op: PennyLane operator.
        """
        if isinstance(op, qml.ops.Adjoint | qml.ops.Pow | qml.ops.SProd):
            return Modifiers.find_control_wires(op.base)
        if isinstance(op, qml.ops.CompositeOp):
            changed = [set(part.wires) - Modifiers.find_control_wires(part) for part in op.operands]
            return set(op.wires).difference(*changed)
        # Operators that are not operations have no ``control_wires``.
        return set(getattr(op, "control_wires", ()))

    def decompose_phase(self, phase: Any) -> list[qml.operation.Operator]:
        """Decompose a global phase with these modifiers into a phase shift.

        ``ctrl(GlobalPhase(a), [0, 1])`` becomes ``ctrl(PhaseShift(-a, 1), 0)``. These modifiers
        must have a control.

        Args:
            phase: the ``GlobalPhase``, without the modifiers.

        Returns:
            the phase shift on the last control wire, controlled by the other control wires; between
            two flips of the last control wire if its control value is false.
        """
        *others, (wire, value) = self.controls
        angle = phase.data[0] if self.adjoint else -phase.data[0]
        with qml.QueuingManager.stop_recording():
            flips = [] if value else [qml.X(wire)]
            shift = qml.PhaseShift(angle, wires=wire)
            if others:
                wires, values = zip(*others, strict=True)
                shift = qml.ctrl(shift, control=list(wires), control_values=list(values))
        return [*flips, shift, *flips]


def _can_decompose_fully(operations: Sequence[Any], depth: int, gates: GateSet) -> bool:
    """Return whether operations decompose completely into gates that a device applies.

    Operations without effect, and loops and conditionals, count as applied by the device.

    Args:
        operations: PennyLane operations, with adjoints and controls.
        depth: the number of decomposition steps that led to the operations.
        gates: the gates of the device.
    """
    for op in operations:
        base, modifiers = Modifiers.strip(op, gates)
        if OperationKind.classify(base) is OperationKind.IGNORED or ControlFlow.is_instance(base):
            continue
        if gates.can_apply(
            base.name, adjoint=modifiers.adjoint, controlled=bool(modifiers.controls)
        ):
            continue
        parts = decompose(base, depth)
        if parts is None:
            return False
        inner = [modifiers.apply(part) for part in parts]
        if not _can_decompose_fully(inner, depth + 1, gates):
            return False
    return True


def unsupported_operation_error(
    op: qml.operation.Operator, where: str, written: str = ""
) -> CompileError:
    """Make the error for an operation that the device can neither apply nor decompose.

    Args:
        op: the operation.
        where: the QNode's name and line, with which the message begins.
        written: the name of the user's operation, if ``op`` is in its decomposition; else empty.
    """
    if isinstance(op, qml.ops.SymbolicOp) and (
        OperationKind.classify(op.base) is OperationKind.CHANNEL
    ):
        return CompileError(
            f"{where}: the circuit has {op.name}, and channels have no inverse and no controlled "
            "form. Apply the channel outside of qml.adjoint and qml.ctrl; for mitigate_with_zne, "
            "which inverts the gates, add noise to the QNode by qml.add_noise."
        )
    part = f" (part of {written})" if written not in ("", op.name) else ""
    other = (
        "qml.device('default.mixed', wires=...)" if _is_mixed_operation(op) else "another device"
    )
    return CompileError(
        f"{where}: the device does not apply {op.name}{part}, and PennyLane has no decomposition "
        f"of {op.name}. Use gates that the device applies, or {other}."
    )


def _is_mixed_operation(op: qml.operation.Operator) -> bool:
    """Return whether an operation is a qubit channel or prepares a density matrix."""
    kind = OperationKind.classify(op)
    if kind is OperationKind.CHANNEL:
        return op.name not in qml.ops.qutrit.__all__
    return kind is OperationKind.DENSITY_MATRIX


def find_rotation(op: qml.operation.Operator) -> Any | None:
    """Convert a unitary ``qml.exp`` or ``qml.evolve`` of one Pauli word to a rotation.

    ``qml.exp(qml.X(0), -0.5j * x)`` becomes ``qml.RX(x, 0)``.

    Returns:
        the rotation (for the identity a ``GlobalPhase``), or None for other operations and for
        exponentials that may be not unitary.
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
    """Return whether an operation is a ``qml.exp`` or ``qml.evolve`` that may not be unitary.

    True if the coefficient of the exponential may have a nonzero real part. Such an exponential is
    not decomposed into gates; its matrix is applied.

    Args:
        op: PennyLane operation.
    """
    return isinstance(op, qml.ops.Exp) and find_nonzero_parts(_get_exponent(op)).real


def _find_angle(op: qml.operation.Operator, factor: Any) -> Any | None:
    """Return the angle ``x`` with which an exponential is ``exp(-i x word / 2)``.

    Args:
        op: an exponential of one Pauli word.
        factor: the word's coefficient in the base of the exponential.

    Returns:
        the angle; None if it may be complex.
    """
    if isinstance(op, qml.ops.Evolution) and not jnp.iscomplexobj(op.param):
        # The generator of an evolution is Hermitian.
        return 2 * op.param * np.real(factor)
    exponent = _get_exponent(op) * factor
    if find_nonzero_parts(exponent).real:
        return None
    return -2 * (jnp.imag(exponent) if is_dynamic(exponent) else np.imag(exponent))


def _get_exponent(op: qml.operation.Operator) -> Any:
    """Return the coefficient of an exponential: ``c`` of ``exp(c * base)``."""
    return -1j * op.param if isinstance(op, qml.ops.Evolution) else op.coeff


def merge_preparations(operations: Sequence[Any]) -> list[Any]:
    """Merge the state preparations at the beginning of a circuit into one ``StatePrep``.

    ``StatePrep(a, 0)``, ``X(2)``, ``StatePrep(b, 1)`` becomes ``StatePrep(kron(a, b), [0, 1])``,
    ``X(2)``. A preparation is merged if no earlier operation acts on its wires. Devices prepare a
    state only once: any further preparation is decomposed into gates, which takes a gate for each
    amplitude and has no derivative with respect to an amplitude of zero.

    Args:
        operations: PennyLane operations, in order.

    Returns:
        the merged preparation, then all other operations in order; without a preparation, the
        operations unchanged.
    """
    first, others = _split_preparations(operations)
    if not first:
        return list(operations)
    if len(first) == 1:
        return [*first, *others]
    states = [op.data[0] for op in first]
    is_traced = any(map(is_dynamic, states))
    state = functools.reduce(jnp.kron if is_traced else np.kron, states)
    wires = [wire for op in first for wire in op.wires]
    return [_make_state_preparation(state, wires), *others]


def _split_preparations(operations: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split the operations of a circuit into state preparations at its beginning and the rest.

    The search for preparations ends at an operation with traced wires or without wires, such as a
    ``Snapshot``, which reads the state. A preparation of a batch of states belongs to the rest.

    Returns:
        the ``StatePrep`` operations whose wires no earlier operation acts on, and all other
        operations, both in their order.
    """
    first: list[Any] = []
    others: list[Any] = []
    touched: set[Any] = set()
    preparations = sum(map(_is_preparation, operations))
    for place, op in enumerate(operations):
        if len(first) == preparations or not op.wires or any(map(is_dynamic, op.wires)):
            return first, [*others, *operations[place:]]
        is_first = _is_preparation(op) and touched.isdisjoint(op.wires)
        (first if is_first else others).append(op)
        touched.update(op.wires)
    return first, others


def _make_state_preparation(state: Any, wires: Any) -> qml.StatePrep:
    """Create a ``StatePrep`` of a normalized state, which is not queued."""
    with qml.QueuingManager.stop_recording():
        return qml.StatePrep(state, wires=wires, validate_norm=False)


def _is_preparation(op: qml.operation.Operator) -> bool:
    """Return whether an operation is a ``StatePrep`` of one state, not of a batch."""
    return isinstance(op, qml.StatePrep) and op.batch_size is None
