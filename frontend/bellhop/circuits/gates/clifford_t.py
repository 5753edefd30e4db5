"""``qml.clifford_t_decomposition`` of circuits with angles that the program computes.

PennyLane's asks for the value of each.  Here the gates around the rotations are found while the
circuit is traced, and those in place of a rotation when the program knows its angle.
"""

from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.gates.decompositions import DECOMPOSITION_DEPTH, decomposition_of
from bellhop.circuits.gates.gridsynth import with_gridsynth
from bellhop.errors import CompileError

_BASIS = {
    *("Identity", "PauliX", "PauliY", "PauliZ", "Hadamard", "S", "SX", "T", "RZ"),
    *("Adjoint(S)", "Adjoint(SX)", "Adjoint(T)", "GlobalPhase", "Snapshot", "WireCut"),
    *("CNOT", "CY", "CZ", "SWAP", "ISWAP", "Adjoint(ISWAP)"),
}
# Gates between which a rotation about Z is one about another axis.
_TO_Z = {"RX": (qml.Hadamard,), "RY": (lambda wires: qml.adjoint(qml.S(wires)), qml.Hadamard)}
_OF_BASIS = (qml.transforms.commute_controlled, qml.transforms.cancel_inverses)
_ON_WHOLE = qml.transforms.clifford_t_decomposition.tape_transform


def taking_computed_angles(transform: Any) -> Any:
    """Return a transform of a QNode that takes angles that the program computes, if it can."""
    if transform.tape_transform is not _ON_WHOLE:
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
    """Return a tape in the Clifford and T basis, as PennyLane's transform does."""
    parameters = tape.get_parameters(trainable_only=False, operations_only=True)
    if not any(isinstance(value, jax.core.Tracer) for value in parameters):
        return _ON_WHOLE(tape, epsilon, method, cache_size, cache_eps_rtol, **options)
    if method != "gridsynth":
        raise CompileError(
            f"clifford_t_decomposition: method={method!r} takes no angles that the program "
            "computes. Use method='gridsynth', or make them static: qjit(static_argnums=...)."
        )
    with qml.QueuingManager.stop_recording():
        gates = [part for op in tape.operations for part in _about_z(op)]
    # These ask every gate for its controls, which products have not.
    tape = tape.copy(operations=gates)
    for simplify in _OF_BASIS:
        (tape,), _ = simplify(tape)
    (tape,), _ = qml.transforms.merge_rotations(tape, include_gates=["RZ"])
    rotations = sum(isinstance(op, qml.RZ) for op in tape.operations)
    gates = with_gridsynth(tape.operations, epsilon=epsilon / max(rotations, 1), **options)
    return (tape.copy(operations=gates),), lambda results: results[0]


def _about_z(op: qml.operation.Operator, depth: int = 0) -> list[Any]:
    """Return a gate as gates of the basis and rotations about Z.

    Raises:
        CompileError: for what PennyLane does not decompose so far.
    """
    if op.name in _BASIS:
        return [op]
    if op.name == "PhaseShift":
        return [qml.RZ(op.data[0], op.wires), qml.GlobalPhase(-op.data[0] / 2)]
    if op.name in _TO_Z:
        there = [gate(op.wires) for gate in _TO_Z[op.name]]
        back = [qml.adjoint(gate, lazy=False) for gate in reversed(there)]
        return [*there, qml.RZ(op.data[0], op.wires), *back]
    if depth == DECOMPOSITION_DEPTH or not op.has_decomposition:
        raise CompileError(
            f"clifford_t_decomposition: PennyLane has no decomposition of {op.name} into "
            "rotations and Clifford gates. Write these instead."
        )
    return [part for inner in decomposition_of(op) for part in _about_z(inner, depth + 1)]
