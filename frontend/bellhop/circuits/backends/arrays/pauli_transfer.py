"""Compute Pauli transfer matrices: operations on Pauli expectation values.

A state ``rho`` of n qubits is the vector of ``Tr(P rho)`` for all words P of I, X, Y and Z: 4**n
real numbers, with an axis of four for each qubit.  An operation with Kraus operators ``K``
multiplies this vector by the real matrix ::

    R[i, j] = sum over K of Tr(P_i K P_j K^dagger) / 2**n

For one qubit a channel shrinks X, Y and Z, and shifts Z.  Amplitude damping by ``g`` is ::

    [1, 0, 0, 0], [0, sqrt(1-g), 0, 0], [0, 0, sqrt(1-g), 0], [g, 0, 0, 1-g]

PennyLane's Kraus operators contain square roots of probabilities, which have no second derivative
at zero.  So transfer matrices of channels with traced parameters are computed in closed form, where
damping channels have the only square root.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.gates.decompositions import unsupported_operation_error
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import is_dynamic

_PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])

# Added to arguments of square roots, as in PennyLane, so that damping by 1 has a derivative.
_EPS = qml.math.eps


def compute_transfer_matrix(op: qml.operation.Operator, where: str) -> Any:
    """Return the Pauli transfer matrix of a gate or channel.

    Args:
        op: the operation; its parameters may be traced.
        where: the QNode and its line, for errors.

    Returns:
        real matrix ``[4**wires, 4**wires]`` on the words of I, X, Y, Z on the operation's wires; a
        NumPy array if it is static. For a channel in `_CLOSED_FORMS` it is NaN where a traced
        parameter is out of range.

    Raises:
        CompileError: if the operation does not act on qubits.
    """
    if any(map(is_dynamic, op.data)) and type(op) in _CLOSED_FORMS:
        return _CLOSED_FORMS[type(op)](op)
    operators = get_kraus_operators(op, where)
    xp = _choose_numpy(*operators)
    side = 2 ** len(op.wires)
    stack = _cast_complex(xp.stack(operators))
    pairs = xp.einsum("kab,kec->aebc", stack, stack.conj()).reshape(side**2, side**2)
    return xp.real(_to_transfer_matrix(pairs, len(op.wires)))


def has_scalar_parameters(op: qml.operation.Operator) -> bool:
    """Return whether all parameters of a channel are scalars, not arrays such as batches.

    Only the types in `_CLOSED_FORMS` are checked, PennyLane's channels whose parameters must be
    scalars; the result is True for all other operations.
    """
    return type(op) not in _CLOSED_FORMS or not any(map(jnp.ndim, op.data))


def get_kraus_operators(op: qml.operation.Operator, where: str) -> list[Any]:
    """Return the Kraus operators of a channel; for a gate, its matrix alone in a list.

    Args:
        where: the QNode and its line, for errors.

    Returns:
        arrays ``[2**wires, 2**wires]``, all NumPy arrays if all are static.

    Raises:
        CompileError: if the operation does not act on qubits.
    """
    operators = op.kraus_matrices() if isinstance(op, qml.operation.Channel) else [op.matrix()]
    if operators[0].shape[-1] != 2 ** len(op.wires):
        raise unsupported_operation_error(op, where)
    if any(map(is_dynamic, operators)):
        return list(map(jnp.asarray, operators))
    return list(map(np.asarray, operators))


def to_pauli_basis(matrix: Operand, n_qubits: int) -> Any:
    """Return ``Tr(P matrix)`` for all Pauli words P on the qubits of a matrix.

    Args:
        matrix: array ``[2**n_qubits, 2**n_qubits]``, such as a density matrix.

    Returns:
        complex array ``[4] * n_qubits``; indices 0 to 3 of each axis mean I, X, Y, Z.
    """
    xp = _choose_numpy(matrix)
    rest = _cast_complex(xp.asarray(matrix)).reshape((2,) * (2 * n_qubits))
    for done in range(n_qubits):
        rest = xp.tensordot(
            rest, _cast_complex(xp.asarray(_PAULIS)), axes=([0, n_qubits - done], [2, 1])
        )
    return rest


def from_pauli_basis(means: Operand, n_qubits: int) -> Any:
    """Return the matrix with given ``Tr(P matrix)``; the inverse of `to_pauli_basis`.

    Args:
        means: array ``[4] * n_qubits``, for instance the expectation values of a state.

    Returns:
        complex array ``[2**n_qubits, 2**n_qubits]``.
    """
    xp = _choose_numpy(means)
    rest = _cast_complex(xp.asarray(means))
    for _ in range(n_qubits):
        rest = xp.tensordot(rest, _cast_complex(xp.asarray(_PAULIS / 2)), axes=([0], [0]))
    rows_first = [*range(0, 2 * n_qubits, 2), *range(1, 2 * n_qubits, 2)]
    return rest.transpose(rows_first).reshape(2**n_qubits, 2**n_qubits)


def make_left_multiplication(matrix: Operand, n_qubits: int) -> Any:
    """Return the map ``rho -> matrix @ rho`` as a matrix on Pauli expectation values.

    Args:
        matrix: array ``[2**n_qubits, 2**n_qubits]``, such as an observable.

    Returns:
        complex array ``[4**n_qubits, 4**n_qubits]``.
    """
    xp = _choose_numpy(matrix)
    side = 2**n_qubits
    factor = _cast_complex(xp.asarray(matrix))
    left = xp.einsum("ab,ec->aebc", factor, np.eye(side)).reshape(side**2, side**2)
    return _to_transfer_matrix(left, n_qubits)


def _to_transfer_matrix(pairs: Any, n_qubits: int) -> Any:
    """Convert a superoperator on row-major matrix entries to the Pauli basis.

    Args:
        pairs: complex array ``[4**n_qubits, 4**n_qubits]``, which maps the flattened ``rho`` to the
            flattened result.

    Returns:
        complex array of the same shape, which maps ``Tr(P rho)`` of all Pauli words P to these
        values of the result.
    """
    words = _choose_numpy(pairs).asarray(_make_basis_change(n_qubits), pairs.dtype)
    return words @ pairs @ words.conj().T / 2**n_qubits


@functools.cache
def _make_basis_change(n_qubits: int) -> np.ndarray:
    """Return the linear map from the entries of a matrix A to ``Tr(P A)`` for all words P.

    It is a complex array ``[4**n_qubits, 4**n_qubits]``: a row for each Pauli word P, a column for
    each entry of A, row by row. The array is cached, so the caller must not change it.
    """
    columns = [
        to_pauli_basis(unit.reshape(2**n_qubits, -1), n_qubits) for unit in np.eye(4**n_qubits)
    ]
    return np.stack([np.ravel(column) for column in columns], axis=1)


def _choose_numpy(*values: Any) -> Any:
    """Return ``jax.numpy`` if a value is traced, else ``numpy``."""
    return jnp if any(map(is_dynamic, values)) else np


def _cast_complex(values: Any) -> Any:
    """Cast NumPy arrays to complex128, and traced arrays to the program's complex dtype."""
    return values.astype(complex if isinstance(values, np.ndarray) else Precision.complex_type())


def _make_one_qubit_matrix(x: Any, y: Any, z: Any, shift: Any, is_valid: Any) -> Any:
    """Return the transfer matrix of a channel that scales X, Y, Z and shifts Z.

    Args:
        x: scalar factor of the expectation value of X.
        y: scalar factor of Y.
        z: scalar factor of Z.
        shift: scalar that is added to the expectation value of Z.
        is_valid: whether the channel's parameters are in range; otherwise all entries are NaN.

    Returns:
        array ``[4, 4]``.
    """
    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    rows = [[one, zero, zero, zero], [zero, x, zero, zero], [zero, zero, y, zero]]
    matrix = jnp.stack([jnp.stack(row) for row in [*rows, [shift, zero, zero, z]]])
    return jnp.where(is_valid, matrix, jnp.nan)


def _has_valid_probabilities(*values: Any) -> Any:
    return functools.reduce(jnp.logical_and, [(value >= 0) & (value <= 1) for value in values])


def _make_channel_rule(form: Callable[..., Sequence[Any]]) -> Callable[[Any], Any]:
    """Return a function from a one-qubit channel to its Pauli transfer matrix.

    All parameters of the channel are probabilities; the matrix is NaN if they are out of range.

    Args:
        form: takes the channel's parameters; returns the factors by which the channel multiplies
            the expectation values of X, Y and Z, and the number that it adds to Z's.

    Returns:
        a function that takes the PennyLane channel and returns its transfer matrix ``[4, 4]``.
    """

    def matrix(op: qml.operation.Operator) -> Any:
        """Return the transfer matrix of a channel."""
        x, y, z, shift = jnp.broadcast_arrays(*form(*op.data))
        return _make_one_qubit_matrix(x, y, z, shift, _has_valid_probabilities(*op.data))

    return matrix


def _compute_damping(gamma: Any, excited: Any) -> Sequence[Any]:
    """Return how (generalized) amplitude damping changes the expectation values of Paulis.

    Args:
        gamma: probability of damping.
        excited: probability of the state ``|1>`` in equilibrium.

    Returns:
        the factors of X, Y and Z, and the shift of Z.
    """
    coherence = jnp.sqrt(1 - gamma + _EPS)
    return coherence, coherence, 1 - gamma, gamma * (1 - 2 * excited)


def _compute_dephasing(gamma: Any) -> Sequence[Any]:
    """Return the factors of X, Y and Z, and the shift of Z, of phase damping by `gamma`."""
    coherence = jnp.sqrt(1 - gamma + _EPS)
    return coherence, coherence, 1.0, 0.0


def _make_reset_matrix(op: qml.operation.Operator) -> Any:
    """Return the transfer matrix ``[4, 4]`` of ``qml.ResetError``.

    Parameters out of range give NaN.
    """
    zero, one = op.data
    rest = 1 - zero - one
    return _make_one_qubit_matrix(
        rest, rest, rest, zero - one, _has_valid_probabilities(zero, one, rest)
    )


def _make_relaxation_matrix(op: qml.operation.Operator) -> Any:
    """Return the transfer matrix ``[4, 4]`` of ``qml.ThermalRelaxationError``.

    It scales X and Y by ``exp(-time / t2)`` and lets Z relax with ``exp(-time / t1)``. Parameters
    out of range give NaN.
    """
    excited, t1, t2, time = op.data
    population, coherence = jnp.exp(-time / t1), jnp.exp(-time / t2)
    is_valid = (
        _has_valid_probabilities(excited) & (time >= 0) & (t1 > 0) & (t2 > 0) & (t2 <= 2 * t1)
    )
    shift = (1 - population) * (1 - 2 * excited)
    return _make_one_qubit_matrix(coherence, coherence, population, shift, is_valid)


_ANTICOMMUTES = {"I": [0, 0, 0, 0], "X": [0, 0, 1, 1], "Y": [0, 1, 0, 1], "Z": [0, 1, 1, 0]}


def _make_pauli_error_matrix(op: qml.operation.Operator) -> Any:
    """Return the transfer matrix of ``qml.PauliError``, ``[4**wires, 4**wires]``.

    It is diagonal: words that anticommute with the error's word get the factor ``1 - 2 p`` for the
    probability ``p``. A probability out of range gives NaN.
    """
    (probability,) = op.data
    number = functools.reduce(
        np.add.outer,
        [np.array(_ANTICOMMUTES[letter]) for letter in op.hyperparameters["operators"]],
    )
    factors = 1 - 2 * probability * (np.ravel(number) % 2)
    return jnp.where(_has_valid_probabilities(probability), jnp.diag(factors), jnp.nan)


_CLOSED_FORMS: dict[type, Callable[[Any], Any]] = {
    qml.AmplitudeDamping: _make_channel_rule(lambda gamma: _compute_damping(gamma, 0)),
    qml.GeneralizedAmplitudeDamping: _make_channel_rule(_compute_damping),
    qml.PhaseDamping: _make_channel_rule(_compute_dephasing),
    qml.DepolarizingChannel: _make_channel_rule(lambda p: (1 - 4 * p / 3,) * 3 + (0.0,)),
    qml.BitFlip: _make_channel_rule(lambda p: (1.0, 1 - 2 * p, 1 - 2 * p, 0.0)),
    qml.PhaseFlip: _make_channel_rule(lambda p: (1 - 2 * p, 1 - 2 * p, 1.0, 0.0)),
    qml.ResetError: _make_reset_matrix,
    qml.ThermalRelaxationError: _make_relaxation_matrix,
    qml.PauliError: _make_pauli_error_matrix,
}
