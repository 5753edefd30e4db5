"""Matrices on few qubits, grouped into blocks that are matrices on some more.

A state is gone through once for each matrix that is applied to it, and that takes as long as moving
it through memory does, be the matrix of one qubit or of four.  So matrices that follow each other
on few qubits are multiplied before they meet the state::

    matrices    0 1, 1 2, 2 3, 3 4, 4 5, 5 0
    blocks      0 1 2 3: (2 3)(1 2)(0 1);  3 4 5 0: (5 0)(4 5)(3 4)

The products of all blocks are made together, side by side.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.matrices.complex_matmul import matmul
from bellhop.circuits.backends.arrays.matrices.matrix_table import Entry, MatrixTable

# The product of more is made by more blocks.
_MAX_FACTORS = 16

# The factors of a block, which of them is computed, on which places of the block, and what it is.
_TracedFactor = tuple[list[Entry], int, tuple[int, ...], Any]


@dataclass
class FusedBlock:
    """Matrices that are multiplied.

    Attributes:
        qubits: those of the block, in the order of the rows of its matrix.
        factors: pairs of the qubits of a matrix and what it is, the first to be applied first.
        is_unitary: whether the inverse of all is the adjoint, whatever their parameters.
    """

    is_unitary: bool
    qubits: list[int] = field(default_factory=list)
    factors: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)

    @property
    def is_constant(self) -> bool:
        """Whether all of its matrices are constants."""
        return all(isinstance(what, np.ndarray) for _, what in self.factors)


def fuse_matrices(
    steps: Sequence[tuple[tuple[int, ...], Any, bool]], max_qubits: int, n_qubits: int
) -> list[FusedBlock]:
    """Group matrices that are applied one after the other.

    Args:
        steps: qubits, the matrix, and whether it is unitary, whatever its parameters.
        max_qubits: how many qubits a block has; only a matrix of more is one of its own.
        n_qubits: those of the state.
    """
    blocks: list[FusedBlock] = []
    # The last block that each qubit is in.
    last = [-1] * n_qubits
    for qubits, what, is_unitary in steps:
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
        block.factors.append((qubits, what))
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
    """Return the products of blocks on equally many qubits, one after the other.

    Args:
        blocks: of which some may be known; NumPy's where all are.
        base: how many entries a qubit has.
        dtype: that of the numbers.
        gather_matrices: takes a number of qubits and what matrices on so many are; returns these.
    """
    k = len(blocks[0].qubits)
    table = MatrixTable(dtype)
    factors: list[list[Entry]] = [[] for _ in blocks]
    # By the number of qubits, and whether these are all of the block's: where they stand.
    computed: dict[tuple[int, bool], list[_TracedFactor]] = defaultdict(list)
    known: dict[Any, np.ndarray] = {}
    for block, own in zip(blocks, factors, strict=True):
        for qubits, what in block.factors:
            places = tuple(map(block.qubits.index, qubits))
            if not isinstance(what, np.ndarray):
                computed[len(qubits), places == tuple(range(k))].append(
                    (own, len(own), places, what)
                )
                own.append(what)
                continue
            key = what.tobytes(), places
            if key not in known:
                known[key] = _embed(what[None], [places], base, k)[0]
            if own and isinstance(own[-1], np.ndarray):
                own[-1] = known[key] @ own[-1]
            else:
                own.append(known[key])
    for (size, is_whole), some in computed.items():
        matrices = gather_matrices(size, [what for *_, what in some])
        if not is_whole:
            matrices = _embed(matrices, [places for _, _, places, _ in some], base, k)
        row = table.append(matrices)
        for number, (own, place, _, _) in enumerate(some):
            own[place] = row + number
    return table.gather(table.multiply_entries(factors))


def _embed(matrices: Any, places: Sequence[tuple[int, ...]], base: int, k: int) -> Any:
    """Return matrices on some places of ``k`` as matrices on all of these.

    Args:
        matrices: on equally many places, one after the other.
        places: those of each.
    """
    xp = np if isinstance(matrices, np.ndarray) else jnp
    weights = np.zeros((len(places), k), int)
    for row, chosen in enumerate(places):
        weights[row, list(chosen)] = base ** np.arange(len(chosen))[::-1]
    digits = np.arange(base**k)[:, None] // base ** np.arange(k)[::-1] % base
    # What the entries of the chosen places are, and those of the others.
    here = weights @ digits.T
    there = (weights == 0) * base ** np.arange(k) @ digits.T
    units = (here[..., None] == np.arange(matrices.shape[-1])).astype(matrices.real.dtype)
    is_diagonal = there[:, :, None] == there[:, None, :]
    multiply = np.matmul if xp is np else matmul
    return xp.where(is_diagonal, multiply(multiply(units, matrices), units.swapaxes(1, 2)), 0)
