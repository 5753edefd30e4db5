"""Multiply a matrix on some qubits with a state, as a JAX primitive.

The state becomes a matrix, whose rows are the components and the entries of these qubits::

    qubits 1 2 of 4    (parts, 2, 4, 2)  ->  (parts * 4, 2 * 2)  ->  matrix @

On a CPU this is one pass over the state, in its own memory: a loop reads a tile of columns that
fits into a processor's cache, multiplies it and writes it back, so the order of qubits does not
change. Accelerators process larger tiles, up to the whole state, since each iteration starts
several kernels.
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

# By default, TPUs and some GPUs multiply with fewer bits.
_PRECISION = jax.lax.Precision.HIGHEST

# Scalars of a tile: 64 KiB in double precision on a CPU, and 16 MiB, which a GPU caches, elsewhere.
_CPU_TILE_SIZE = 1 << 13
_TILE_SIZE = 1 << 21


@dataclass(frozen=True)
class MatrixRows:
    """The qubits of a state that become the rows of a matrix product.

    It views a state ``[components, base**n_qubits]`` as an array ``[rows, columns]``. The rows are
    the components and the values of the qubits at `positions`, the columns the values of the
    remaining qubits. Instances are parameters of this module's primitives.

    Attributes:
        base: number of entries per qubit: 2 for amplitudes, 4 for Pauli expectation values.
        n_qubits: number of qubits of the state.
        positions: ascending positions of the matrix's qubits among the state's qubits.
    """

    base: int
    n_qubits: int
    positions: tuple[int, ...]

    def multiply(self, matrix: Operand, state: Operand) -> Any:
        """Multiply a matrix with the rows of a state.

        Args:
            matrix: real square array of size ``components * base**len(positions)``.
            state: real array ``[components, base**n_qubits]``.

        Returns:
            array of the shape of `state`.
        """
        return _product_p.bind(*vary_like((matrix, state), (matrix, state)), rows=self)

    def map_tiles(self, function: Callable[[Any], Any], state: Operand, max_tile_size: int) -> Any:
        """Apply a linear function of the rows to a state, one tile of columns at a time.

        Args:
            function: takes and returns an array ``[rows, columns]``, for any number of columns.
            state: array ``[components, base**n_qubits]``.
            max_tile_size: largest number of scalars of a tile with more than one column.

        Returns:
            array of the shape of `state`.
        """
        tiles = _Tiles(self, state.shape, max_tile_size)

        def step(number: Operand, state: Any) -> Any:
            return tiles.update_tile(state, number, function(tiles.read_tile(state, number)))

        return tiles.loop(step, state.reshape(tiles.shape)).reshape(state.shape)

    def contract(self, one: Operand, other: Operand) -> Any:
        """Return the inner products between the rows of two states.

        Args:
            one: array ``[components, base**n_qubits]``; for the cotangent of a matrix, the
                cotangent of the state after the matrix.
            other: array of the same shape; for the cotangent of a matrix, the state before it.

        Returns:
            ``rows_of_one @ rows_of_other.T``, a square array of size ``components *
            base**len(positions)``: the cotangent of a matrix that `multiply` applied.
        """
        return _contraction_p.bind(*vary_like((one, other), (one, other)), rows=self)

    def step_backwards(self, inverse: Operand, state: Operand, cotangent: Operand) -> Sequence[Any]:
        """Run one step of the adjoint method for an orthogonal matrix.

        Args:
            inverse: the transposed matrix.
            state: the state after the matrix, array ``[components, base**n_qubits]``.
            cotangent: the cotangent of this state.

        Returns:
            the state before the matrix, the cotangent of that state, and the cotangent of the
            matrix.
        """
        operands = inverse, state, cotangent
        return _backwards_p.bind(*vary_like(operands, operands), rows=self)


class _Tiles:
    """Splits a state into tiles of columns, which a loop reads, changes and writes back.

    A tile fits into a cache. An instance has shapes only: the state is an argument of each method,
    after the caller reshaped it to have an axis for each group of neighbouring qubits.

    Args:
        rows: the qubits that become rows.
        shape: the original shape of the state, ``[*batch, components, base**n_qubits]``.
        max_tile_size: largest number of scalars of a tile with more than one column, in a state
            without batch axes.

    Attributes:
        n_tiles: number of tiles; 1 for a state that is not split.
        shape: the shape to which the caller reshapes the state.
    """

    def __init__(self, rows: MatrixRows, shape: tuple[int, ...], max_tile_size: int) -> None:
        columns = [place for place in range(rows.n_qubits) if place not in rows.positions]
        n_looped = 0
        while (
            n_looped < len(columns) and math.prod(shape[-2:]) > max_tile_size * rows.base**n_looped
        ):
            n_looped += 1
        self.n_tiles = rows.base**n_looped
        looped = columns[:n_looped]
        kinds = [
            "row" if place in rows.positions else "loop" if place in looped else "column"
            for place in range(rows.n_qubits)
        ]
        runs = [(kind, rows.base ** len(list(same))) for kind, same in itertools.groupby(kinds)]
        batch = shape[:-1]
        self._is_looped = [kind == "loop" for kind, _ in runs]
        self._sizes = [size for _, size in runs]
        self.shape = *batch, *self._sizes
        self._slice_shape = *batch, *(1 if kind == "loop" else size for kind, size in runs)
        kept = [run for run in runs if run[0] != "loop"]
        self._tile_shape = *batch, *(size for _, size in kept)
        in_front = sorted(range(len(kept)), key=lambda axis: kept[axis][0] != "row")
        self._axes_to_rows = [*range(len(batch)), *(len(batch) + axis for axis in in_front)]
        self._axes_from_rows = [
            self._axes_to_rows.index(axis) for axis in range(len(self._axes_to_rows))
        ]
        in_columns = rows.base ** (len(columns) - n_looped)
        self._rows_shape = *shape[:-2], shape[-2] * rows.base ** len(rows.positions), in_columns

    def read_tile(self, state: Operand, number: Operand) -> Any:
        """Return a tile of a state, as an array ``[*batch, rows, columns]``.

        Args:
            state: array of shape `self.shape`.
            number: index of the tile, usually traced.
        """
        if self.n_tiles > 1:
            state = jax.lax.dynamic_slice(state, self._compute_start(number), self._slice_shape)
        return (
            state.reshape(self._tile_shape).transpose(self._axes_to_rows).reshape(self._rows_shape)
        )

    def update_tile(self, state: Operand, number: Operand, rows: Operand) -> Any:
        """Return a state with one tile replaced.

        Args:
            state: array of shape `self.shape`.
            number: index of the tile, usually traced.
            rows: the new tile, array ``[*batch, rows, columns]``.
        """
        by_row = rows.reshape([self._tile_shape[axis] for axis in self._axes_to_rows])
        tile = by_row.transpose(self._axes_from_rows).reshape(
            self._slice_shape if self.n_tiles > 1 else self.shape
        )
        if self.n_tiles == 1:
            return tile
        return jax.lax.dynamic_update_slice(state, tile, self._compute_start(number))

    def _compute_start(self, number: Operand) -> list[Any]:
        """Return the index of a tile's first entry in the state, for each axis."""
        start: list[Any] = []
        for is_looped, size in zip(reversed(self._is_looped), reversed(self._sizes), strict=True):
            start.append(number % size if is_looped else 0)
            number = number // size if is_looped else number
        return [*[0] * (len(self.shape) - len(start)), *reversed(start)]

    def loop(self, step: Callable[[Any, Any], Any], carried: Any) -> Any:
        """Run ``carried = step(index, carried)`` for all tiles; return the final `carried`."""
        if self.n_tiles == 1:
            return step(0, carried)
        return jax.lax.fori_loop(0, self.n_tiles, step, carried)


def _matmul(left: Operand, right: Operand) -> Any:
    return jnp.matmul(left, right, precision=_PRECISION)


def _multiply(matrix: Operand, state: Operand, *, rows: MatrixRows, max_tile_size: int) -> Any:
    """Implement the primitive of `MatrixRows.multiply`, in a loop over tiles of columns."""
    return rows.map_tiles(lambda rows: _matmul(matrix, rows), state, max_tile_size)


def _contract(one: Operand, other: Operand, *, rows: MatrixRows, max_tile_size: int) -> Any:
    """Implement the primitive of `MatrixRows.contract`, in a loop over tiles of columns.

    Both states are read as real matrices ``[rows, columns]``: the rows are the components and the
    values of the qubits in `rows`, the columns the values of the remaining qubits. The result is
    ``rows_of_one @ rows_of_other.T``.

    Args:
        one: array ``[*batch, components, base**qubits]``.
        other: array of the same shape.
        rows: the qubits that become rows.
        max_tile_size: largest number of scalars of a tile; a tile of one column may be larger.

    Returns:
        array ``[*batch, rows, rows]``.
    """
    tiles = _Tiles(rows, one.shape, max_tile_size)
    first, second = one.reshape(tiles.shape), other.reshape(tiles.shape)

    def step(number: Operand, total: Any) -> Any:
        return total + _matmul(tiles.read_tile(first, number), tiles.read_tile(second, number).mT)

    aval = _make_matrix_aval(one, rows)
    return tiles.loop(step, vary_like((one, other), jnp.zeros(aval.shape, aval.dtype)))


def _step_backwards(
    inverse: Operand, state: Operand, cotangent: Operand, *, rows: MatrixRows, max_tile_size: int
) -> list[Any]:
    """Implement the primitive of `MatrixRows.step_backwards`, tile by tile.

    Args:
        inverse: the transposed matrix, array ``[*batch, size, size]``.
        state: the state after the matrix, array ``[*batch, components, base**qubits]``.
        cotangent: the cotangent of this state.
        rows: the qubits on which the matrix acts.
        max_tile_size: largest number of scalars of a tile; a tile of one column may be larger.

    Returns:
        the state before the matrix, the cotangent of that state, and the cotangent of the matrix.
    """
    tiles = _Tiles(rows, state.shape, max_tile_size)

    def step(number: Operand, carried: Any) -> Any:
        """Undo the matrix for the tile with index `number`, in the loop over tiles.

        `carried` has the state, its cotangent, and the cotangent of the matrix, summed over earlier
        tiles. Returns the new `carried`.
        """
        state, cotangent, total = carried
        before, after = (
            _matmul(inverse, tiles.read_tile(state, number)),
            tiles.read_tile(cotangent, number),
        )
        total += _matmul(after, before.mT)
        cotangent_before = _matmul(inverse, after)
        if tiles.n_tiles == 1:
            # Keep the order of steps, or XLA holds several states. The barrier is on rows, so that
            # XLA merges the transposition back with the transposition to the next rows.
            before, cotangent_before, total = jax.lax.optimization_barrier(
                (before, cotangent_before, total)
            )
        return (
            tiles.update_tile(state, number, before),
            tiles.update_tile(cotangent, number, cotangent_before),
            total,
        )

    zero = vary_like(state, jnp.zeros_like(inverse))
    carried = state.reshape(tiles.shape), cotangent.reshape(tiles.shape), zero
    before, cotangent_before, total = tiles.loop(step, carried)
    return [before.reshape(state.shape), cotangent_before.reshape(state.shape), total]


def _make_matrix_aval(state: Any, rows: MatrixRows) -> ShapedArray:
    """Return the type of a square matrix on the rows of `state`, with its batch axes."""
    size = state.shape[-2] * rows.base ** len(rows.positions)
    return ShapedArray((*state.shape[:-2], size, size), state.dtype)


def _to_plain_aval(aval: Aval) -> ShapedArray:
    """Return a type with the shape and dtype of `aval`, without its sharding."""
    return ShapedArray(aval.shape, aval.dtype)


def _batch(
    primitive: Primitive, operands: Sequence[Any], dims: Sequence[int | None], *, rows: MatrixRows
) -> tuple[Any, Any]:
    """Batching rule: bind a primitive with batch axes in front of all operands.

    An operand without a batch axis is broadcast. The results' batch axes are all 0.
    """
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    all_batched = [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(operands, dims, strict=True)
    ]
    results = primitive.bind(*all_batched, rows=rows)
    return results, [0] * len(results) if primitive.multiple_results else 0


def _register(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Register a primitive's implementation, batching rule and lowerings.

    Args:
        primitive: the primitive, with `multiple_results` set.
        function: ``function(*operands, rows=..., max_tile_size=...)``, which computes its results
            in JAX.
    """
    several = primitive.multiple_results
    primitive.def_impl(partial(function, max_tile_size=_CPU_TILE_SIZE))
    batching.primitive_batchers[primitive] = partial(_batch, primitive)
    for platform, max_tile_size in (("cpu", _CPU_TILE_SIZE), (None, _TILE_SIZE)):
        lowering = mlir.lower_fun(
            partial(function, max_tile_size=max_tile_size), multiple_results=several
        )
        mlir.register_lowering(primitive, lowering, platform=platform)


# Operands: a matrix, and a state.
_product_p = Primitive("matrix_product")
_product_p.def_abstract_eval(
    lambda matrix, state, *, rows: vary_types_like([matrix, state], [_to_plain_aval(state)])[0]
)
_register(_product_p, _multiply)
ad.defbilinear(
    _product_p,
    lambda cotangent, _, state, *, rows: rows.contract(cotangent, state),
    lambda cotangent, matrix, _, *, rows: rows.multiply(matrix.mT, cotangent),
)

# Operands: two states.
_contraction_p = Primitive("matrix_contraction")
_contraction_p.def_abstract_eval(
    lambda one, other, *, rows: vary_types_like([one, other], [_make_matrix_aval(one, rows)])[0]
)
_register(_contraction_p, _contract)
ad.defbilinear(
    _contraction_p,
    lambda cotangent, _, other, *, rows: rows.multiply(cotangent, other),
    lambda cotangent, one, _, *, rows: rows.multiply(cotangent.mT, one),
)

# Operands: an inverse matrix, a state and its cotangent.
_backwards_p = Primitive("matrix_backwards")
_backwards_p.multiple_results = True
_backwards_p.def_abstract_eval(
    lambda *avals, rows: vary_types_like(
        avals, [_to_plain_aval(avals[1]), _to_plain_aval(avals[2]), _to_plain_aval(avals[0])]
    )
)
_register(_backwards_p, _step_backwards)


def _backwards_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, rows: MatrixRows
) -> tuple[Any, Any]:
    """JVP rule of `MatrixRows.step_backwards`, for derivatives of derivatives.

    Args:
        primals: the transposed matrix, the state after the matrix, and this state's cotangent.
        tangents: a tangent or symbolic zero for each primal.
        rows: the qubits on which the matrix acts.

    Returns:
        the three results of `step_backwards`, and their tangents.
    """
    places = [n for n, tangent in enumerate(tangents) if is_perturbed(tangent)]

    def compute_products(*perturbed: Any) -> list[Any]:
        """Return the results of `step_backwards`, by primitives that have JVPs.

        Args:
            *perturbed: values of the operands that have a tangent, in order.
        """
        operands = list(primals)
        for place, operand in zip(places, perturbed, strict=True):
            operands[place] = operand
        inverse, state, cotangent = operands
        before = rows.multiply(inverse, state)
        return [before, rows.multiply(inverse, cotangent), rows.contract(cotangent, before)]

    return jax.jvp(compute_products, [primals[n] for n in places], [tangents[n] for n in places])


ad.primitive_jvps[_backwards_p] = _backwards_jvp
