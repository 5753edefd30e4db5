"""Decompose rotations with traced angles into Clifford and T gates when the program runs.

This implements the pass ``gridsynth`` and the PennyLane functions ``rs_decomposition`` and
``clifford_t_decomposition`` for traced angles, which PennyLane's own functions do not support.

During tracing, a circuit is decomposed into Clifford gates and Z rotations.  When the program runs,
a callback computes the gates of each rotation from its angle, with PennyLane's implementation of
the algorithm of Ross and Selinger (Quantum Information and Computation 16, 901, 2016), and a loop
of the program applies them.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop._pennylane.patches.rs_decomposition import decompose_value
from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.pure_callback import pure_callback
from bellhop.circuits.gates.decompositions import get_pennylane_decomposition
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CircuitError, CompileError
from bellhop.tracing.current_circuit import Branches, CurrentCircuit, GateRecorder
from bellhop.tracing.state import current_circuit, is_tracing

# The gates that the algorithm returns. The callback encodes a gate by its index here.
_GATES = (
    *(qml.Hadamard, qml.S, qml.T, qml.PauliX, qml.PauliY, qml.PauliZ, qml.Identity),
    *(lambda wire, gate=gate: qml.adjoint(gate(wire)) for gate in (qml.S, qml.T)),
)
_NAMES = tuple(make(0).name for make in _GATES)


_BASIS = {
    *("Identity", "PauliX", "PauliY", "PauliZ", "Hadamard", "S", "SX", "T", "RZ"),
    *("Adjoint(S)", "Adjoint(SX)", "Adjoint(T)", "GlobalPhase", "Snapshot", "WireCut"),
    *("CNOT", "CY", "CZ", "SWAP", "ISWAP", "Adjoint(ISWAP)"),
}
# The gates to apply before RZ, and their inverses after it, for a rotation about another axis.
_TO_Z = {"RX": (qml.Hadamard,), "RY": (lambda wires: qml.adjoint(qml.S(wires)), qml.Hadamard)}
_SIMPLIFICATIONS = (qml.transforms.commute_controlled, qml.transforms.cancel_inverses)
_CLIFFORD_T_TRANSFORM = qml.transforms.clifford_t_decomposition.tape_transform

# The capacity of a program's array of gates beyond the expected number for a given error.
_EXTRA_GATES = 40


@functools.wraps(decompose_value)
def rs_decomposition(
    op: qml.operation.Operator, epsilon: float, is_qjit: bool = False, **options: Any
) -> Any:
    """Decompose a rotation like ``qml.ops.rs_decomposition``, also for a traced angle.

    Bellhop replaces the PennyLane function, which needs a concrete angle, by this one.

    Args:
        op: an ``RZ`` or ``PhaseShift`` gate. If its angle is traced, it is removed from PennyLane's
            queue.
        epsilon: the largest error of the decomposition.
        is_qjit: an option of the PennyLane function, ignored while Bellhop traces a circuit.
        options: further keyword arguments of the PennyLane function.

    Returns:
        a list of Clifford and T gates, then a global phase. For a traced angle: one operation that
        applies all gates and the phase at run time, then ``GlobalPhase(0.0)``. Outside of a circuit
        that Bellhop traces, the result of the PennyLane function.

    Raises:
        CompileError: for a batch of traced angles.
    """
    if not is_tracing():
        return decompose_value(op, epsilon, is_qjit, **options)
    circuit = current_circuit()
    is_computed = isinstance(op, qml.RZ | qml.PhaseShift) and is_dynamic(op.data[0])
    if circuit is None or not is_computed:
        return decompose_value(op, epsilon, **options)
    qml.QueuingManager.remove(op)
    return [_decompose_at_runtime(circuit, op, epsilon, options), qml.GlobalPhase(0.0)]


def decompose_rotations(
    operations: Sequence[Any], *, epsilon: float = 1e-4, ppr_basis: bool = False, **options: Any
) -> Any:
    """Decompose RZ, PhaseShift and their adjoints into Clifford and T gates.

    This is the pass ``gridsynth``. Rotations by traced angles are decomposed when the program runs.

    Args:
        operations: PennyLane operations, in order.
        epsilon: the largest error of the decomposition of each rotation.
        ppr_basis: an option of the pass that is not supported; must be False.
        options: further keyword arguments of ``qml.ops.rs_decomposition``.

    Returns:
        a list of the gates in order; other operations are kept.

    Raises:
        CompileError: if ``ppr_basis`` is True, or for a batch of traced angles.
    """
    if ppr_basis:
        raise CompileError(
            "gridsynth: ppr_basis=True is not supported by bellhop. Leave ppr_basis out: the "
            "result consists of Clifford and T gates."
        )
    with qml.QueuingManager.stop_recording():
        return [part for op in operations for part in _decompose(op, epsilon, options)]


def _decompose(op: qml.operation.Operator, epsilon: float, options: dict[str, Any]) -> list[Any]:
    """Decompose one RZ, PhaseShift or adjoint of these; keep any other operation.

    Args:
        op: PennyLane operation.
        epsilon: the largest error of the decomposition.
        options: further keyword arguments of ``qml.ops.rs_decomposition``.

    Returns:
        a list of Clifford and T gates and a global phase; if the angle is traced, one operation
        that applies them at run time; for any other operation, ``op`` alone.
    """
    rotation = qml.simplify(op) if isinstance(op, qml.ops.Adjoint) else op
    if not isinstance(rotation, qml.RZ | qml.PhaseShift):
        return [op]
    circuit = current_circuit()
    if circuit is None or not is_dynamic(rotation.data[0]):
        return list(decompose_value(rotation, epsilon, **options))
    return [_decompose_at_runtime(circuit, rotation, epsilon, options)]


def _decompose_at_runtime(
    circuit: CurrentCircuit, rotation: Any, epsilon: float, options: dict[str, Any]
) -> ControlFlow:
    """Return an operation that computes a rotation's Clifford and T gates at run time.

    The operation calls PennyLane's algorithm through a callback, and applies the gates that it
    returns in a loop with a dynamic trip count.

    Args:
        circuit: the circuit that is being traced, which will apply the operation.
        rotation: an RZ or PhaseShift gate with a traced angle.
        epsilon: the largest error of the decomposition.
        options: further keyword arguments of ``qml.ops.rs_decomposition``.

    Returns:
        the operation. It also applies the rotation's global phase.

    Raises:
        CompileError: for a batch of angles.
    """
    (angle,) = rotation.data
    if angle.shape:
        raise CompileError(
            f"the decomposition of {rotation.name} into Clifford and T gates takes one angle, got "
            f"an array of shape {angle.shape}. Use bellhop.vmap over the circuit."
        )
    most = int(10 * math.log2(1 / epsilon)) + _EXTRA_GATES
    types = jax.ShapeDtypeStruct((most,), np.int32), jax.ShapeDtypeStruct((), np.int32)
    kind = type(rotation)

    def gridsynth(angle: Any) -> Any:
        """Decompose the rotation by a concrete angle; the program calls this callback.

        Returns:
            a tuple: an int32 array with the index of each gate in `_GATES`, padded with zeros to a
            fixed length; the number of gates, an int32 scalar; and the angle of the global phase.

        Raises:
            CircuitError: if the decomposition has more gates than the array has entries.
        """
        with qml.QueuingManager.stop_recording():
            *gates, phase = decompose_value(kind(float(angle), wires=0), epsilon, **options)
        codes = [_NAMES.index(gate.name) for gate in gates]
        if len(codes) > most:
            raise CircuitError(
                f"the decomposition of {rotation.name}({float(angle)}) with epsilon={epsilon} has "
                f"{len(codes)} gates, expected at most {most}, the size of the program's array. "
                "Make the angle static, or write the rotation as two rotations."
            )
        padded = np.array(codes + [0] * (most - len(codes)), np.int32)
        return padded, np.int32(len(codes)), np.asarray(phase.data[0], Precision.real_type())

    find = pure_callback(gridsynth, (*types, jax.ShapeDtypeStruct((), Precision.real_type())))

    def record(recorder: GateRecorder) -> None:
        """Record the callback's call, a loop over its gates, and a ``GlobalPhase``.

        Args:
            recorder: the circuit that records the loop.
        """
        codes, count, phase = find(angle)
        (wire,) = rotation.wires
        branches = [lambda make=make: make(wire) and None for make in _GATES]

        def body(carried: PyTree, iteration: Operand) -> Any:
            recorder.branch(Branches("gridsynth", codes[iteration], _NAMES, branches))
            return carried

        recorder.for_loop(jnp.asarray(count, int), body, ())
        qml.GlobalPhase(phase)

    operation, _ = circuit.as_operation(record)
    return cast(ControlFlow, operation)


def support_traced_angles(transform: Any) -> Any:
    """Make the transform ``clifford_t_decomposition`` accept traced angles.

    Args:
        transform: PennyLane's ``BoundTransform``.

    Returns:
        for ``clifford_t_decomposition``, a ``BoundTransform`` with the same arguments that runs
        `_clifford_t`; any other transform unchanged.
    """
    if transform.tape_transform is not _CLIFFORD_T_TRANSFORM:
        return transform
    return type(transform)(_clifford_t, transform.args, transform.kwargs)


def _clifford_t(
    tape: qml.tape.QuantumScript,
    epsilon: float = 1e-4,
    method: str = "gridsynth",
    cache_size: int = 1000,
    cache_eps_rtol: float | None = None,
    **options: Any,
) -> Any:
    """Decompose a tape like ``clifford_t_decomposition``, also for traced angles.

    Without traced parameters, this calls PennyLane's transform.

    Args:
        tape: the tape; its measurements are kept.
        epsilon: the largest total error, divided evenly between the rotations.
        method: ``"gridsynth"`` or, without traced parameters, another method of PennyLane.
        cache_size, cache_eps_rtol: passed to PennyLane's transform; ignored for traced parameters.
        options: further keyword arguments of ``qml.ops.rs_decomposition``.

    Returns:
        a batch of one tape, and the postprocessing function, as of any PennyLane transform.

    Raises:
        CompileError: for traced parameters with a method other than ``"gridsynth"``.
    """
    parameters = tape.get_parameters(trainable_only=False, operations_only=True)
    if not any(map(is_dynamic, parameters)):
        return _CLIFFORD_T_TRANSFORM(tape, epsilon, method, cache_size, cache_eps_rtol, **options)
    if method != "gridsynth":
        raise CompileError(
            f"clifford_t_decomposition: method={method!r} does not support traced angles. Use "
            "method='gridsynth', or make the angles static: qjit(static_argnums=...)."
        )
    with qml.QueuingManager.stop_recording():
        gates = [part for op in tape.operations for part in _decompose_about_z(op)]
    # PennyLane's simplifications need gates with control wires, and products have none; so all
    # operations are decomposed first.
    tape = tape.copy(operations=gates)
    for simplify in _SIMPLIFICATIONS:
        (tape,), _ = simplify(tape)
    (tape,), _ = qml.transforms.merge_rotations(tape, include_gates=["RZ"])
    rotations = sum(isinstance(op, qml.RZ) for op in tape.operations)
    gates = decompose_rotations(tape.operations, epsilon=epsilon / max(rotations, 1), **options)
    return (tape.copy(operations=gates),), lambda results: results[0]


def _decompose_about_z(op: qml.operation.Operator, depth: int = 0) -> list[Any]:
    """Decompose an operation into Clifford gates, T gates and RZ rotations.

    Args:
        op: the operation. ``RX(x)`` becomes ``H RZ(x) H``, for instance.
        depth: the number of decompositions that produced the operation, 0 for the user's operation.
            A decomposition that is nested too deeply counts as endless.

    Returns:
        a list of the gates in order. A conditional operation becomes conditional gates.

    Raises:
        CompileError: if PennyLane has no such decomposition.
    """
    if op.name in _BASIS or isinstance(op, qml.ops.MidMeasure):
        return [op]
    if isinstance(op, qml.ops.Conditional):
        return [
            qml.ops.Conditional(op.meas_val, part) for part in _decompose_about_z(op.base, depth)
        ]
    if op.name == "PhaseShift":
        return [qml.RZ(op.data[0], op.wires), qml.GlobalPhase(-op.data[0] / 2)]
    if op.name in _TO_Z:
        before = [gate(op.wires) for gate in _TO_Z[op.name]]
        after = [qml.adjoint(gate, lazy=False) for gate in reversed(before)]
        return [*before, qml.RZ(op.data[0], op.wires), *after]
    parts = get_pennylane_decomposition(op, depth)
    if parts is None:
        raise CompileError(
            f"clifford_t_decomposition: PennyLane has no decomposition of {op.name} into "
            "rotations and Clifford gates. Use rotations and Clifford gates instead."
        )
    return [part for inner in parts for part in _decompose_about_z(inner, depth + 1)]
