"""Rotations as Clifford and T gates, found when the program knows their angles: ``gridsynth``.

A callback finds the gates of an angle, by the algorithm of Ross and Selinger that PennyLane has,
and a loop of the program applies as many as there are.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.callbacks.pure_callback import pure_callback
from bellhop.circuits.deferred import ControlFlow
from bellhop.circuits.precision import real_type
from bellhop.errors import CompileError

# What the algorithm gives; their places are the codes of the loop.
_GATES = (
    *(qml.Hadamard, qml.S, qml.T, qml.PauliX, qml.PauliY, qml.PauliZ, qml.Identity),
    *(lambda wire, gate=gate: qml.adjoint(gate(wire)) for gate in (qml.S, qml.T)),
)
_NAMES = tuple(make(0).name for make in _GATES)


def with_gridsynth(operations: list[Any], *, epsilon: float = 1e-4, ppr_basis: bool = False) -> Any:
    """Return operations with RZ and PhaseShift decomposed, each up to an error of ``epsilon``.

    Raises:
        CompileError: for a basis of Pauli rotations.
    """
    if ppr_basis:
        raise CompileError(
            "gridsynth: ppr_basis=True is not supported by bellhop. Leave it out: there are "
            "Clifford and T gates."
        )
    with qml.QueuingManager.stop_recording():
        return [part for op in operations for part in _decomposed(op, epsilon)]


def _decomposed(op: Any, epsilon: float) -> list[Any]:
    rotation = qml.simplify(op) if isinstance(op, qml.ops.Adjoint) else op
    if not isinstance(rotation, qml.RZ | qml.PhaseShift):
        return [op]
    (angle,) = rotation.data
    if not isinstance(angle, jax.core.Tracer):
        return list(qml.ops.rs_decomposition(rotation, epsilon))
    most = int(10 * math.log2(1 / epsilon))
    types = jax.ShapeDtypeStruct((most,), np.int32), jax.ShapeDtypeStruct((), np.int32)
    kind = type(rotation)

    def gridsynth(angle: Any) -> Any:
        *gates, phase = qml.ops.rs_decomposition(kind(float(angle), wires=0), epsilon)
        codes = [_NAMES.index(gate.name) for gate in gates]
        padded = np.array(codes + [0] * (most - len(codes)), np.int32)
        return padded, np.int32(len(codes)), np.asarray(phase.data[0], real_type())

    find = pure_callback(gridsynth, (*types, jax.ShapeDtypeStruct((), real_type())))

    def play(circuit: Any) -> None:
        codes, count, phase = find(angle)
        (wire,) = rotation.wires
        branches = [lambda make=make: make(wire) and None for make in _GATES]

        def turn(carried: Any, trip: Any) -> Any:
            circuit.branch("gridsynth", codes[trip], _NAMES, branches)
            return carried

        circuit.for_loop(jnp.asarray(count, int), turn, ())
        qml.GlobalPhase(phase)

    return [ControlFlow(play, rotation.wires)]
