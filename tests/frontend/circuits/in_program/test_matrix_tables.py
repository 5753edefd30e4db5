"""Matrices that are taken from tables and multiplied, against NumPy's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellhop.circuits.backends.arrays.matrices.gate_fusion import FusedBlock, multiply_blocks
from bellhop.circuits.backends.arrays.matrices.matrix_table import MatrixTable
from bellhop.jaxprs.equations import iterate_equations

RANDOM = np.random.default_rng(5)
BLOCKS = [RANDOM.normal(size=(n, 3, 3)) for n in (6, 3, 4)]
ROWS = np.concatenate(BLOCKS)
KNOWN = list(RANDOM.normal(size=(2, 3, 3)))

ENTRIES = {
    "a block": [6, 7, 8],
    "every second": [0, 2, 4],
    "the same": [1, 1, 1],
    "backwards": [5, 4, 3],
    "of two blocks": [4, 5, 6, 7],
    "known": KNOWN,
    "known between": [2, *KNOWN, 3],
    "of a block in any order": [5, 0, 3, 1, 4, 2, 0, 5, 1, 3, 5],
    "in any order": [12, 0, KNOWN[1], 7, 3, KNOWN[0], 9, 1, KNOWN[1], 2, 11],
}


def table(blocks):
    made = MatrixTable(np.dtype(float))
    for block in blocks:
        made.append(block)
    return made


def value(entry):
    return entry if isinstance(entry, np.ndarray) else ROWS[entry]


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
def test_matrices_are_taken(entries):
    taken = jax.jit(lambda *blocks: table(blocks).gather(entries))(*map(jnp.asarray, BLOCKS))
    np.testing.assert_array_equal(taken, np.stack(list(map(value, entries))))


def test_products_of_any_lengths():
    factors = [[0], [KNOWN[0]], [7, 3, KNOWN[1], 12, 5], [1, 2], [8, KNOWN[0], 9], [4] * 8]

    def of_all(*blocks):
        made = table(blocks)
        return made.gather(made.multiply_entries(factors))

    found = jax.jit(of_all)(*map(jnp.asarray, BLOCKS))
    for matrix, product in zip(found, factors, strict=True):
        expected = functools.reduce(np.matmul, map(value, reversed(product)))
        np.testing.assert_allclose(matrix, expected, rtol=1e-12)


def test_a_matrix_on_all_qubits_of_its_block_is_no_product():
    blocks = [FusedBlock(False, [0, 1], [((0, 1), 0)]), FusedBlock(False, [1, 2], [((1, 2), 1)])]
    of_blocks = lambda given: multiply_blocks(blocks, 2, np.dtype(float), lambda *_: given)
    given = jnp.asarray(RANDOM.normal(size=(2, 4, 4)))
    traced = jax.make_jaxpr(of_blocks)(given)
    assert not [
        eqn for eqn in iterate_equations(traced.jaxpr) if eqn.primitive.name == "dot_general"
    ]
    np.testing.assert_array_equal(of_blocks(given), given)
