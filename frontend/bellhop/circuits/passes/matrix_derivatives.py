"""Derivatives of matrices that a transform decomposes into rotations.

The angles of a two-qubit matrix are computed from eigenvectors, which have no derivative where
eigenvalues are equal, as for a product of two gates; Euler angles have none at the identity.
So the rotations are computed from the matrix without a derivative, and gates that are the identity
follow and have the derivative::

    QubitUnitary(U)    rotations of U0 = stop_gradient(U)    QubitUnitary(U U0^-1)

With shots, devices take no matrix.  There the gates behind the rotations are Pauli rotations, whose
angles are zero.  Their product has the derivative of the matrix::

    d(U U0^-1) = -i/2 (dt_1 P_1 + dt_2 P_2 + ...)    dt_k = 2 Re(i tr(P_k d(U U0^-1))) / 2^n
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.wires import is_dynamic
from bellhop.errors import CompileError

Operations = Sequence[Any]


def keep_derivatives(
    apply: Callable[[Operations], Operations], name: str, *, has_shots: bool
) -> Callable[[Operations], Operations]:
    """Make a decomposition differentiable with respect to traced matrices.

    The angles of a decomposed matrix have no derivative where eigenvalues are equal. The returned
    function computes them without derivatives, and appends gates that are the identity and have the
    derivative of the matrix.

    Args:
        apply: maps a list of operations to the decomposed operations, as a PennyLane transform
            does.
        name: the name of the transform, for errors.
        has_shots: True to append Pauli rotations to each decomposed matrix, since devices apply no
            matrices in circuits with shots; False to append one ``QubitUnitary``.

    Returns:
        a function like ``apply``.
    """

    def apply_with_derivatives(operations: Operations) -> Operations:
        """Apply ``apply`` to operations, and keep the derivatives of traced matrices.

        ``apply`` decomposes each traced ``QubitUnitary`` separately. The gates that have its
        derivative follow its rotations. Operations between two traced matrices are decomposed
        together.

        Returns:
            the list of the resulting operations.
        """
        if not any(map(_has_computed_matrix, operations)):
            return apply(operations)
        made: list[Any] = []
        for is_matrix, group in itertools.groupby(operations, _has_computed_matrix):
            if not is_matrix:
                made += apply(list(group))
                continue
            for op in group:
                made += _decompose(op, apply, name, has_shots=has_shots)
        return made

    return apply_with_derivatives


def _has_computed_matrix(op: qml.operation.Operator) -> bool:
    """Return whether an operation is a ``QubitUnitary`` of one traced matrix."""
    is_matrix = isinstance(op, qml.QubitUnitary) and is_dynamic(op.data[0])
    return is_matrix and op.batch_size is None


def _decompose(
    op: qml.QubitUnitary,
    apply: Callable[[Operations], Operations],
    name: str,
    *,
    has_shots: bool,
) -> Operations:
    """Decompose a traced matrix ``U``, and append gates for its derivative.

    The angles of the rotations have no derivative. The gates after them are the identity in value,
    and have the derivative of ``U``.

    Args:
        op: a ``QubitUnitary`` of a traced matrix.
        apply: maps a list of operations to the decomposed operations.
        name: the name of the transform, for errors.
        has_shots: whether the gates for the derivative are Pauli rotations instead of one
            ``QubitUnitary``.

    Returns:
        the rotations and the gates for the derivative; ``op`` alone if ``apply`` does not decompose
        matrices.
    """
    matrix = op.data[0]
    known = jax.lax.stop_gradient(matrix)
    with qml.QueuingManager.stop_recording():
        parts = apply([qml.QubitUnitary(known, wires=op.wires)])
        if any(isinstance(part, qml.QubitUnitary) for part in parts):
            # The transform keeps matrices.
            return [op]
        if not has_shots:
            return [*parts, qml.QubitUnitary(matrix @ jnp.conj(known).T, wires=op.wires)]
        words = ["".join(word) for word in itertools.product("IXYZ", repeat=len(op.wires))][1:]
        angles = _make_pauli_angles(tuple(words), name)(matrix)
        rest = [_rotate(angles[number], word, op.wires) for number, word in enumerate(words)]
    return [*parts, *rest]


def _rotate(angle: Any, word: str, wires: Sequence[Any]) -> qml.operation.Operator:
    """Return the rotation ``exp(-i angle / 2 * P)`` about a Pauli word ``P``.

    Args:
        angle: real scalar.
        word: a letter of ``IXYZ`` for each wire, not all of them I. Wires with I are left out: the
            word "IX" gives ``RX(angle, wires[1])``.
        wires: the wire labels.
    """
    kept = [(letter, wire) for letter, wire in zip(word, wires, strict=True) if letter != "I"]
    letters = "".join(letter for letter, _ in kept)
    if len(kept) == 1:
        return {"X": qml.RX, "Y": qml.RY, "Z": qml.RZ}[letters](angle, kept[0][1])
    return qml.PauliRot(angle, letters, [wire for _, wire in kept])


def _make_pauli_angles(words: tuple[str, ...], name: str) -> Callable[[Any], Any]:
    """Make a function from a matrix to Pauli-rotation angles, which are all zero.

    Only the tangents of the angles matter: at zero angles, the product of the rotations has the
    same first derivative as the matrix. Its second derivative would be wrong, so it raises an
    error.

    Args:
        words: the Pauli words, in the order of the angles.
        name: the name of the transform, for errors.

    Returns:
        a function ``matrix -> zeros[len(words)]`` with a custom JVP.
    """

    @jax.custom_jvp
    def forbid_second_derivative(matrix: Any) -> Any:
        """Return the matrix; its differentiation raises an error."""
        return matrix

    @forbid_second_derivative.defjvp
    def _forbid_second_derivative_jvp(primals: Any, tangents: Any) -> Any:
        """Raise an error: the JVP rule of the identity `forbid_second_derivative`.

        The rule of `pauli_angles` applies this identity to the matrix, so that differentiating the
        rule again raises the error.

        Raises:
            CompileError: always.
        """
        raise CompileError(
            f"the transform {name} of a traced matrix is differentiated twice with shots, which is "
            "not supported. Write the gates of the matrix, or use a circuit without shots."
        )

    @jax.custom_jvp
    def pauli_angles(matrix: Any) -> Any:
        """Return zeros, whose tangents the JVP rule computes from the tangent of the matrix."""
        return jnp.zeros(len(words), jnp.real(matrix).dtype)

    @pauli_angles.defjvp
    def _pauli_angles_jvp(primals: Any, tangents: Any) -> Any:
        """Compute the tangents of the angles from the tangent of the matrix.

        This is the JVP rule of ``pauli_angles``. The tangent of the angle for the Pauli word ``P``
        is ``2 Re(i tr(P dU U^-1)) / 2^n``.

        Args:
            primals: a tuple of the matrix ``U``.
            tangents: a tuple of its tangent ``dU``.

        Returns:
            the angles, which are zero, and their tangents. Differentiating the tangents again
            raises a ``CompileError``.
        """
        (matrix,), (tangent,) = primals, tangents
        product = tangent @ jnp.conj(forbid_second_derivative(matrix)).T
        paulis = np.stack([_compute_word_matrix(word) for word in words])
        traces = jnp.einsum("kij,ji->k", paulis.astype(product.dtype), product)
        angles = jnp.real(2j * traces) / matrix.shape[0]
        return pauli_angles(matrix), angles.astype(jnp.real(matrix).dtype)

    return pauli_angles


@functools.cache
def _compute_word_matrix(word: str) -> np.ndarray:
    """Return the matrix of a Pauli word, letters of ``IXYZ``.

    "IX" gives the Kronecker product of I and X.
    """
    letters = {
        "I": np.eye(2),
        "X": np.array([[0, 1], [1, 0]]),
        "Y": np.array([[0, -1j], [1j, 0]]),
        "Z": np.diag([1, -1]),
    }
    return functools.reduce(np.kron, [letters[letter] for letter in word])
