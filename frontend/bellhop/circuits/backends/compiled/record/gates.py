"""Conversion of PennyLane operations to gates of the quantum dialect and their parameters."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop._jax.jaxprs import PROGRAM_TRACER
from bellhop.circuits.backends.compiled.record.gate_sequence import DerivativeKind, GateSequence
from bellhop.circuits.backends.compiled.record.matrix_check import mask_nonunitary
from bellhop.circuits.gates.decompositions import Modifiers, decompose, unsupported_operation_error
from bellhop.circuits.gates.gate_check import check_is_gate
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.gates.operator_data import select_row
from bellhop.circuits.gates.shift_rules import FrequencyBits
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.device_spec import GateSet
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.errors import CompileError
from bellhop_mlir.dialects.gate import Gate, array_slots

_UNRECORDED_GATES = ("QubitUnitary", "StatePrep", "BasisState")
_GATES_WITH_COMPLEX_DATA = ("QubitUnitary", "StatePrep")
# Usual types of static wires, and of static parameters.
_INTEGER_TYPES = frozenset((int,))
_NUMBER_TYPES = frozenset((float, int, np.float64))
_FEWEST_WIRES_OF_DIAGONAL = 4
# Smaller states are constants in the table of gates.
_FEWEST_AMPLITUDES_OF_OPERAND = 512
_TYPES_OF_AMPLITUDES = frozenset(("float32", "float64", "complex64", "complex128"))


class GateList:
    """Converts PennyLane operations to gate sequences, which the runtime applies.

    Made for a list of operations that a circuit applies. Attribute ``sequences`` has the result: a
    `GateSequence` for the gates between control flow, and `ControlFlow` operations.

    Args:
        gate_set: the operations that the device applies; others are decomposed.
        wires: maps wire labels to qubit indices.
        where: the QNode's name and line, which begin error messages.
        rows: the batch row whose gate parameters are used, by a traced index (broadcasting).
        is_first: whether no operation was applied to the state before, so that ``StatePrep`` may
            replace the state.
        find_site: returns the ``file:line`` of an operation, for run-time errors.
        by_differences: whether derivatives are finite differences, which all gates support.
        in_engine: whether the engine runs this device's circuits, however many qubits they have. A
            diagonal unitary on four wires or more is then one gate; otherwise it is decomposed.
    """

    def __init__(
        self,
        gate_set: GateSet,
        wires: WireMap,
        where: str,
        *,
        rows: TracedRow,
        is_first: bool,
        find_site: Callable[[Any], str],
        by_differences: bool,
        in_engine: bool,
    ) -> None:
        self._gate_set = gate_set
        self._wires = wires
        self._where = where
        self._rows = rows
        self._is_first = is_first
        self._find_site = find_site
        self._by_differences = by_differences
        self._in_engine = in_engine
        self._real = Precision.real_type()
        # The user's operation, which is being decomposed.
        self._user_operation: Any = None
        # Cached decisions, by the key of an operation or by wires.
        self._derivative_kinds: dict[Any, DerivativeKind] = {}
        self._known_qubits: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.sequences: list[GateSequence | qml.operation.Operator] = []

    def is_straight(self, most: int) -> bool:
        """Return whether the list has at most ``most`` gates, and no control flow."""
        counts = [
            len(run.gates) if isinstance(run, GateSequence) else most + 1 for run in self.sequences
        ]
        return sum(counts) <= most

    def add(self, op: qml.operation.Operator, depth: int = 0) -> None:
        """Append an operation, decomposed into gates that the device applies.

        Control flow is appended as it is; an operation without effect, such as a barrier, is
        dropped.

        Args:
            op: the operation.
            depth: the number of decompositions that produced `op`; 0 for the user's operation.

        Raises:
            CompileError: for an operation that is not a gate, for a complex parameter if the device
                does not apply matrices, and for an operation that the device does not apply and
                PennyLane does not decompose.
        """
        if depth == 0:
            self._user_operation = op
        wires = op.wires.labels
        kind = _find_gate_key(op, len(wires), depth)
        known = self._derivative_kinds.get(kind)
        if known is not None:
            self._append(op, wires, False, (), known)
            return
        is_nothing, given = OperationKind.classify(op) is OperationKind.IGNORED, op
        if is_nothing and not any(map(is_dynamic, wires)):
            return
        if ControlFlow.is_instance(op):
            self.sequences.append(op)
            return
        applies_matrices = self._gate_set.can_apply_matrices
        check_is_gate(op, self._where, is_part=depth > 0, can_apply_matrices=applies_matrices)
        op = select_row(op, self._rows)
        base, modifiers = Modifiers.strip(op, self._gate_set)
        adjoint, controls = modifiers
        if base.name == "DiagonalQubitUnitary" or (
            base.name == "QubitUnitary" and not self._gate_set.keeps_matrices
        ):
            with qml.QueuingManager.stop_recording():
                base = mask_nonunitary(base)
        applies = self._gate_set.can_apply(base.name, adjoint=adjoint, controlled=bool(controls))
        if (
            applies
            and base.name not in _GATES_WITH_COMPLEX_DATA
            and any(map(_is_complex, base.data))
        ):
            base = self._convert_complex_gate(base)
        if base.name == "DiagonalQubitUnitary" and self._should_apply_phases(base):
            self._append_diagonal(base, adjoint, controls)
            return
        is_traced = any(map(is_dynamic, base.data)) or _is_large_preparation(base)
        if base.name == "StatePrep" and not (self._is_first and not self.sequences):
            applies = False
        derivative = DerivativeKind.BY_PARAMETERS
        if is_traced and applies:
            derivative = self._find_derivative_kind(base, bool(controls))
        has_derivative = derivative is not DerivativeKind.NONE
        if applies and (
            (has_derivative and self._can_record(base)) or self._can_apply_undifferentiated(base)
        ):
            if kind is not None and base is given and not (adjoint or controls or is_nothing):
                self._derivative_kinds[kind] = derivative
            self._append(base, base.wires.labels, adjoint, controls, derivative)
            return
        if base.name == "GlobalPhase" and controls and not applies:
            for part in modifiers.decompose_phase(base):
                self.add(part, depth + 1)
            return
        parts = decompose(base, depth, into=self._gate_set if applies else None)
        if parts is not None:
            self._append_idle_wires(base, parts, depth)
            self._add_parts(parts, modifiers, depth + 1)
        elif applies:
            self._append(base, base.wires.labels, adjoint, controls, derivative)
        else:
            raise unsupported_operation_error(op, self._where, self._user_operation.name)

    def _convert_complex_gate(self, gate: qml.operation.Operator) -> qml.operation.Operator:
        """Replace a gate with a complex parameter, such as a complex angle, by its matrix.

        Raises:
            CompileError: if the device does not apply matrices.
        """
        if not self._gate_set.can_apply_matrices:
            raise CompileError(
                f"{self._where}: a parameter of {self._user_operation.name} is complex, expected "
                f"a real number for {gate.name}. Pass jnp.real(x)."
            )
        # A global phase may have no wires.
        wires = gate.wires or self._wires.labels[:1]
        with qml.QueuingManager.stop_recording():
            return qml.QubitUnitary(gate.matrix(wire_order=wires), wires=wires)

    def _add_parts(self, parts: Sequence[Any], modifiers: Modifiers, depth: int) -> None:
        """Append the operations into which an operation was decomposed.

        Args:
            parts: operations in order; the same object may occur several times, and is then
                converted only once.
            modifiers: adjoint and controls of the decomposed operation: an adjoint reverses and
                inverts the parts, controls apply to each part.
            depth: the number of decompositions that produced the parts.
        """
        counts = Counter(map(id, parts))
        pieces: dict[int, list[GateSequence | Any]] = {}
        for part in reversed(parts) if modifiers.adjoint else parts:
            if counts[id(part)] == 1:
                self.add(modifiers.apply(part), depth)
                continue
            # Repeated parts, such as the steps of a Trotter product, are decomposed once.
            if id(part) not in pieces:
                once = copy.copy(self)
                once._is_first, once.sequences = False, []
                once.add(modifiers.apply(part), depth)
                pieces[id(part)] = once.sequences
            for run in pieces[id(part)]:
                self._append_sequence(run)

    def _append_sequence(self, sequence: GateSequence | Any) -> None:
        """Append a copy of a gate sequence, or a control flow operation, to this list."""
        if isinstance(sequence, GateSequence):
            self._get_sequence(sequence.derivative).extend(sequence)
        else:
            self.sequences.append(sequence)

    def _get_sequence(self, derivative: DerivativeKind) -> GateSequence:
        """Return the sequence for gates with this kind of derivative.

        It is the last element of ``sequences``, to which a new sequence is appended if the last is
        of another kind or is control flow.
        """
        # Separate sequences, so that only derivatives by unsupported parameters raise.
        run = self.sequences[-1] if self.sequences else None
        if not isinstance(run, GateSequence) or run.derivative is not derivative:
            run = GateSequence(derivative)
            self.sequences.append(run)
        return run

    def _append_idle_wires(
        self, base: qml.operation.Operator, parts: Sequence[Any], depth: int
    ) -> None:
        """Append an identity on traced wires that a decomposition does not use.

        The runtime checks the traced wires of gates, so it checks these wires too.

        Args:
            base: the operation.
            parts: its decomposition.
            depth: the number of decompositions that produced the operation.
        """
        used = {id(wire) for part in parts for wire in part.wires}
        idle = [wire for wire in base.wires if is_dynamic(wire) and id(wire) not in used]
        if idle:
            with qml.QueuingManager.stop_recording():
                identity = qml.Identity(wires=idle)
            self.add(identity, depth + 1)

    def _can_record(self, base: qml.operation.Operator) -> bool:
        """Return whether Lightning's operations tape, for derivatives, can hold a gate.

        True for gates that Lightning differentiates, and for all gates without parameters. True
        also for matrices and prepared states, which are not on the tape. Any other gate is
        decomposed, if possible.
        """
        is_recorded = self._gate_set.can_differentiate(base.name)
        return not base.data or base.name in _UNRECORDED_GATES or is_recorded

    def _find_derivative_kind(
        self, base: qml.operation.Operator, is_controlled: bool
    ) -> DerivativeKind:
        """Return how a gate is differentiated: by parameters, by amplitudes, or not.

        ``StatePrep`` has derivatives by its amplitudes. Any other gate has derivatives by its
        parameters if derivatives are finite differences, if the device's adjoint method
        differentiates the gate, or, on a device without adjoint method, if the gate has a shift
        rule.

        Args:
            base: the gate without adjoint and controls; ``StatePrep`` and ``BasisState`` count as
                gates.
            is_controlled: whether controls were stripped from it.
        """
        if base.name == "StatePrep":
            return DerivativeKind.BY_AMPLITUDES
        # The runtime returns zero for derivatives with respect to bits.
        if self._by_differences or base.name == "BasisState":
            return DerivativeKind.BY_PARAMETERS
        if self._gate_set.has_adjoint:
            has_one = self._gate_set.can_differentiate(base.name)
        else:
            # The device supports parameter shifts only; a gate without a shift rule may decompose
            # to gates that have one.
            has_one = (
                FrequencyBits.find(base.__class__, len(base.wires), is_controlled)
                != FrequencyBits.UNKNOWN
            )
        return DerivativeKind.BY_PARAMETERS if has_one else DerivativeKind.NONE

    def _can_apply_undifferentiated(self, base: qml.operation.Operator) -> bool:
        """Return whether to apply an operation without decomposition, even without derivative.

        True for ``StatePrep``, and for ``QubitUnitary`` on several wires, or on one wire if the
        device keeps matrices. Such an operation need not be decomposed into gates that have
        derivatives.
        """
        is_large = len(base.wires) > 1 or self._gate_set.keeps_matrices
        return base.name == "StatePrep" or (base.name == "QubitUnitary" and is_large)

    def _append(
        self,
        base: qml.operation.Operator,
        wires: tuple[Any, ...],
        adjoint: bool,
        controls: Sequence[tuple[Any, Any]],
        derivative: DerivativeKind,
    ) -> None:
        """Append a gate that the device applies, with its parameters.

        Args:
            base: the gate without adjoint and controls.
            wires: the labels of its wires.
            adjoint: whether the gate is inverted.
            controls: pairs of a control wire's label and its control value.
            derivative: how the gate is differentiated with respect to its parameters.
        """
        run = self._get_sequence(derivative)
        slots: tuple[int, ...] | range = ()
        constants: tuple[float, ...] = ()
        if base.data:
            bits = FrequencyBits.find(base.__class__, len(wires), bool(controls))
            slots, constants = _encode_parameters(base, run, bits, self._real)
        self._append_gate(base, wires, adjoint, controls, slots, constants)

    def _append_gate(
        self,
        base: qml.operation.Operator,
        wires: tuple[Any, ...],
        adjoint: bool,
        controls: Sequence[tuple[Any, Any]],
        slots: tuple[int, ...] | range,
        constants: tuple[float, ...],
    ) -> None:
        """Append a gate to the last sequence, to which its parameters were appended before.

        Args:
            base: the gate without adjoint and controls.
            wires: the labels of its wires.
            adjoint: whether the gate is inverted.
            controls: pairs of a control wire's label and its control value.
            slots: for each parameter, its index in the sequence, or ``-1 - i`` for
                ``constants[i]``.
            constants: the values of the constant parameters.
        """
        run = self.sequences[-1]
        assert isinstance(run, GateSequence)
        qubits = self._find_qubits((*wires, *(wire for wire, _ in controls)), run)
        gate_wires, control_wires = qubits[: len(wires)], qubits[len(wires) :]
        can_fail = min(gate_wires + control_wires, default=0) < 0
        can_fail |= base.name == "BasisState" and max(slots) >= 0
        run.gates.append(
            Gate(
                name=_get_gate_name(base)
                + (f"@{self._find_site(self._user_operation)}" if can_fail else ""),
                wires=gate_wires,
                slots=slots,
                constants=constants,
                adjoint=adjoint,
                control_wires=control_wires,
                control_values=tuple(int(bool(value)) for _, value in controls),
            )
        )

    def _should_apply_phases(self, diagonal: qml.operation.Operator) -> bool:
        """Return whether to apply a diagonal matrix as one gate of phases.

        Otherwise it is decomposed into rotations. True in the engine, on four wires or more: the
        gate takes one pass over the state. On fewer wires, rotations are better, as the engine
        fuses them with neighbouring gates.
        """
        return self._in_engine and len(diagonal.wires) >= _FEWEST_WIRES_OF_DIAGONAL

    def _append_diagonal(
        self,
        diagonal: qml.operation.Operator,
        adjoint: bool,
        controls: Sequence[tuple[Any, Any]],
    ) -> None:
        """Append a diagonal matrix as one gate, whose parameters are its entries' phases.

        The entries' moduli are ignored.

        Args:
            diagonal: a ``DiagonalQubitUnitary``.
            adjoint: whether the gate is inverted.
            controls: pairs of a control wire's label and its control value.
        """
        (entries,) = diagonal.data
        is_traced = is_dynamic(entries)
        phases = jnp.angle(entries) if is_traced else np.angle(entries)
        run = self._get_sequence(DerivativeKind.BY_PARAMETERS)
        if is_traced:
            slots, constants = run.append_params(phases.astype(self._real), FrequencyBits.ONE), ()
        else:
            slots, constants = array_slots(-1, phases.size), tuple(phases.tolist())
        self._append_gate(diagonal, diagonal.wires.labels, adjoint, controls, slots, constants)

    def _find_qubits(self, wires: tuple[Any, ...], sequence: GateSequence) -> tuple[int, ...]:
        """Return the qubit index of each wire, from a cache if all labels are integers.

        A traced wire gives ``-1 - i``, where ``i`` is its index in ``sequence``, to which it is
        appended.

        Args:
            wires: wire labels, static or traced.
            sequence: the sequence to which the gate on these wires belongs.
        """
        if not _INTEGER_TYPES.issuperset(map(type, wires)):
            return self._resolve_qubits(wires, sequence)
        if wires not in self._known_qubits:
            self._known_qubits[wires] = self._resolve_qubits(wires, sequence)
        return self._known_qubits[wires]

    def _resolve_qubits(self, wires: Sequence[Any], sequence: GateSequence) -> tuple[int, ...]:
        """Return the qubit index of each wire; ``-1 - i`` for traced wire ``i`` of a sequence.

        Args:
            wires: wire labels, static or traced.
            sequence: the sequence to which the gate on these wires belongs. Traced wires are
                appended to it, unless it has them already.

        Raises:
            CompileError: for repeated static wires.
        """
        found = [self._wires.find_static_qubit(wire) for wire in wires]
        if len({*found} - {None}) < len(found) - found.count(None):
            # `wires` raises for repeated static wires; traced wires are checked at run time.
            found = [None if is_dynamic(wire) else self._wires(wire) for wire in wires]
        return tuple(
            sequence.append_wire(self._wires.get_dynamic_qubit(wire)) if qubit is None else qubit
            for wire, qubit in zip(wires, found, strict=True)
        )


def _find_gate_key(op: qml.operation.Operator, n_wires: int, depth: int) -> Any:
    """Return a cache key that is equal for operations that are converted in the same way.

    Circuits have many gates of few kinds, so the decisions about each kind are cached.

    Args:
        op: the operation.
        n_wires: the number of its wires.
        depth: the number of decompositions that produced it; the key has whether there were any.

    Returns:
        a hashable key; None, for no caching, if a parameter is an array or of an unusual type.
    """
    types = []
    for value in op.data:
        if isinstance(value, PROGRAM_TRACER):
            if value.ndim:
                return None
            types.append(value.dtype)
        elif type(value) in _NUMBER_TYPES:
            types.append(None)
        else:
            return None
    return type(op), op.name, n_wires, depth > 0, tuple(types)


def _encode_parameters(
    op: qml.operation.Operator, sequence: GateSequence, bits: int, real: np.dtype
) -> tuple[tuple[int, ...] | range, tuple[float, ...]]:
    """Append a gate's traced parameters to a sequence; list its constant parameters.

    Args:
        op: the gate, without adjoint and controls.
        sequence: the sequence to which the gate will be appended.
        bits: the bits of the parameters' shift-rule frequencies (`FrequencyBits`).
        real: the program's floating-point dtype.

    Returns:
        for each real number of the parameters, its index in the sequence, or ``-1 - i`` for
        constant ``i``; and the values of the constants.
    """
    slots: list[int] = []
    constants: list[float] = []
    is_complex = op.name in _GATES_WITH_COMPLEX_DATA
    for value in op.data:
        if op.name == "StatePrep" and (is_dynamic(value) or _is_large_preparation(op)):
            return sequence.append_amplitudes(_flatten_amplitudes(value, real), bits), ()
        if is_dynamic(value):
            taken = sequence.append_params(
                _to_real_numbers(value, real, is_complex=is_complex), bits
            )
            if is_complex:
                return taken, ()
            slots += taken
            continue
        array = np.asarray(value)
        if is_complex:
            numbers = np.stack([array.real, array.imag], axis=-1).ravel().tolist()
            return array_slots(-1, len(numbers)), tuple(numbers)
        for number in np.ravel(array.real):
            constants.append(float(number))
            slots.append(-len(constants))
    return tuple(slots), tuple(constants)


def _is_large_preparation(op: qml.operation.Operator) -> bool:
    """Return whether an operation is a ``StatePrep`` of at least 512 amplitudes.

    Such amplitudes are an array of the program even if they are static; fewer static amplitudes are
    constants of the gate.
    """
    return op.name == "StatePrep" and np.size(op.data[0]) >= _FEWEST_AMPLITUDES_OF_OPERAND


def _flatten_amplitudes(value: Any, real: np.dtype) -> Any:
    """Flatten a state's amplitudes, and cast them to a dtype that the runtime supports."""
    array = jnp.ravel(value)
    return array if array.dtype.name in _TYPES_OF_AMPLITUDES else array.astype(real)


def _is_complex(value: Any) -> bool:
    """Return whether a parameter is complex.

    A traced parameter is complex by its dtype, a static one only with a nonzero imaginary part.
    """
    is_traced = is_dynamic(value)
    return jnp.iscomplexobj(value) and (is_traced or bool(np.any(np.imag(value))))


def _to_real_numbers(value: Any, real: np.dtype, *, is_complex: bool) -> Any:
    """Convert a traced parameter ``value`` to the real dtype ``real``.

    With `is_complex`, the result has a new last axis of length two: real and imaginary part.
    """
    if is_complex:
        value = jnp.stack([jnp.real(value), jnp.imag(value)], axis=-1)
    return value if value.dtype == real else value.astype(real)


def _get_gate_name(op: qml.operation.Operator) -> str:
    """Return the runtime's name of a gate, such as ``RX`` or ``PauliRot:XY``."""
    if isinstance(op, qml.PauliRot):
        return f"PauliRot:{op.hyperparameters['pauli_word']}"
    return op.name
