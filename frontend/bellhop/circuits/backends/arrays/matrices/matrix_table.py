"""Store matrices of one size, some static and some traced."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.matrices.complex_matmul import matmul

# A static matrix, or the index of a traced matrix in the table.
Entry = np.ndarray | int

# Matrices in more slices are gathered by index.
_MAX_SLICES = 8


@dataclass
class MatrixTable:
    """A growing table of traced matrices of one size, which are referred to by index.

    It lives while one sequence of operations is traced. Matrices are appended in blocks, arrays
    ``[matrices, rows, columns]``, and are numbered across all blocks. An `Entry` is such a number,
    or a static matrix (NumPy array), which is not stored.

    Args:
        dtype: dtype of the matrices.
    """

    dtype: np.dtype
    _blocks: list[Any] = field(default_factory=list)
    # For each matrix: its block, and its index in the block.
    _positions: list[tuple[int, int]] = field(default_factory=list)

    def append(self, block: Any) -> int:
        """Append matrices ``[matrices, rows, columns]``; return the index of the first."""
        first = len(self._positions)
        self._positions += [(len(self._blocks), place) for place in range(len(block))]
        self._blocks.append(block.astype(self.dtype))
        return first

    def multiply_entries(self, products: Sequence[Sequence[Entry]]) -> list[Entry]:
        """Multiply the matrices of each product; append the products to the table.

        For instance ``[[0, 1, 2], [A]]`` gives the product ``M2 @ M1 @ M0`` as an index, and ``A``.
        Neighbouring factors of all products are multiplied together, in few batched products.

        Args:
            products: for each product its factors in order of application: indices in the table and
                static matrices; at least one.

        Returns:
            for each product an index in the table; the static matrix if that is the only factor.
        """
        rest = list(map(list, products))
        while any(len(factors) > 1 for factors in rest):
            first = [entry for factors in rest for entry in factors[:-1:2]]
            second = [entry for factors in rest for entry in factors[1::2]]
            row = self.append(matmul(self.gather(second), self.gather(first)))
            for factors in rest:
                n_pairs = len(factors) // 2
                factors[: 2 * n_pairs] = range(row, row + n_pairs)
                row += n_pairs
        return [factors[0] for factors in rest]

    def gather(self, entries: Sequence[Entry]) -> Any:
        """Stack the matrices of entries to an array ``[entries, rows, columns]``.

        Args:
            entries: indices in the table and static matrices, at least one.

        Returns:
            a NumPy array if all entries are static matrices, else a traced array.
        """
        slices = list(itertools.islice(self._iterate_slices(entries), _MAX_SLICES + 1))
        if len(slices) > _MAX_SLICES:
            return self._gather_by_index(entries)
        return slices[0] if len(slices) == 1 else jnp.concatenate(slices)

    def _iterate_slices(self, entries: Sequence[Entry]) -> Iterator[Any]:
        """Yield stacked matrices, whose concatenation has the matrices of `entries`.

        Each array is a stack of static matrices, or an evenly spaced slice of a block.
        """
        for block, group in itertools.groupby(entries, self._find_block):
            if block is None:
                yield np.stack(list(group)).astype(self.dtype)
                continue
            array, places = self._blocks[block], [self._positions[row][1] for row in group]
            while places:
                step = max(places[1] - places[0], 1) if len(places) > 1 else 1
                even = range(places[0], len(array), step)
                same = itertools.takewhile(lambda p: p[0] == p[1], zip(places, even, strict=False))
                count = sum(1 for _ in same)
                yield jax.lax.slice_in_dim(array, places[0], places[count - 1] + 1, step)
                places = places[count:]

    def _find_block(self, entry: Entry) -> int | None:
        """Return the index of the block that holds a traced matrix; None for a static one."""
        return None if isinstance(entry, np.ndarray) else self._positions[entry][0]

    def _gather_by_index(self, entries: Sequence[Entry]) -> Any:
        """Implement `gather` by indexing the concatenation of the blocks, for many slices."""
        known = {entry.tobytes(): entry for entry in entries if isinstance(entry, np.ndarray)}
        rows = [entry for entry in entries if not isinstance(entry, np.ndarray)]
        blocks = sorted({self._positions[row][0] for row in rows})
        arrays = [self._blocks[block] for block in blocks]
        if known:
            arrays.append(np.stack(list(known.values())).astype(self.dtype))
        firsts = list(itertools.accumulate(map(len, arrays), initial=0))
        number_of = dict(zip(known, itertools.count(firsts[len(blocks)])))
        first_of = dict(zip(blocks, firsts, strict=False))

        def find_row(entry: Entry) -> int:
            """Return the index of a matrix in the concatenation of all arrays."""
            if isinstance(entry, np.ndarray):
                return number_of[entry.tobytes()]
            block, place = self._positions[entry]
            return first_of[block] + place

        every = arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays)
        return every[np.array(list(map(find_row, entries)))]
