"""Parameter broadcasting: circuits with batched gate parameters.

Gates of a circuit have no batch axis, and PennyLane's broadcasting differs between devices.  So the
row index is an input of the circuit, each gate selects its parameters of that row, and ``jax.vmap``
maps the circuit over all rows.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.errors import CompileError

# The type of the row index.
ROW_STRUCT = jax.ShapeDtypeStruct((), jnp.int32)


class Rows:
    """The batch axis of a circuit, whose size is found while the circuit is traced.

    Args:
        where: the QNode, for errors.

    Attributes:
        size: the batch size; None if no operation is batched.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.size: int | None = None
        self._first = ""

    def get_row(self, row: Operand) -> "TracedRow":
        """Return the row with a traced index."""
        return TracedRow(self, row)

    def register_batch(self, size: int, name: str) -> None:
        """Store the batch size of an operation, and check that all batch sizes are equal.

        Args:
            size: the batch size.
            name: the name of the operation, for errors.
        """
        if self.size not in (None, size):
            raise CompileError(
                f"{self.where}: {name} has a batch of {size} parameters, and {self._first} "
                f"one of {self.size}. All batches in a circuit must have the same size."
            )
        if self.size is None:
            self.size, self._first = size, name

    def map_rows(self, function: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Any:
        """Map a function over all batch rows, or call it once if no operation is batched.

        Args:
            function: ``row_index -> results``.
            finish: postprocesses batched results, which have a leading batch axis.
        """
        if self.size is None:
            return function(jnp.int32(0))
        return finish(jax.vmap(function)(jnp.arange(self.size, dtype=jnp.int32)))


class TracedRow:
    """One batch row of a circuit, by a traced index.

    Args:
        rows: the batch axis of the circuit.
        row: the row index, a traced int32 scalar.
    """

    def __init__(self, rows: Rows, row: Operand) -> None:
        self._rows = rows
        self._row = row
        self._where = rows.where

    def select_row(self, op: qml.operation.Operator) -> Any:
        """Replace the batched parameters of an operation by their entries of this row.

        An operation with nested parameters is returned unchanged: the row is selected in its parts
        when it is decomposed.

        Args:
            op: the operation.

        Raises:
            CompileError: for an empty batch, for a batch size that differs from an earlier
                operation's, and for parameters with a wrong number of dimensions.
        """
        try:
            size = op.batch_size
        except ValueError as error:
            problem = str(error).removeprefix(f"{op.name}: ")
            raise CompileError(f"{self._where}: {op.name}: {problem}") from None
        if size is None:
            return op
        if size == 0:
            raise CompileError(
                f"{self._where}: {op.name} has an empty batch dimension. Pass parameters."
            )
        self._rows.register_batch(size, op.name)
        if has_nested_parameters(op):
            return op
        params = [
            jnp.asarray(value)[self._row] if jnp.ndim(value) > ndim else value
            for value, ndim in zip(op.data, op.ndim_params, strict=True)
        ]
        with qml.QueuingManager.stop_recording():
            selected = qml.ops.functions.bind_new_parameters(op, params)
        _reset_batch_size(selected)
        return selected


def has_nested_parameters(op: qml.operation.Operator) -> bool:
    """Return whether an operation's parameters are stored only in its operands.

    Sums and products of operators are examples.
    """
    while isinstance(op, qml.ops.SymbolicOp) and not isinstance(op, qml.ops.Exp | qml.ops.SProd):
        op = op.base
    return not hasattr(op, "ndim_params")


def _reset_batch_size(op: qml.operation.Operator) -> None:
    """Recompute the cached batch size of an operation whose parameters were replaced."""
    while isinstance(op, qml.ops.SymbolicOp):
        op = op.base
    op._check_batching()
