"""Runs of operations as one loop, of which only the body is compiled.

A TPU has no double precision: XLA writes each operation on it as tens, and each product of matrices
as hundreds, so a program takes as long to compile as it has operations.  There is one step here for
every gate, whatever its qubits, which are numbers of the loop::

    state     its qubits in another order, those of the gate in front
    state     matrix @ state, on its parts and these qubits as rows

It goes through the state once for each gate, and not for each block of gates, so that is for states
that are small.
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

# How many entries a state has at most.
_MAX_SIZE = 1 << 12


def should_scan(dtype: np.dtype, size: int) -> bool:
    """Tell whether runs of operations on a state are such loops.

    Args:
        dtype: that of the state.
        size: how many entries it has.
    """
    return trace_state().platform == "tpu" and dtype == np.float64 and size <= _MAX_SIZE


@dataclass
class MatrixScan:
    """A run of operations whose qubits are known, each of few, as a loop over them.

    Its matrices are real, on the parts of a state and equally many qubits, those of the operation
    in front: what is differentiated is what meets the state.

    Args:
        base: how many entries the axis of a qubit has.
        compute_matrix: returns the matrix of an operation; NumPy's where all of it is known.
        is_unitary: tells of an operation whether its inverse is its adjoint, whatever its
            parameters; these are differentiated by the adjoint method.

    Attributes:
        is_orthogonal: whether all matrices that were applied are.
    """

    base: int
    compute_matrix: Callable[[Any], Any]
    is_unitary: Callable[[Any], bool]
    is_orthogonal: bool = field(default=True, init=False)

    def apply(self, operations: Sequence[tuple[Any, tuple[int, ...]]], state: Operand) -> Any:
        """Return a state after operations.

        Args:
            operations: pairs of an operation and its qubits.
            state: of two axes, see ``evolution``.
        """
        bits = self.base.bit_length() - 1
        in_order = tuple(range((state.shape[1].bit_length() - 1) // bits))
        n_rows = self.base ** max(len(qubits) for _, qubits in operations)
        parts = len(state)

        def pad_matrix(op: Any) -> Any:
            matrix = self.compute_matrix(op)
            xp = np if isinstance(matrix, np.ndarray) else jnp
            others = np.eye(n_rows // len(matrix), dtype=bool)[:, None]
            padded = xp.where(others, matrix[:, None, :, None], 0).reshape(n_rows, n_rows)
            return to_real_matrices(padded[None], parts)[0]

        made = OperationMatrices(pad_matrix, state.dtype, _add_derivatives)
        entries = made.compute(operations)
        matrices = jnp.asarray(made.get_table(parts * n_rows).gather(entries))
        orders = [(*qubits, *(q for q in in_order if q not in qubits)) for _, qubits in operations]
        are_orthogonal = [
            is_unitary_matrix(entry) if isinstance(entry, np.ndarray) else self.is_unitary(op)
            for (op, _), entry in zip(operations, entries, strict=True)
        ]
        first = 0
        for by_adjoint, same in itertools.groupby(are_orthogonal):
            last = first + len(list(same))
            steps = _ScanSteps(bits, (in_order, *orders[first:last], in_order))
            run = steps.apply_with_adjoint if by_adjoint else steps.apply
            state = run(state, matrices[first:last])
            self.is_orthogonal &= by_adjoint
            first = last
        return state


def _add_derivatives(compute_matrix: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the matrices of several operations, of which each knows its slopes.

    Backwards, the sines that matrices are made of would be computed again.

    Args:
        compute_matrix: makes the matrix of one.
    """
    made = jax.vmap(compute_matrix)

    def differentiate(number: int, primals: Sequence[Any]) -> Any:
        one = lambda x: made(*primals[:number], x, *primals[number + 1 :])
        return jax.jvp(one, (primals[number],), (jnp.ones_like(primals[number]),))[1]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        moving = [number for number, tangent in enumerate(tangents) if is_perturbed(tangent)]
        slopes = [differentiate(number, primals) for number in moving]
        matrices, slopes = jax.lax.optimization_barrier((made(*primals), slopes))
        shares = [
            each * tangents[number][:, None, None]
            for each, number in zip(slopes, moving, strict=True)
        ]
        return matrices, functools.reduce(operator.add, shares)

    of_each = jax.custom_jvp(made)
    of_each.defjvp(jvp, symbolic_zeros=True)

    def compute_matrices(*columns: Any) -> Any:
        if any(column.ndim > 1 or jnp.iscomplexobj(column) for column in columns):
            return made(*columns)
        return of_each(*columns)

    return compute_matrices


@dataclass(frozen=True)
class _ScanSteps:
    """A sequence of matrices on qubits in front, as a loop.

    Attributes:
        bits: how many an entry of a qubit has.
        orders: those of the state's qubits: before, at each matrix, and behind.
    """

    bits: int
    orders: tuple[tuple[int, ...], ...]

    def apply_with_adjoint(self, state: Operand, matrices: Operand) -> Any:
        """Return a state after matrices that are orthogonal, by the adjoint method."""
        return define_adjoint_derivative(self.apply, self._pull_back)(state, matrices)

    def apply(self, state: Operand, matrices: Operand) -> Any:
        """Return a state after matrices, differentiated as JAX does."""

        def step(state: Any, given: Any) -> tuple[Any, None]:
            matrix, before, here = given
            return _multiply(matrix, self._permute(state, before, here)), None

        state, _ = jax.lax.scan(step, state, (matrices, *self._get_forward_shifts()))
        return self._restore_order(state)

    def _pull_back(self, state: Operand, cotangent: Operand, matrices: Any) -> tuple[Any, ...]:
        def step(carried: Any, given: Any) -> tuple[Any, Any]:
            inverse, before, here = given
            state, cotangent = carried
            state = _multiply(inverse, state)
            found = _contract(cotangent, state, len(inverse))
            cotangent = _multiply(inverse, cotangent)
            return tuple(self._permute(each, here, before) for each in (state, cotangent)), found

        last, end = self._compute_shifts()[-2:]
        carried = tuple(self._permute(each, end, last) for each in (state, cotangent))
        given = matrices.mT, *self._get_forward_shifts()
        (_, cotangent), found = jax.lax.scan(step, carried, given, reverse=True)
        return cotangent, found

    def _get_forward_shifts(self) -> tuple[Any, Any]:
        """Return the shifts before each matrix, and at it."""
        shifts = self._compute_shifts()
        return jnp.asarray(shifts[:-2]), jnp.asarray(shifts[1:-1])

    def _compute_shifts(self) -> np.ndarray:
        """Return where the bits of each qubit are in an index of the state, in each order."""
        places = np.argsort(np.array(self.orders), axis=1)
        return (self.bits * (places.shape[1] - 1 - places)).astype(np.int32)

    def _restore_order(self, state: Operand) -> Any:
        last, end = self._compute_shifts()[-2:]
        return self._permute(state, last, end)

    def _permute(self, state: Operand, before: Any, after: Any) -> Any:
        """Return a state with its qubits in another order."""

        def permute(state: Operand, before: Any, after: Any) -> Any:
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
    """Return a state after a matrix: a sum of products, which a TPU has in few operations."""
    rows = state.reshape(len(matrix), -1)
    return jnp.sum(matrix[:, :, None] * rows, 1).reshape(state.shape)


def _contract(one: Operand, other: Operand, n_rows: int) -> Any:
    """Return the inner products of the rows of two states."""
    first, second = (each.reshape(n_rows, -1) for each in (one, other))
    return jnp.sum(first[:, None] * second, 2)
