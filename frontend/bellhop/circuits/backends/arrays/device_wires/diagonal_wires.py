"""Find the wires on which the matrix of an operation is diagonal.

Such wires may be device wires.  If parameters are traced, the matrix is tested for random
parameters: an entry is a polynomial of sines and cosines, and so zero for all or for almost none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bellhop.circuits.backends.arrays.pennylane_operations import (
    is_diagonal,
    split_controls,
    stop_recording,
)
from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.wires import is_dynamic

if TYPE_CHECKING:
    import pennylane as qml

# Matrices on more wires count as diagonal on none.
_MAX_WIRES = 4
_TOLERANCE = 1e-14
_RANDOM_ANGLES = np.random.default_rng(23).uniform(0.3, 2.8, 64)


@dataclass(frozen=True)
class GateWires:
    """The qubits on which a gate acts, and on which of them it is not diagonal.

    If a state is partitioned over devices, some qubits are bits of the device's index, and the
    remaining qubits are local. A gate needs no communication if its nondiagonal qubits are local.

    Attributes:
        wires: indices of all qubits of the gate.
        nondiagonal: the qubits that must be local; the gate's matrix is diagonal on the remaining
            qubits, for instance on controls.
    """

    wires: frozenset[int]
    nondiagonal: frozenset[int]

    @classmethod
    def from_wires(cls, wires: Iterable[int], diagonal: Iterable[int] = ()) -> GateWires:
        """Make an instance from all qubits of a gate and the qubits on which it is diagonal."""
        return cls(frozenset(wires), frozenset(wires) - frozenset(diagonal))


def find_gate_wires(op: qml.operation.Operator, qubits: tuple[int, ...]) -> GateWires:
    """Return the qubits of an operation, and on which of them it is not diagonal.

    For instance ``CNOT`` on qubits ``(3, 5)`` gives ``GateWires({3, 5}, nondiagonal={5})``.
    Matrices on more than four wires, apart from controls, count as diagonal on none of them, unless
    PennyLane lists the operation as diagonal.

    Args:
        op: the operation; its parameters may be traced.
        qubits: the index of the qubit of each of the operation's wires, in order.
    """
    with stop_recording():
        places = _find_diagonal_positions(op)
    return GateWires.from_wires(qubits, [qubits[place] for place in places])


def _find_diagonal_positions(op: qml.operation.Operator) -> tuple[int, ...]:
    """Return the positions in ``op.wires`` of the wires on which `op` is diagonal.

    An operation is diagonal on its controls, and on all wires if PennyLane lists it as diagonal.
    Otherwise its matrix is tested, with random numbers for traced scalar parameters. An operation
    without a matrix, with a traced array as a parameter or on more than four wires counts as
    diagonal on no wire.
    """
    wires = list(op.wires)
    split = split_controls(op)
    if split is not None:
        base, controls = split
        of_base = [base.wires[place] for place in _find_diagonal_positions(base)]
        return tuple(wires.index(wire) for wire in (*controls, *of_base))
    if is_diagonal(op):
        return tuple(range(len(wires)))
    if len(wires) > _MAX_WIRES or not op.has_matrix:
        return ()
    parameters = get_parameters(op)
    if any(map(is_dynamic, parameters)):
        if any(map(np.ndim, parameters)) or len(parameters) > len(_RANDOM_ANGLES):
            return ()
        op = replace_parameters(op, list(_RANDOM_ANGLES[: len(parameters)]))
    matrix = np.asarray(op.matrix(wire_order=wires))
    return tuple(filter(functools.partial(_is_diagonal, matrix, len(wires)), range(len(wires))))


def _is_diagonal(matrix: np.ndarray, n_wires: int, position: int) -> bool:
    """Return whether a matrix on `n_wires` is diagonal on the wire at `position`."""
    by_wire = np.moveaxis(
        matrix.reshape((2,) * 2 * n_wires), (position, n_wires + position), (0, 1)
    )
    return bool(np.all(abs(by_wire[0, 1]) < _TOLERANCE) and np.all(abs(by_wire[1, 0]) < _TOLERANCE))
