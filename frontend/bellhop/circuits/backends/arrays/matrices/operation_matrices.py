"""The matrices of operations: those that differ by parameters alone are made together."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.matrices.matrix_table import Entry, MatrixTable
from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import is_dynamic

# A constant matrix is unitary up to that.
_TOLERANCE = 1e-13


@dataclass
class OperationMatrices:
    """The matrices that are made for a run of operations.

    Args:
        compute_matrix: returns the matrix of an operation; NumPy's where all of it is known.
        dtype: that of the numbers in the matrices.
        vectorize: takes what makes a matrix of parameters; returns what makes several, of arrays
            that have a row for each.
    """

    compute_matrix: Callable[[Any], Any]
    dtype: np.dtype
    vectorize: Callable[[Callable[..., Any]], Callable[..., Any]] = jax.vmap
    _tables: dict[int, MatrixTable] = field(default_factory=dict)

    def get_table(self, n_rows: int) -> MatrixTable:
        """Return the table of the matrices of some size that the program computes."""
        return self._tables.setdefault(n_rows, MatrixTable(self.dtype))

    def compute(self, operations: Sequence[tuple[Any, tuple[int, ...]]]) -> list[Entry]:
        """Make the matrices of operations; return them, or their rows in the tables."""
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
                made = self.compute_matrix(first)[None]
            else:
                columns = zip(*map(get_parameters, (first, *others)), strict=True)
                of = lambda *parameters, op=first: self.compute_matrix(
                    replace_parameters(op, parameters)
                )
                made = self.vectorize(of)(*map(_stack_parameters, columns))
            place = self.get_table(made.shape[-1]).append(made)
            entries |= {number: place + row for row, number in enumerate(numbers)}
        return [entries[number] for number in range(len(operations))]


def is_unitary_matrix(matrix: np.ndarray) -> bool:
    """Tell whether a constant matrix is unitary."""
    return np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), rtol=0, atol=_TOLERANCE)


def _stack_parameters(values: Sequence[Any]) -> Any:
    """Return parameters one after the other; of numbers, what ``vectorize_jaxpr`` makes one
    array."""
    dtype = jnp.result_type(*values)
    arrays = [jnp.asarray(value, dtype) for value in values]
    return stack_scalars(arrays) if arrays[0].ndim == 0 else jnp.stack(arrays)


def _to_numpy(number: Operand) -> Any:
    return np.asarray(number) if isinstance(number, jax.Array) else number


def _find_group_key(op: qml.operation.Operator, number: int) -> Any:
    """Return what operations have in common that differ by parameters and wires alone.

    Args:
        op: the operation.
        number: one of its own, for operations that do not say what they are made of.
    """
    with qml.QueuingManager.stop_recording():
        on_first = op.map_wires({wire: place for place, wire in enumerate(op.wires)})
    tree = jax.tree.structure(on_first)
    try:
        hash(tree)
    except TypeError:
        return number
    return tree
