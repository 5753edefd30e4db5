"""Decompose powers of gates with a traced exponent.

A gate without traced parameters has a static matrix ``V diag(exp(i a)) V^-1``, and its power is
``V diag(exp(i z a)) V^-1``.  The diagonal is a product of rotations about Pauli words of Z, whose
angles are linear in ``z``, so the power has shift rules like other rotations::

    qml.pow(qml.X(0), z)    H  GlobalPhase(-pi z / 2)  RZ(pi z)  H
"""

import itertools
from typing import Any

import numpy as np
import pennylane as qml
import scipy.linalg

from bellhop.circuits.ir.wires import is_dynamic

# A gate on n wires becomes up to 2**n rotations.
_MAX_WIRES = 5
# Smaller factors count as rounding errors.
_TOLERANCE = 1e-12


def decompose_traced_power(op: qml.operation.Operator) -> list[Any] | None:
    """Decompose a power with a traced exponent into rotations.

    The gates apply the principal power: an eigenvalue ``exp(i a)`` of the base, with ``a`` in
    (-pi, pi], becomes ``exp(i z a)``.

    Returns:
        the gates in order, or None if ``op`` is not a power with one traced exponent, or if the
        matrix of its base is traced, not unitary, or too large. A controlled base gives one
        operation: the controlled power.
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
    # An eigenvalue of -1 has the angle pi, also if a rounding error makes its imaginary part
    # negative.
    angles[angles < -np.pi + 1e-9] += 2 * np.pi
    rotations = _make_diagonal_gates(angles, op.z, base.wires)
    if np.allclose(vectors, np.diag(np.diagonal(vectors))):
        return rotations
    before = qml.QubitUnitary(vectors.conj().T, wires=base.wires)
    return [before, *rotations, qml.QubitUnitary(vectors, wires=base.wires)]


def _find_static_matrix(base: qml.operation.Operator) -> np.ndarray | None:
    """Return the matrix of a gate, or None unless it is static, unitary and small.

    Returns:
        complex array ``[2**wires, 2**wires]``; None if the matrix is traced, not unitary, unknown
        or on more than `_MAX_WIRES` wires.
    """
    has_components = isinstance(base, qml.ops.SymbolicOp | qml.ops.CompositeOp)
    if (
        any(map(is_dynamic, base.data))
        or (has_components and any(map(is_dynamic, base.wires)))
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
    """Decompose the diagonal matrix ``diag(exp(i z angles))`` into rotations about words of Z.

    Args:
        angles: ``[2**n]``, static.
        z: a traced scalar.
        wires: the n wires, the first one for the most significant bit.

    Returns:
        ``GlobalPhase``, ``RZ`` and ``MultiRZ`` gates, which commute.
    """
    n_wires = len(wires)
    gates: list[Any] = []
    bits = np.array(list(itertools.product((0, 1), repeat=n_wires)))
    for chosen in itertools.product((0, 1), repeat=n_wires):
        # The coefficient of this Z word in the generator.
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
