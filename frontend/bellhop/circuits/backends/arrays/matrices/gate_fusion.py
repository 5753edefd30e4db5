"""Fuse matrices on few qubits into blocks on some more qubits.

Applying a matrix takes one pass over the state, which is limited by memory bandwidth, and so takes
equally long for one qubit and for four.  So neighbouring matrices are multiplied before they are
applied to the state::

    matrices    0 1, 1 2, 2 3, 3 4, 4 5, 5 0
    blocks      0 1 2 3: (2 3)(1 2)(0 1);  3 4 5 0: (5 0)(4 5)(3 4)

The products of all blocks are computed together.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.matrices.complex_matmul import matmul
from bellhop.circuits.backends.arrays.matrices.matrix_table import Entry, MatrixTable

# Largest number of factors of a block.
_MAX_FACTORS = 16

# The factors of a block, the index of a traced one, its qubits' positions in the block, its entry.
_TracedFactor = tuple[list[Entry], int, tuple[int, ...], Any]


@dataclass
class FusedBlock:
    """Consecutive matrices that are multiplied to one matrix before it is applied to the state.

    `fuse_matrices` makes blocks, and `multiply_blocks` computes their matrices.

    Attributes:
        is_unitary: whether all factors are unitary for all values of their parameters. Unitary and
            other matrices are never in the same block.
        qubits: indices of the block's qubits, in the order of the rows of its matrix.
        factors: pairs of a matrix's qubits and the matrix, in order of application. A matrix is a
            NumPy array, or the index of a traced matrix in a `MatrixTable`.
    """

    is_unitary: bool
    qubits: list[int] = field(default_factory=list)
    factors: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)

    @property
    def is_constant(self) -> bool:
        """Whether all factors are static matrices (NumPy arrays)."""
        return all(isinstance(entry, np.ndarray) for _, entry in self.factors)


def fuse_matrices(
    steps: Sequence[tuple[tuple[int, ...], Any, bool]], max_qubits: int, n_qubits: int
) -> list[FusedBlock]:
    """Group neighbouring matrices into blocks of at most `max_qubits` qubits.

    A larger matrix becomes a separate block. Applying the blocks in order equals applying `steps`.

    Args:
        steps: the matrices in order of application, as tuples ``(qubits, entry, is_unitary)``. The
            entry is a NumPy array, or the index of a traced matrix; `is_unitary` is whether it is
            unitary for all values of its parameters.
        max_qubits: largest number of qubits of a block.
        n_qubits: number of qubits of the state.
    """
    blocks: list[FusedBlock] = []
    # For each qubit, the index of the last block that acts on it.
    last = [-1] * n_qubits
    for qubits, entry, is_unitary in steps:
        first = max(last[qubit] for qubit in qubits)
        fitting = [
            (len(set(blocks[number].qubits) | set(qubits)), number)
            for number in range(max(first, 0), len(blocks))
            if blocks[number].is_unitary == is_unitary
            and len(blocks[number].factors) < _MAX_FACTORS
        ]
        size, number = min(fitting, default=(max_qubits + 1, 0))
        if size > max_qubits:
            number = len(blocks)
            blocks.append(FusedBlock(is_unitary))
        block = blocks[number]
        block.factors.append((qubits, entry))
        for qubit in qubits:
            last[qubit] = max(last[qubit], number)
            if qubit not in block.qubits:
                block.qubits.append(qubit)
    return blocks


def multiply_blocks(
    blocks: Sequence[FusedBlock],
    base: int,
    dtype: np.dtype,
    gather_matrices: Callable[[int, Sequence[Any]], Any],
) -> Any:
    """Multiply the factors of blocks that have the same number of qubits.

    Args:
        blocks: at least one block; all have equally many qubits.
        base: number of entries per qubit: 2 for amplitudes, 4 for Pauli expectation values.
        dtype: dtype of the products.
        gather_matrices: ``gather_matrices(n_qubits, entries)`` stacks traced matrices on `n_qubits`
            qubits, given as indices, to an array ``[matrices, rows, columns]``.

    Returns:
        array ``[blocks, rows, columns]`` on the blocks' qubits; a NumPy array if all factors are
        static.
    """
    k = len(blocks[0].qubits)
    table = MatrixTable(dtype)
    factors: list[list[Entry]] = [[] for _ in blocks]
    # Traced factors by their number of qubits, and whether they act on the whole block in order.
    computed: dict[tuple[int, bool], list[_TracedFactor]] = defaultdict(list)
    known: dict[Any, np.ndarray] = {}
    for block, own in zip(blocks, factors, strict=True):
        for qubits, entry in block.factors:
            places = tuple(map(block.qubits.index, qubits))
            if not isinstance(entry, np.ndarray):
                computed[len(qubits), places == tuple(range(k))].append(
                    (own, len(own), places, entry)
                )
                own.append(entry)
                continue
            key = entry.tobytes(), places
            if key not in known:
                known[key] = _embed(entry[None], [places], base, k)[0]
            if own and isinstance(own[-1], np.ndarray):
                own[-1] = known[key] @ own[-1]
            else:
                own.append(known[key])
    for (size, is_whole), some in computed.items():
        matrices = gather_matrices(size, [entry for *_, entry in some])
        if not is_whole:
            matrices = _embed(matrices, [places for _, _, places, _ in some], base, k)
        row = table.append(matrices)
        for number, (own, place, _, _) in enumerate(some):
            own[place] = row + number
    return table.gather(table.multiply_entries(factors))


def _embed(matrices: Any, places: Sequence[tuple[int, ...]], base: int, k: int) -> Any:
    """Extend matrices to `k` qubits, by the identity on the additional qubits.

    Args:
        matrices: array ``[matrices, rows, columns]``, all on the same number of qubits.
        places: for each matrix, the positions of its qubits among the `k` qubits.
        k: number of qubits of the results.

    Returns:
        array ``[matrices, base**k, base**k]``; of NumPy if `matrices` is.
    """
    xp = np if isinstance(matrices, np.ndarray) else jnp
    weights = np.zeros((len(places), k), int)
    for row, chosen in enumerate(places):
        weights[row, list(chosen)] = base ** np.arange(len(chosen))[::-1]
    digits = np.arange(base**k)[:, None] // base ** np.arange(k)[::-1] % base
    # Indices of rows in the small matrix, and of the entries of the remaining qubits.
    here = weights @ digits.T
    there = (weights == 0) * base ** np.arange(k) @ digits.T
    units = (here[..., None] == np.arange(matrices.shape[-1])).astype(matrices.real.dtype)
    is_diagonal = there[:, :, None] == there[:, None, :]
    multiply = np.matmul if xp is np else matmul
    return xp.where(is_diagonal, multiply(multiply(units, matrices), units.swapaxes(1, 2)), 0)
