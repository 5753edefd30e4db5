"""Parameter broadcasting: circuits with batched gate parameters.

Gates of a circuit have no batch axis, and PennyLane's broadcasting differs between devices.  So the
row index is an input of the circuit, each gate selects its parameters of that row, and ``jax.vmap``
maps the circuit over all rows.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import Operand
from bellhop.errors import CompileError


class Rows:
    """The batch axis of a circuit, whose size is found while the circuit is traced.

    Args:
        where: the QNode, for errors.

    Attributes:
        size: the batch size; None if no operation is batched.
    """

    # The type of the row index.
    STRUCT = jax.ShapeDtypeStruct((), jnp.int32)

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

    Attributes:
        rows: the batch axis of the circuit.
        index: the row index, a traced int32 scalar.
    """

    def __init__(self, rows: Rows, row: Operand) -> None:
        self.rows = rows
        self.index = row
