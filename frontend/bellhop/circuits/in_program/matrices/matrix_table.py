"""Matrices of one size, some of which are known and some of which the program computes."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

# A matrix that is known, or the row of one in the table of those that the program computes.
Entry = np.ndarray | int


@dataclass
class MatrixTable:
    """Matrices of one size, in blocks."""

    dtype: np.dtype
    blocks: list[Any] = field(default_factory=list)
    _size: int = 0
    _rows: dict[bytes, int] = field(default_factory=dict)

    def append(self, block: Any) -> int:
        """Append a block of matrices; return the row of the first."""
        self.blocks.append(block.astype(self.dtype))
        self._size += len(block)
        return self._size - len(block)

    def row(self, entry: Entry) -> int:
        """Return the row of a matrix, which may be known."""
        if not isinstance(entry, np.ndarray):
            return entry
        key = entry.tobytes()
        if key not in self._rows:
            self._rows[key] = self.append(entry[None])
        return self._rows[key]

    def array(self) -> Any:
        """Return all matrices, one after the other."""
        return jnp.concatenate(self.blocks)
