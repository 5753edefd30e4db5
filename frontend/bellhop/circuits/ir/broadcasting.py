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
    """The batch axis of a circuit with broadcast gate parameters.

    It is created before a circuit is traced, and each batched operation that is traced registers
    its batch size. So ``size`` is final when the circuit has been traced.

    Attributes:
        where: the QNode's name and line, for error messages.
        size: the batch size; None as long as no operation is batched.
    """

    # The type of the row index.
    STRUCT = jax.ShapeDtypeStruct((), jnp.int32)

    def __init__(self, where: str) -> None:
        self.where = where
        self.size: int | None = None
        self._first = ""

    def get_row(self, row: Operand) -> "TracedRow":
        """Make the ``TracedRow`` for a row index, a traced int32 scalar."""
        return TracedRow(self, row)

    def register_batch(self, size: int, name: str) -> None:
        """Store the batch size of an operation, and check that all batch sizes are equal.

        ``name``, the operation's name, appears in the error message.

        Raises:
            CompileError: if an operation with another batch size was registered before.
        """
        if self.size not in (None, size):
            raise CompileError(
                f"{self.where}: {name} has a batch of {size} parameters, expected {self.size}, the "
                f"batch size of {self._first}. Pass batches of the same size to all operations of "
                "a circuit."
            )
        if self.size is None:
            self.size, self._first = size, name

    def map_rows(self, function: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Any:
        """Map a function over all batch rows, or call it once if no operation is batched.

        Called after the circuit was traced, as ``size`` must be final.

        Args:
            function: ``row_index -> results`` for an int32 scalar; it is mapped by ``jax.vmap``.
            finish: postprocesses batched results, which have a leading batch axis.

        Returns:
            ``finish(results)`` with a batch; without a batch, the results of row 0 as they are.
        """
        if self.size is None:
            return function(jnp.int32(0))
        return finish(jax.vmap(function)(jnp.arange(self.size, dtype=jnp.int32)))


class TracedRow:
    """One batch row of a circuit, selected by a traced index.

    Gates read their parameters of this row while the circuit is traced; ``jax.vmap`` then maps the
    traced circuit over all values of ``index``.

    Attributes:
        rows: the batch axis of the circuit, where gates register their batch size.
        index: the row index, a traced int32 scalar.
    """

    def __init__(self, rows: Rows, row: Operand) -> None:
        self.rows = rows
        self.index = row
