"""Parameter broadcasting: a circuit whose gates have batches of parameters runs once for each row.

Batches must not enter a circuit, and PennyLane broadcasts differently from one device to the
other.  So the number of the row is an input of the circuit, gates take their parameters of that
row, and the circuit is mapped over the rows with ``jax.vmap``.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.errors import CompileError

# What a row is while a circuit is traced.
ROW_STRUCT = jax.ShapeDtypeStruct((), jnp.int32)


class Rows:
    """The rows of the batches of a circuit.

    Args:
        where: the QNode, for errors.

    Attributes:
        size: how many rows there are; None where nothing has a batch.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.size: int | None = None
        self._first = ""

    def get_row(self, row: Operand) -> "TracedRow":
        """Return the row with a number, an integer of the program."""
        return TracedRow(self, row)

    def register_batch(self, size: int, name: str) -> None:
        """Take note of the batch of an operation."""
        if self.size not in (None, size):
            raise CompileError(
                f"{self.where}: {name} has a batch of {size} parameters, and {self._first} "
                f"one of {self.size}. All batches in a circuit must have the same size."
            )
        if self.size is None:
            self.size, self._first = size, name

    def map_rows(self, function: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Any:
        """Call a function of the row for each row, or once where nothing has a batch.

        Args:
            function: returns the results of a row.
            finish: makes the results of all rows of these, which have the axis of rows.
        """
        if self.size is None:
            return function(jnp.int32(0))
        return finish(jax.vmap(function)(jnp.arange(self.size, dtype=jnp.int32)))


class TracedRow:
    """The row of the batches of a circuit that is run.

    Args:
        rows: all of them.
        row: the number of the row, an integer of the program.
    """

    def __init__(self, rows: Rows, row: Operand) -> None:
        self._rows = rows
        self._row = row
        self._where = rows.where

    def select_row(self, op: qml.operation.Operator) -> Any:
        """Return an operation with the parameters of the row.

        An operation made of others stays as it is: its parts are asked for when it is decomposed.

        Raises:
            CompileError: for a batch of another size than that of an earlier operation, and for
                parameters of the wrong number of dimensions.
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
                f"{self._where}: {op.name} has a batch of no parameters. Give it one at least."
            )
        self._rows.register_batch(size, op.name)
        if has_nested_parameters(op):
            return op
        params = [
            jnp.asarray(value)[self._row] if jnp.ndim(value) > ndim else value
            for value, ndim in zip(op.data, op.ndim_params, strict=True)
        ]
        with qml.QueuingManager.stop_recording():
            chosen = qml.ops.functions.bind_new_parameters(op, params)
        _reset_batch_size(chosen)
        return chosen


def has_nested_parameters(op: qml.operation.Operator) -> bool:
    """Tell whether PennyLane keeps the parameters of an operation in other operations only."""
    while isinstance(op, qml.ops.SymbolicOp) and not isinstance(op, qml.ops.Exp | qml.ops.SProd):
        op = op.base
    return not hasattr(op, "ndim_params")


def _reset_batch_size(op: qml.operation.Operator) -> None:
    """Let an operation that was copied with other parameters know that they are no batch."""
    while isinstance(op, qml.ops.SymbolicOp):
        op = op.base
    op._check_batching()
