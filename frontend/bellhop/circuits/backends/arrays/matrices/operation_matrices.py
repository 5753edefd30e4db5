"""Compute the matrices of operations, together if only parameters differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.matrices.matrix_table import Entry, MatrixTable
from bellhop.circuits.backends.arrays.pennylane_operations import map_to_first_axes
from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import is_dynamic

if TYPE_CHECKING:
    import pennylane as qml

# Absolute tolerance for the unitarity of a constant matrix.
_TOLERANCE = 1e-13


@dataclass
class OperationMatrices:
    """Computes the matrices of operations, and stores the traced matrices in tables.

    Operations that only differ in their parameters are computed together, by one vectorized call.

    Args:
        compute_matrix: returns the matrix of an operation, a NumPy array if it is static.
        dtype: dtype of the matrices.
        vectorize: like `jax.vmap`: converts a function from the parameters of one operation to its
            matrix into a function from stacked parameters to matrices ``[operations, rows,
            columns]``.
    """

    compute_matrix: Callable[[Any], Any]
    dtype: np.dtype
    vectorize: Callable[[Callable[..., Any]], Callable[..., Any]] = jax.vmap
    _tables: dict[int, MatrixTable] = field(default_factory=dict)

    def get_table(self, n_rows: int) -> MatrixTable:
        """Return the table of the traced matrices with `n_rows` rows."""
        return self._tables.setdefault(n_rows, MatrixTable(self.dtype))

    def compute(self, operations: Sequence[tuple[Any, tuple[int, ...]]]) -> list[Entry]:
        """Compute the matrices of operations; append the traced matrices to the tables.

        Args:
            operations: pairs of an operation and the indices of its qubits.

        Returns:
            for each operation a static matrix, or the index of its traced matrix in the table
            (`get_table`) for its number of rows.
        """
        entries: dict[int, Entry] = {}
        groups: dict[Any, list[int]] = defaultdict(list)
        for number, (op, _) in enumerate(operations):
            parameters = get_parameters(op)
            if not any(map(is_dynamic, parameters)):
                matrix = self.compute_matrix(
                    replace_parameters(op, list(map(_to_numpy, parameters)))
                )
                if isinstance(matrix, np.ndarray):
                    entries[number] = matrix
                    continue
            shapes = tuple(map(jnp.shape, parameters))
            groups[len(op.wires), _find_group_key(op, number), shapes].append(number)
        for numbers in groups.values():
            first, *others = (operations[number][0] for number in numbers)
            if not others:
                matrices = self.compute_matrix(first)[None]
            else:
                columns = zip(*map(get_parameters, (first, *others)), strict=True)
                of = lambda *parameters, op=first: self.compute_matrix(
                    replace_parameters(op, parameters)
                )
                matrices = self.vectorize(of)(*map(_stack_parameters, columns))
            first_row = self.get_table(matrices.shape[-1]).append(matrices)
            entries |= {number: first_row + row for row, number in enumerate(numbers)}
        return [entries[number] for number in range(len(operations))]


def is_unitary_matrix(matrix: np.ndarray) -> bool:
    """Return whether a constant matrix is unitary."""
    return np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), rtol=0, atol=_TOLERANCE)


def _stack_parameters(values: Sequence[Any]) -> Any:
    """Stack the values of one parameter of several operations along a new first axis.

    Scalars are stacked by `stack_scalars`, an equation that `vectorize_jaxpr` can replace.

    Args:
        values: arrays of equal shapes, static or traced.
    """
    dtype = jnp.result_type(*values)
    arrays = [jnp.asarray(value, dtype) for value in values]
    return stack_scalars(arrays) if arrays[0].ndim == 0 else jnp.stack(arrays)


def _to_numpy(number: Operand) -> Any:
    """Convert a concrete JAX array to NumPy; return other values unchanged."""
    return np.asarray(number) if isinstance(number, jax.Array) else number


def _find_group_key(op: qml.operation.Operator, number: int) -> Any:
    """Return a key that operations share if they only differ in parameters and wires.

    Args:
        number: the operation's index; it is the key if the operation's structure is not hashable,
            so that the operation is computed alone.
    """
    tree = jax.tree.structure(map_to_first_axes(op))
    try:
        hash(tree)
    except TypeError:
        return number
    return tree
