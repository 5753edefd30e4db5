"""Pauli transfer matrices: what operations do to a mixed state, as the means of its Pauli words.

A state ``rho`` of n qubits is the vector of ``Tr(P rho)`` for all words P of I, X, Y and Z: 4**n
real numbers, with an axis of four for each qubit.  Whatever operators ``K`` an operation has, it
multiplies that by a real matrix::

    R[i, j] = sum over K of Tr(P_i K P_j K^dagger) / 2**n

For one qubit a channel shrinks X, Y and Z, and shifts Z: an amplitude damping by ``g`` is ::

    [1, 0, 0, 0], [0, sqrt(1-g), 0, 0], [0, 0, sqrt(1-g), 0], [g, 0, 0, 1-g]

PennyLane has Kraus operators, which are square roots of probabilities and have no second derivative
at zero.  What the program computes goes into these matrices, where there are no roots but this one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.gates.decompositions import not_applied
from bellhop.circuits.ir.precision import complex_type
from bellhop.circuits.ir.wires import is_dynamic

_PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])

# Added to what a root is taken of, as PennyLane does: a damping by one has a derivative.
_EPS = qml.math.eps


def transfer_matrix(op: qml.operation.Operator, where: str) -> Any:
    """Return the Pauli transfer matrix of a gate or channel; NumPy's where all of it is known.

    Args:
        op: the operation.
        where: the QNode, for errors.
    """
    if any(map(is_dynamic, op.data)) and type(op) in _IN_CLOSED_FORM:
        return _IN_CLOSED_FORM[type(op)](op)
    operators = kraus_operators(op, where)
    xp = _numpy_of(*operators)
    side = 2 ** len(op.wires)
    stack = _in_precision(xp.stack(operators))
    pairs = xp.einsum("kab,kec->aebc", stack, stack.conj()).reshape(side**2, side**2)
    return xp.real(_in_words(pairs, len(op.wires)))


def has_numbers(op: qml.operation.Operator) -> bool:
    """Tell whether what should be numbers of a channel are; PennyLane has no batches of them."""
    return type(op) not in _IN_CLOSED_FORM or not any(map(jnp.ndim, op.data))


def kraus_operators(op: qml.operation.Operator, where: str) -> list[Any]:
    """Return the operators of a channel, or the one of a gate.

    Raises:
        CompileError: where they are not of qubits.
    """
    operators = op.kraus_matrices() if isinstance(op, qml.operation.Channel) else [op.matrix()]
    if operators[0].shape[-1] != 2 ** len(op.wires):
        raise not_applied(op, where)
    if any(map(is_dynamic, operators)):
        return list(map(jnp.asarray, operators))
    return list(map(np.asarray, operators))


def of_matrix(matrix: Operand, qubits: int) -> Any:
    """Return ``Tr(P matrix)`` for all words P, with an axis of four for each qubit."""
    xp = _numpy_of(matrix)
    rest = _in_precision(xp.asarray(matrix)).reshape((2,) * (2 * qubits))
    for done in range(qubits):
        rest = xp.tensordot(
            rest, _in_precision(xp.asarray(_PAULIS)), axes=([0, qubits - done], [2, 1])
        )
    return rest


def matrix_of(means: Operand, qubits: int) -> Any:
    """Return the matrix that has these means, which have an axis of four for each qubit."""
    xp = _numpy_of(means)
    rest = _in_precision(xp.asarray(means))
    for _ in range(qubits):
        rest = xp.tensordot(rest, _in_precision(xp.asarray(_PAULIS / 2)), axes=([0], [0]))
    rows_first = [*range(0, 2 * qubits, 2), *range(1, 2 * qubits, 2)]
    return rest.transpose(rows_first).reshape(2**qubits, 2**qubits)


def product_from_left(matrix: Operand, qubits: int) -> Any:
    """Return the complex matrix of a multiplication by an operator from the left."""
    xp = _numpy_of(matrix)
    side = 2**qubits
    factor = _in_precision(xp.asarray(matrix))
    left = xp.einsum("ab,ec->aebc", factor, np.eye(side)).reshape(side**2, side**2)
    return _in_words(left, qubits)


def _in_words(pairs: Any, qubits: int) -> Any:
    """Return a matrix on the entries of matrices as one on the means of words."""
    words = _numpy_of(pairs).asarray(_words(qubits), pairs.dtype)
    return words @ pairs @ words.conj().T / 2**qubits


@functools.cache
def _words(qubits: int) -> np.ndarray:
    """Return what multiplies the entries of a matrix, row by row, to their means."""
    columns = [of_matrix(unit.reshape(2**qubits, -1), qubits) for unit in np.eye(4**qubits)]
    return np.stack([np.ravel(column) for column in columns], axis=1)


def _numpy_of(*values: Any) -> Any:
    return jnp if any(map(is_dynamic, values)) else np


def _in_precision(values: Any) -> Any:
    return values.astype(complex if isinstance(values, np.ndarray) else complex_type())


def _of_one_qubit(x: Any, y: Any, z: Any, shift: Any, is_valid: Any) -> Any:
    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    rows = [[one, zero, zero, zero], [zero, x, zero, zero], [zero, zero, y, zero]]
    matrix = jnp.stack([jnp.stack(row) for row in [*rows, [shift, zero, zero, z]]])
    return jnp.where(is_valid, matrix, jnp.nan)


def _are_probabilities(*values: Any) -> Any:
    return functools.reduce(jnp.logical_and, [(value >= 0) & (value <= 1) for value in values])


def _channel(form: Callable[..., Sequence[Any]]) -> Callable[[Any], Any]:
    """Return what makes the matrix of a channel whose parameters are probabilities.

    Args:
        form: takes them; returns what X, Y and Z are multiplied by, and the shift of Z.
    """

    def matrix(op: qml.operation.Operator) -> Any:
        x, y, z, shift = jnp.broadcast_arrays(*form(*op.data))
        return _of_one_qubit(x, y, z, shift, _are_probabilities(*op.data))

    return matrix


def _damping(gamma: Any, excited: Any) -> Sequence[Any]:
    coherence = jnp.sqrt(1 - gamma + _EPS)
    return coherence, coherence, 1 - gamma, gamma * (1 - 2 * excited)


def _dephasing(gamma: Any) -> Sequence[Any]:
    coherence = jnp.sqrt(1 - gamma + _EPS)
    return coherence, coherence, 1.0, 0.0


def _reset(op: qml.operation.Operator) -> Any:
    zero, one = op.data
    rest = 1 - zero - one
    return _of_one_qubit(rest, rest, rest, zero - one, _are_probabilities(zero, one, rest))


def _relaxation(op: qml.operation.Operator) -> Any:
    excited, t1, t2, time = op.data
    population, coherence = jnp.exp(-time / t1), jnp.exp(-time / t2)
    is_valid = _are_probabilities(excited) & (time >= 0) & (t1 > 0) & (t2 > 0) & (t2 <= 2 * t1)
    shift = (1 - population) * (1 - 2 * excited)
    return _of_one_qubit(coherence, coherence, population, shift, is_valid)


_ANTICOMMUTES = {"I": [0, 0, 0, 0], "X": [0, 0, 1, 1], "Y": [0, 1, 0, 1], "Z": [0, 1, 1, 0]}


def _pauli_error(op: qml.operation.Operator) -> Any:
    (probability,) = op.data
    number = functools.reduce(
        np.add.outer,
        [np.array(_ANTICOMMUTES[letter]) for letter in op.hyperparameters["operators"]],
    )
    factors = 1 - 2 * probability * (np.ravel(number) % 2)
    return jnp.where(_are_probabilities(probability), jnp.diag(factors), jnp.nan)


_IN_CLOSED_FORM: dict[type, Callable[[Any], Any]] = {
    qml.AmplitudeDamping: _channel(lambda gamma: _damping(gamma, 0)),
    qml.GeneralizedAmplitudeDamping: _channel(_damping),
    qml.PhaseDamping: _channel(_dephasing),
    qml.DepolarizingChannel: _channel(lambda p: (1 - 4 * p / 3,) * 3 + (0.0,)),
    qml.BitFlip: _channel(lambda p: (1.0, 1 - 2 * p, 1 - 2 * p, 0.0)),
    qml.PhaseFlip: _channel(lambda p: (1 - 2 * p, 1 - 2 * p, 1.0, 0.0)),
    qml.ResetError: _reset,
    qml.ThermalRelaxationError: _relaxation,
    qml.PauliError: _pauli_error,
}
