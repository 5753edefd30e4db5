"""Powers of gates whose exponent the program computes.

A gate without parameters has a matrix ``V diag(exp(i a)) V^-1`` that is known while tracing, and
its power is ``V diag(exp(i z a)) V^-1``.  The diagonal is a product of rotations around words of Z,
whose angles are linear in ``z``, so such a power has shift rules as other rotations do::

    qml.pow(qml.X(0), z)    H  GlobalPhase(-pi z / 2)  RZ(pi z)  H
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pennylane as qml
import scipy.linalg

from bellhop.circuits.ir.wires import is_dynamic

# A larger gate would be that many rotations, two to the number of its wires.
_MAX_WIRES = 5
# Below this, numbers are rounding errors.
_TOLERANCE = 1e-12


def wrap_power(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``qml.pow`` that asks for the value of no traced exponent.

    Args:
        uncompiled: PennyLane's ``qml.pow``.
    """

    @functools.wraps(uncompiled)
    def power(base: Any, z: Any = 1, lazy: bool = True, id: str | None = None) -> Any:
        # A lazy power has its gates when the circuit is complete.
        return uncompiled(base, z, lazy=lazy or isinstance(z, jax.core.Tracer), id=id)

    return power


def decompose_traced_power(op: qml.operation.Operator) -> list[Any] | None:
    """Return the gates of a power whose exponent is traced.

    The power is the principal one, whose phases are ``z`` times angles above -pi and up to pi.

    Args:
        op: any operation.

    Returns:
        None where the base has traced parameters or wires that its matrix depends on, is not
        unitary, or is too large.
    """
    if not isinstance(op, qml.ops.Pow) or not is_dynamic(op.z) or np.ndim(op.z):
        return None
    base = op.base
    if isinstance(base, qml.ops.Controlled):
        return [qml.ctrl(qml.ops.Pow(base.base, op.z), base.control_wires, base.control_values)]
    matrix = _find_static_matrix(base)
    if matrix is None:
        return None
    triangle, vectors = scipy.linalg.schur(matrix, output="complex")
    angles = np.angle(np.diagonal(triangle))
    # An eigenvalue of -1 with a rounding error below the axis has the angle pi too.
    angles[angles < -np.pi + 1e-9] += 2 * np.pi
    rotations = _make_diagonal_gates(angles, op.z, base.wires)
    if np.allclose(vectors, np.diag(np.diagonal(vectors))):
        return rotations
    before = qml.QubitUnitary(vectors.conj().T, wires=base.wires)
    return [before, *rotations, qml.QubitUnitary(vectors, wires=base.wires)]


def _find_static_matrix(base: qml.operation.Operator) -> np.ndarray | None:
    """Return the matrix of a unitary gate, if nothing in it is traced and it is small."""
    is_made_of_others = isinstance(base, qml.ops.SymbolicOp | qml.ops.CompositeOp)
    if (
        any(map(is_dynamic, base.data))
        or (is_made_of_others and any(map(is_dynamic, base.wires)))
        or len(base.wires) > _MAX_WIRES
        or not base.has_matrix
    ):
        return None
    matrix = np.asarray(base.matrix(), complex)
    size = 2 ** len(base.wires)
    if matrix.shape != (size, size) or not np.allclose(matrix @ matrix.conj().T, np.eye(size)):
        return None
    return matrix


def _make_diagonal_gates(angles: np.ndarray, z: Any, wires: Any) -> list[Any]:
    """Return gates of the matrix ``diag(exp(i z angles))``."""
    n_wires = len(wires)
    gates: list[Any] = []
    bits = np.array(list(itertools.product((0, 1), repeat=n_wires)))
    for chosen in itertools.product((0, 1), repeat=n_wires):
        # The factor of this word of Z in the logarithm.
        factor = np.mean(angles * (-1) ** (bits @ np.array(chosen)))
        word = [wire for wire, is_in in zip(wires, chosen, strict=True) if is_in]
        if abs(factor) < _TOLERANCE:
            continue
        if not word:
            gates.append(qml.GlobalPhase(-factor * z, wires=wires))
        elif len(word) == 1:
            gates.append(qml.RZ(-2 * factor * z, wires=word))
        else:
            gates.append(qml.MultiRZ(-2 * factor * z, wires=word))
    return gates
