"""Products of matrices with states of many tiles, against the same with an axis for each qubit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellhop.circuits.backends.arrays.matrices.complex_matmul import _matmul_as_real, matmul
from bellhop.circuits.backends.arrays.matrices.matrix_products import MatrixRows

N_QUBITS = 14
PLACES = [(0, 1, 2, 3), (0, 5, 9, 13), (10, 11, 12, 13)]


def in_front(rows, state):
    by_qubit = state.reshape(2, *[2] * N_QUBITS)
    there = jnp.moveaxis(
        by_qubit, [1 + p for p in rows.positions], range(1, 1 + len(rows.positions))
    )
    return there.reshape(2 ** (1 + len(rows.positions)), -1)


def plain_product(rows, matrix, state):
    k = len(rows.positions)
    after = (matrix @ in_front(rows, state)).reshape(2, *[2] * N_QUBITS)
    return jnp.moveaxis(after, range(1, 1 + k), [1 + p for p in rows.positions]).reshape(2, -1)


def plain_backwards(rows, inverse, state, cotangent):
    before = plain_product(rows, inverse, state)
    contraction = in_front(rows, cotangent) @ in_front(rows, before).T
    return before, plain_product(rows, inverse, cotangent), contraction


def operands(rows):
    rng = np.random.default_rng(3)
    size = 2 ** (1 + len(rows.positions))
    states = (rng.normal(size=(2, 2**N_QUBITS)) for _ in range(2))
    return jnp.asarray(rng.normal(size=(size, size))), *map(jnp.asarray, states)


def assert_equal(one, other):
    # Elements are sums of 1,024 products of some hundreds: their rounding is near 1e-10.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9),
        list(one),
        list(other),
    )


@pytest.mark.parametrize("places", PLACES)
def test_products_are_those_of_the_matrix(places):
    rows = MatrixRows(2, N_QUBITS, places)
    matrix, state, cotangent = operands(rows)
    found = jax.jit(rows.step_backwards)(matrix, state, cotangent)
    assert_equal(found, plain_backwards(rows, matrix, state, cotangent))
    assert_equal([jax.jit(rows.multiply)(matrix, state)], [found[0]])


def test_batches_are_rows_of_it():
    rows = MatrixRows(2, N_QUBITS, PLACES[1])
    matrix, state, cotangent = operands(rows)
    several = jnp.stack([matrix, 2 * matrix])
    found = jax.jit(jax.vmap(rows.step_backwards, (0, None, None)))(several, state, cotangent)
    each = [plain_backwards(rows, each, state, cotangent) for each in several]
    assert_equal(found, map(jnp.stack, zip(*each, strict=True)))


@pytest.mark.parametrize("circuits", [(), (0, 2)])
def test_batches_may_have_no_elements(circuits):
    rows = MatrixRows(2, N_QUBITS, PLACES[1])
    batch = [jnp.zeros((*circuits, 0, *each.shape)) for each in operands(rows)]
    backwards = rows.step_backwards
    for _ in [*circuits, 0]:
        backwards = jax.vmap(backwards)
    before, moved, total = jax.jit(backwards)(*batch)
    assert [before.shape, moved.shape, total.shape] == [a.shape for a in (*batch[1:], batch[0])]


@pytest.mark.parametrize("name", ["step_backwards", "multiply"])
def test_derivatives(name):
    rows = MatrixRows(2, N_QUBITS, PLACES[1])
    given = operands(rows) if name == "step_backwards" else operands(rows)[:2]
    plain = {"step_backwards": plain_backwards, "multiply": plain_product}[name]

    def slopes(function):
        total = lambda *given: sum(jnp.sum(jnp.sin(x)) for x in function(*given))
        return jax.jit(jax.grad(total, tuple(range(len(given)))))(*given)

    assert_equal(slopes(getattr(rows, name)), slopes(lambda *given: plain(rows, *given)))


COMPLEX = {"real": (), "one": (0,), "other": (1,), "both": (0, 1)}


@pytest.mark.parametrize("which", COMPLEX.values(), ids=COMPLEX)
def test_products_of_small_matrices_for_a_tpu(which):
    """It has no complex numbers, and one product of real ones in the place of four."""
    random = np.random.default_rng(0)
    pair = [random.normal(size=shape) for shape in ((3, 4, 2), (3, 2, 5))]
    for number in which:
        pair[number] = pair[number] + 1j * random.normal(size=pair[number].shape)
    for function in (matmul, _matmul_as_real):
        np.testing.assert_allclose(function(*pair), np.matmul(*pair), atol=1e-12)
    lowered = jax.jit(matmul).trace(*pair).lower(lowering_platforms=("tpu",)).as_text()
    [product] = [line for line in lowered.splitlines() if "dot_general" in line]
    assert "complex" not in product
