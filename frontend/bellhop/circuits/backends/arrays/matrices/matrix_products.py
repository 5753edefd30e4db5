"""The product of a matrix on some qubits with a state, as a primitive.

Beside the matrix a state is rows, those of these qubits, and columns::

    qubits 1 2 of 4    (parts, 2, 4, 2)  ->  (parts * 4, 2 * 2)  ->  matrix @

On a CPU that is one pass over the state, in its own memory.  A loop takes so many columns as fit
into a processor's cache, multiplies them and writes them back, so the qubits keep their places.  An
accelerator takes more at once, up to all, for each step of a loop starts several kernels.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.base.types import Aval, Operand
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.mesh.manual_axes import vary_like, vary_types_like

# Of the host and of every accelerator: TPUs and GPUs have faster products of fewer bits.
_PRECISION = jax.lax.Precision.HIGHEST

# How many numbers are taken at once: 64 KiB in double precision, and 16 MiB, which a GPU caches.
_AT_ONCE_ON_CPU = 1 << 13
_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class RowsOfMatrix:
    """Which qubits of a state are the rows beside a matrix.

    Attributes:
        base: how many entries a qubit has.
        n_qubits: those of the state.
        places: those of the matrix, in order.
    """

    base: int
    n_qubits: int
    places: tuple[int, ...]

    def product(self, matrix: Operand, state: Operand) -> Any:
        """Return the state after a matrix.

        Args:
            matrix: of the parts and the rows of the state.
            state: of parts and entries.
        """
        return _product_p.bind(*vary_like((matrix, state), (matrix, state)), rows=self)

    def mapped(self, function: Callable[[Any], Any], state: Operand, at_once: int) -> Any:
        """Return a state after a linear function of its rows, some columns of them at a time.

        Args:
            function: takes and returns an array of rows and columns.
            state: of parts and entries.
            at_once: how many numbers it is given at most, if that is more than one column.
        """
        tiles = _Tiles(self, state.shape, at_once)

        def step(number: Operand, state: Any) -> Any:
            return tiles.updated(state, number, function(tiles.rows(state, number)))

        return tiles.each(step, state.reshape(tiles.shape)).reshape(state.shape)

    def contraction(self, one: Operand, other: Operand) -> Any:
        """Return the matrix of the inner products of the rows of two states."""
        return _contraction_p.bind(*vary_like((one, other), (one, other)), rows=self)

    def backwards(self, inverse: Operand, state: Operand, cotangent: Operand) -> Sequence[Any]:
        """Return state and cotangent before an orthogonal matrix, and the cotangent of that.

        Args:
            inverse: the transposed matrix.
            state: behind the matrix.
            cotangent: the same.
        """
        operands = inverse, state, cotangent
        return _backwards_p.bind(*vary_like(operands, operands), rows=self)


class _Tiles:
    """A state in tiles of columns, as an array with an axis for each run of qubits.

    Args:
        rows: the qubits that are none.
        shape: that of the state, behind axes of batches.
        at_once: how many numbers a tile has at most, if it has more than one column.

    Attributes:
        count: how many tiles there are.
        shape: that of this array.
    """

    def __init__(self, rows: RowsOfMatrix, shape: tuple[int, ...], at_once: int) -> None:
        columns = [place for place in range(rows.n_qubits) if place not in rows.places]
        n_looped = 0
        while n_looped < len(columns) and math.prod(shape[-2:]) > at_once * rows.base**n_looped:
            n_looped += 1
        self.count = rows.base**n_looped
        looped = columns[:n_looped]
        kinds = [
            "row" if place in rows.places else "loop" if place in looped else "column"
            for place in range(rows.n_qubits)
        ]
        runs = [(kind, rows.base ** len(list(same))) for kind, same in itertools.groupby(kinds)]
        batch = shape[:-1]
        self._is_looped = [kind == "loop" for kind, _ in runs]
        self._sizes = [size for _, size in runs]
        self.shape = *batch, *self._sizes
        self._one = *batch, *(1 if kind == "loop" else size for kind, size in runs)
        kept = [run for run in runs if run[0] != "loop"]
        self._tile = *batch, *(size for _, size in kept)
        in_front = sorted(range(len(kept)), key=lambda axis: kept[axis][0] != "row")
        self._there = [*range(len(batch)), *(len(batch) + axis for axis in in_front)]
        self._back = [self._there.index(axis) for axis in range(len(self._there))]
        in_columns = rows.base ** (len(columns) - n_looped)
        self._rows = *shape[:-2], shape[-2] * rows.base ** len(rows.places), in_columns

    def rows(self, state: Operand, number: Operand) -> Any:
        """Return a tile of a state, as rows."""
        if self.count > 1:
            state = jax.lax.dynamic_slice(state, self._start(number), self._one)
        return state.reshape(self._tile).transpose(self._there).reshape(self._rows)

    def updated(self, state: Operand, number: Operand, rows: Operand) -> Any:
        """Return a state with other rows in a tile."""
        by_row = rows.reshape([self._tile[axis] for axis in self._there])
        tile = by_row.transpose(self._back).reshape(self._one if self.count > 1 else self.shape)
        if self.count == 1:
            return tile
        return jax.lax.dynamic_update_slice(state, tile, self._start(number))

    def _start(self, number: Operand) -> list[Any]:
        """Return where a tile begins, on each axis."""
        start: list[Any] = []
        for is_looped, size in zip(reversed(self._is_looped), reversed(self._sizes), strict=True):
            start.append(number % size if is_looped else 0)
            number = number // size if is_looped else number
        return [*[0] * (len(self.shape) - len(start)), *reversed(start)]

    def each(self, step: Callable[[Any, Any], Any], carried: Any) -> Any:
        """Run a step for each tile."""
        if self.count == 1:
            return step(0, carried)
        return jax.lax.fori_loop(0, self.count, step, carried)


def _matmul(one: Operand, other: Operand) -> Any:
    return jnp.matmul(one, other, precision=_PRECISION)


def _product(matrix: Operand, state: Operand, *, rows: RowsOfMatrix, at_once: int) -> Any:
    return rows.mapped(lambda rows: _matmul(matrix, rows), state, at_once)


def _contraction(one: Operand, other: Operand, *, rows: RowsOfMatrix, at_once: int) -> Any:
    tiles = _Tiles(rows, one.shape, at_once)
    first, second = one.reshape(tiles.shape), other.reshape(tiles.shape)

    def step(number: Operand, total: Any) -> Any:
        return total + _matmul(tiles.rows(first, number), tiles.rows(second, number).mT)

    aval = _aval_of_matrix(one, rows)
    return tiles.each(step, vary_like((one, other), jnp.zeros(aval.shape, aval.dtype)))


def _backwards(
    inverse: Operand, state: Operand, cotangent: Operand, *, rows: RowsOfMatrix, at_once: int
) -> list[Any]:
    tiles = _Tiles(rows, state.shape, at_once)

    def step(number: Operand, carried: Any) -> Any:
        state, cotangent, total = carried
        before, after = _matmul(inverse, tiles.rows(state, number)), tiles.rows(cotangent, number)
        total += _matmul(after, before.mT)
        moved = _matmul(inverse, after)
        if tiles.count == 1:
            # One matrix after the other, or states would be held until they are asked for; of rows,
            # since to put them back is then one transposition with that to the next rows.
            before, moved, total = jax.lax.optimization_barrier((before, moved, total))
        return (
            tiles.updated(state, number, before),
            tiles.updated(cotangent, number, moved),
            total,
        )

    zero = vary_like(state, jnp.zeros_like(inverse))
    carried = state.reshape(tiles.shape), cotangent.reshape(tiles.shape), zero
    before, moved, total = tiles.each(step, carried)
    return [before.reshape(state.shape), moved.reshape(state.shape), total]


def _aval_of_matrix(state: Any, rows: RowsOfMatrix) -> ShapedArray:
    size = state.shape[-2] * rows.base ** len(rows.places)
    return ShapedArray((*state.shape[:-2], size, size), state.dtype)


def _plain(aval: Aval) -> ShapedArray:
    return ShapedArray(aval.shape, aval.dtype)


def _batch(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[int | None], *, rows: RowsOfMatrix
) -> tuple[Any, Any]:
    """Bind a primitive to operands that all have one axis more in front."""
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    all_batched = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(operands, dims, strict=True)
    ]
    results = primitive.bind(*all_batched, rows=rows)
    return results, [0] * len(results) if primitive.multiple_results else 0


def _register(primitive: Primitive, function: Callable[..., Any]) -> None:
    several = primitive.multiple_results
    primitive.def_impl(partial(function, at_once=_AT_ONCE_ON_CPU))
    batching.primitive_batchers[primitive] = partial(_batch, primitive)
    for platform, at_once in (("cpu", _AT_ONCE_ON_CPU), (None, _AT_ONCE)):
        lowering = mlir.lower_fun(partial(function, at_once=at_once), multiple_results=several)
        mlir.register_lowering(primitive, lowering, platform=platform)


# A matrix, and a state.
_product_p = Primitive("matrix_product")
_product_p.def_abstract_eval(
    lambda matrix, state, *, rows: vary_types_like([matrix, state], [_plain(state)])[0]
)
_register(_product_p, _product)
ad.defbilinear(
    _product_p,
    lambda cotangent, _, state, *, rows: rows.contraction(cotangent, state),
    lambda cotangent, matrix, _, *, rows: rows.product(matrix.mT, cotangent),
)

# Two states.
_contraction_p = Primitive("matrix_contraction")
_contraction_p.def_abstract_eval(
    lambda one, other, *, rows: vary_types_like([one, other], [_aval_of_matrix(one, rows)])[0]
)
_register(_contraction_p, _contraction)
ad.defbilinear(
    _contraction_p,
    lambda cotangent, _, other, *, rows: rows.product(cotangent, other),
    lambda cotangent, one, _, *, rows: rows.product(cotangent.mT, one),
)

# An inverse matrix, a state and its cotangent.
_backwards_p = Primitive("matrix_backwards")
_backwards_p.multiple_results = True
_backwards_p.def_abstract_eval(
    lambda *avals, rows: vary_types_like(
        avals, [_plain(avals[1]), _plain(avals[2]), _plain(avals[0])]
    )
)
_register(_backwards_p, _backwards)


def _derivative_of_backwards(
    primals: Sequence[Any], tangents: Sequence[Any], *, rows: RowsOfMatrix
) -> tuple[Any, Any]:
    places = [n for n, tangent in enumerate(tangents) if is_perturbed(tangent)]

    def in_products(*perturbed: Any) -> list[Any]:
        operands = list(primals)
        for place, operand in zip(places, perturbed, strict=True):
            operands[place] = operand
        inverse, state, cotangent = operands
        before = rows.product(inverse, state)
        return [before, rows.product(inverse, cotangent), rows.contraction(cotangent, before)]

    return jax.jvp(in_products, [primals[n] for n in places], [tangents[n] for n in places])


ad.primitive_jvps[_backwards_p] = _derivative_of_backwards
