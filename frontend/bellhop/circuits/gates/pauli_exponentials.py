"""Exponentials of Pauli words, which are rotations.

``exp(-i x P / 2)`` is ``RX(x)`` for the word X, ``IsingZZ(x)`` for ZZ, and ``PauliRot(x, "XY")``
for XY.
PennyLane finds that by a search through all of its gates, which takes milliseconds for each.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.complex_parts import parts_of_number
from bellhop.circuits.gates.wires import is_dynamic

_ROTATIONS = {
    "X": qml.RX,
    "Y": qml.RY,
    "Z": qml.RZ,
    "XX": qml.IsingXX,
    "YY": qml.IsingYY,
    "ZZ": qml.IsingZZ,
}


def rotation_of(op: qml.operation.Operator) -> Any | None:
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
    angle = _angle(op, factor)
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


def is_damping(op: qml.operation.Operator) -> bool:
    """Tell whether an exponential need not be unitary; such a one is no gate but has a matrix."""
    return isinstance(op, qml.ops.Exp) and parts_of_number(_exponent(op)).real


def _angle(op: qml.operation.Operator, factor: Any) -> Any | None:
    """Return ``x`` of ``exp(-i x word / 2)``; None where it may not be real."""
    if isinstance(op, qml.ops.Evolution) and not jnp.iscomplexobj(op.param):
        # Its generator is Hermitian.
        return 2 * op.param * np.real(factor)
    exponent = _exponent(op) * factor
    if parts_of_number(exponent).real:
        return None
    return -2 * (jnp.imag(exponent) if is_dynamic(exponent) else np.imag(exponent))


def _exponent(op: qml.operation.Operator) -> Any:
    """Return what the base of an exponential is multiplied by."""
    return -1j * op.param if isinstance(op, qml.ops.Evolution) else op.coeff
