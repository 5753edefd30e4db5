"""Apply sequences of operations in one loop, so that XLA compiles only one step.

A TPU has no double precision.  XLA replaces each such operation by tens of operations, and each
matrix product by hundreds, so compile time grows with the number of gates.  Here one step serves
every gate, and the gate's qubits are data of the loop::

    state     transposed, with the gate's qubits in front
    state     matrix @ state, with components and these qubits as rows

This makes one pass over the state for each gate, and not for each fused block, so it is for small
states.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.base.types import Operand
from bellhop.callbacks.linear_map import LinearMap, is_perturbed
from bellhop.circuits.backends.arrays.adjoint_method import define_adjoint_derivative
from bellhop.circuits.backends.arrays.matrices.complex_matmul import to_real_matrices
from bellhop.circuits.backends.arrays.matrices.operation_matrices import (
    OperationMatrices,
    is_unitary_matrix,
)
from bellhop.tracing.state import trace_state

# Largest number of entries of a state.
_MAX_SIZE = 1 << 12


def should_scan(dtype: np.dtype, size: int) -> bool:
    """Return whether to apply operations by `MatrixScan` instead of `MatrixSequence`.

    True for small states in double precision on a TPU, where compile time matters most.

    Args:
        dtype: real dtype of the state.
        size: number of entries of the state, ``base**qubits``.
    """
    return trace_state().platform == "tpu" and dtype == np.float64 and size <= _MAX_SIZE


@dataclass
class MatrixScan:
    """Applies operations on few, static qubits in one `lax.scan` over the operations.

    All matrices are padded with the identity to the same number of qubits, and made real, so that
    they act on the real and imaginary parts of a state. `should_scan` decides whether it is used in
    place of `MatrixSequence`.

    Args:
        base: number of entries of a qubit's axis: 2 for amplitudes, 4 for Pauli expectation values.
        compute_matrix: returns the matrix of an operation, a NumPy array if it is static.
        is_unitary: returns whether an operation is unitary for all values of its parameters;
            unitary matrices are differentiated by the adjoint method.

    Attributes:
        is_orthogonal: whether all matrices that this instance applied are orthogonal.
    """

    base: int
    compute_matrix: Callable[[Any], Any]
    is_unitary: Callable[[Any], bool]
    is_orthogonal: bool = field(default=True, init=False)

    def apply(self, operations: Sequence[tuple[Any, tuple[int, ...]]], state: Operand) -> Any:
        """Apply operations to a state, in order.

        Args:
            operations: pairs of an operation and the indices of its qubits; at least one.
            state: real array ``[components, base**qubits]``; two components (real and imaginary
                part) for amplitudes, one for Pauli expectation values.

        Returns:
            the new state, in the same shape.
        """
        bits = self.base.bit_length() - 1
        in_order = tuple(range((state.shape[1].bit_length() - 1) // bits))
        n_rows = self.base ** max(len(qubits) for _, qubits in operations)
        parts = len(state)

        def pad_matrix(op: Any) -> Any:
            """Return an operation's real matrix, padded to the size of the largest operation.

            The operation's qubits come first; the matrix is the identity on the added qubits. The
            result is an array ``[components * n_rows, components * n_rows]``.
            """
            matrix = self.compute_matrix(op)
            xp = np if isinstance(matrix, np.ndarray) else jnp
            others = np.eye(n_rows // len(matrix), dtype=bool)[:, None]
            padded = xp.where(others, matrix[:, None, :, None], 0).reshape(n_rows, n_rows)
            return to_real_matrices(padded[None], parts)[0]

        operation_matrices = OperationMatrices(pad_matrix, state.dtype, _add_derivatives)
        entries = operation_matrices.compute(operations)
        matrices = jnp.asarray(operation_matrices.get_table(parts * n_rows).gather(entries))
        orders = [(*qubits, *(q for q in in_order if q not in qubits)) for _, qubits in operations]
        are_orthogonal = [
            is_unitary_matrix(entry) if isinstance(entry, np.ndarray) else self.is_unitary(op)
            for (op, _), entry in zip(operations, entries, strict=True)
        ]
        first = 0
        for by_adjoint, same in itertools.groupby(are_orthogonal):
            last = first + len(list(same))
            steps = ScanSteps(bits, (in_order, *orders[first:last], in_order))
            run = steps.apply_with_adjoint if by_adjoint else steps.apply
            state = run(state, matrices[first:last])
            self.is_orthogonal &= by_adjoint
            first = last
        return state


def _add_derivatives(compute_matrix: Callable[..., Any]) -> Callable[..., Any]:
    """Apply `jax.vmap` to a function, with a JVP rule that saves its derivatives.

    The JVP rule computes the derivatives of all matrices by their parameters before it multiplies
    them by tangents, so that reverse mode saves them. With JAX's own JVP, the backward pass would
    compute sines and cosines of the parameters again. `OperationMatrices` calls this function as
    `vectorize`.

    Args:
        compute_matrix: computes the matrix of one operation from its parameters.

    Returns:
        a function of stacked parameters, arrays ``[operations, ...]``, which returns matrices
        ``[operations, rows, columns]``. If a parameter is complex or not a scalar, the function has
        JAX's own JVP.
    """
    compute_all = jax.vmap(compute_matrix)

    def differentiate(number: int, primals: Sequence[Any]) -> Any:
        """Return the derivatives ``[operations, rows, columns]`` by parameter `number`."""
        one = lambda x: compute_all(*primals[:number], x, *primals[number + 1 :])
        return jax.jvp(one, (primals[number],), (jnp.ones_like(primals[number]),))[1]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """JVP rule: multiply tangents by the derivatives of the matrices, which are saved.

        Args:
            primals: parameters, real arrays ``[operations]``.
            tangents: their tangents, arrays or symbolic zeros.

        Returns:
            the matrices ``[operations, rows, columns]`` and their tangents.
        """
        perturbed = [number for number, tangent in enumerate(tangents) if is_perturbed(tangent)]
        slopes = [differentiate(number, primals) for number in perturbed]
        matrices, slopes = jax.lax.optimization_barrier((compute_all(*primals), slopes))
        shares = [
            each * tangents[number][:, None, None]
            for each, number in zip(slopes, perturbed, strict=True)
        ]
        return matrices, functools.reduce(operator.add, shares)

    of_each = jax.custom_jvp(compute_all)
    of_each.defjvp(jvp, symbolic_zeros=True)

    def compute_matrices(*columns: Any) -> Any:
        """Compute all matrices, by `jax.vmap` alone if parameters are not real scalars."""
        if any(column.ndim > 1 or jnp.iscomplexobj(column) for column in columns):
            return compute_all(*columns)
        return of_each(*columns)

    return compute_matrices


@dataclass(frozen=True)
class ScanSteps:
    """Applies real matrices on equally many qubits to a state, in one `lax.scan`.

    Each step transposes the state so that the qubits of its matrix come first. `MatrixScan` makes
    an instance for each stretch of operations with the same differentiation method, `AngleScan` an
    instance for each sequence of operations.

    Attributes:
        bits: bits per qubit in an index of the state: 1 for amplitudes, 2 for Pauli expectation
            values.
        orders: qubit orders of the state: the order before the first matrix, for each matrix the
            order in which it acts on the leading qubits, and the order after the last matrix.
    """

    bits: int
    orders: tuple[tuple[int, ...], ...]

    def apply_with_adjoint(self, state: Operand, matrices: Operand) -> Any:
        """Apply orthogonal matrices to a state; reverse mode is the adjoint method.

        Arguments and result are as of `apply`.
        """
        return define_adjoint_derivative(self.apply, self._pull_back)(state, matrices)

    def apply(self, state: Operand, matrices: Operand) -> Any:
        """Apply matrices to a state; reverse mode saves the state before each matrix.

        Args:
            state: array ``[components, entries]``, in the first of `orders`.
            matrices: array ``[steps, rows, rows]``.

        Returns:
            the final state, in the last of `orders`.
        """

        def step(state: Any, given: Any) -> tuple[Any, None]:
            matrix, before, at_matrix = given
            return _multiply(matrix, self._permute(state, before, at_matrix)), None

        state, _ = jax.lax.scan(step, state, (matrices, *self._get_forward_shifts()))
        return self._restore_order(state)

    def _pull_back(self, state: Operand, cotangent: Operand, matrices: Any) -> tuple[Any, ...]:
        """Compute cotangents by the adjoint method, from the final state backwards.

        Args:
            state: the final state, in the last of `orders`.
            cotangent: the cotangent of the final state.
            matrices: array ``[steps, rows, rows]`` of orthogonal matrices.

        Returns:
            the cotangents of the initial state and of `matrices`.
        """

        def step(carried: Any, given: Any) -> tuple[Any, Any]:
            """Undo one matrix in the scan of `_pull_back`, which runs in reverse.

            Args:
                carried: state and cotangent after the matrix, in the qubit order in which the
                    matrix acts.
                given: the transposed matrix; and the shifts ``int32[qubits]`` (`_compute_shifts`)
                    of the orders before and at the matrix.

            Returns:
                a pair: state and cotangent before the matrix, in the order before it; and the
                cotangent of the matrix.
            """
            inverse, before, at_matrix = given
            state, cotangent = carried
            state = _multiply(inverse, state)
            matrix_cotangents = _contract(cotangent, state, len(inverse))
            cotangent = _multiply(inverse, cotangent)
            return tuple(
                self._permute(each, at_matrix, before) for each in (state, cotangent)
            ), matrix_cotangents

        last, end = self._compute_shifts()[-2:]
        carried = tuple(self._permute(each, end, last) for each in (state, cotangent))
        given = matrices.mT, *self._get_forward_shifts()
        (_, cotangent), matrix_cotangents = jax.lax.scan(step, carried, given, reverse=True)
        return cotangent, matrix_cotangents

    def _get_forward_shifts(self) -> tuple[Any, Any]:
        """Return `_compute_shifts` for the qubit orders before each matrix and at each matrix.

        Both are arrays ``int32[matrices, qubits]``.
        """
        shifts = self._compute_shifts()
        return jnp.asarray(shifts[:-2]), jnp.asarray(shifts[1:-1])

    def _compute_shifts(self) -> np.ndarray:
        """Return the bit offset of each qubit in an index of the state, ``[orders, qubits]``."""
        places = np.argsort(np.array(self.orders), axis=1)
        return (self.bits * (places.shape[1] - 1 - places)).astype(np.int32)

    def _restore_order(self, state: Operand) -> Any:
        """Transpose a state from the qubit order of the last matrix to the final order."""
        last, end = self._compute_shifts()[-2:]
        return self._permute(state, last, end)

    def _permute(self, state: Operand, before: Any, after: Any) -> Any:
        """Transpose a state from one qubit order to another, which may be traced.

        Its JVP and transpose are permutations, too.

        Args:
            state: array ``[components, entries]``.
            before: ``int32[qubits]``, bit offset of each qubit in an index of `state`.
            after: ``int32[qubits]``, bit offset of each qubit in an index of the result.
        """

        def permute(state: Operand, before: Any, after: Any) -> Any:
            """Implement `_permute`, whose arguments it takes, by one gather."""
            index = jax.lax.broadcasted_iota(np.int32, (1, state.shape[1]), 1)
            entries = (index >> after[:, None]) & ((1 << self.bits) - 1)
            source = jnp.sum(entries << before[:, None], 0)
            return state.at[:, source].get(mode="promise_in_bounds")

        linear = LinearMap(
            lambda saved, cotangents: [permute(cotangents[0], *saved[::-1])],
            lambda saved, tangents: [permute(tangents[0], *saved)],
            2,
            (ShapedArray(state.shape, state.dtype),),
        )
        return linear([before, after], [state])[0]


def _multiply(matrix: Operand, state: Operand) -> Any:
    """Multiply a matrix and a state by a sum of products: few operations on a TPU."""
    rows = state.reshape(len(matrix), -1)
    return jnp.sum(matrix[:, :, None] * rows, 1).reshape(state.shape)


def _contract(one: Operand, other: Operand, n_rows: int) -> Any:
    """Return ``rows_of_one @ rows_of_other.T`` for two states in `n_rows` rows."""
    first, second = (each.reshape(n_rows, -1) for each in (one, other))
    return jnp.sum(first[:, None] * second, 2)
