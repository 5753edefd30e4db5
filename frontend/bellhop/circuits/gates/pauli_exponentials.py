"""Exponentials of Pauli words, which are rotations.

``exp(-i x P / 2)`` is ``RX(x)`` for the word X, ``IsingZZ(x)`` for ZZ, and ``PauliRot(x, "XY")``
for XY.
PennyLane finds that by a search through all of its gates, which takes milliseconds for each.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.wires import is_dynamic

_ROTATIONS = {
    "X": qml.RX,
    "Y": qml.RY,
    "Z": qml.RZ,
    "XX": qml.IsingXX,
    "YY": qml.IsingYY,
    "ZZ": qml.IsingZZ,
}


def rotation_of(op: Any) -> Any | None:
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


def is_damping(op: Any) -> bool:
    """Tell whether an exponential is that of a real number, which is no gate but has a matrix."""
    is_general = isinstance(op, qml.ops.Exp) and not isinstance(op, qml.ops.Evolution)
    return is_general and not jnp.iscomplexobj(op.coeff)


def _angle(op: Any, factor: Any) -> Any | None:
    """Return ``x`` of ``exp(-i x word / 2)``; None where it is not real."""
    if isinstance(op, qml.ops.Evolution):
        # Its parameter and generator are said to be real.
        return 2 * _part(op.param * factor, jnp.real, np.real)
    if is_damping(op):
        return None
    exponent = op.coeff * factor
    # Of what the program computes, the real part is said to be zero.
    if not is_dynamic(exponent) and np.real(exponent) != 0:
        return None
    return -2 * _part(exponent, jnp.imag, np.imag)


def _part(number: Any, of_dynamic: Any, of_constant: Any) -> Any:
    return of_dynamic(number) if is_dynamic(number) else of_constant(number)
