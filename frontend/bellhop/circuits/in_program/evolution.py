"""A state after a sequence of matrices, and the adjoint method for their derivatives.

A state is an array of two axes: ``(parts, base**n)``, where amplitudes have a real and an imaginary
part and means of Pauli words have one.  A matrix of ``k`` qubits is real, on the parts and the
entries of these qubits together, and multiplies the state as a matrix of two axes, of which the
last is long, whatever the number of qubits::

    (2, a, 4, b, 2, c)  ->  (2 * 4 * 2, a * b * c)  ->  matrix @

The qubits stay in the order that this leaves them in until another matrix needs others in front;
the axes that stay side by side are moved as one.

Orthogonal matrices are differentiated by the adjoint method (Jones and Gacon, arXiv:2009.02823):
backwards, the state before a matrix is the transposed matrix by the state behind it, so two states
are held, whatever the number of matrices::

    primal      state = M state                         for each, forwards
    tangent     tangent = M tangent + M_dot state       the same
    transposed  M_bar = cotangent state_before^T        for each, backwards
                cotangent = M^T cotangent
                state = M^T state
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.callbacks.linear_map import LinearMap

# Of the host and of every accelerator: TPUs and GPUs have faster products of fewer bits.
_PRECISION = jax.lax.Precision.HIGHEST


@dataclass(frozen=True)
class PlacedMatrix:
    """Where a matrix acts, and which one it is.

    Attributes:
        qubits: those of the matrix, in the order of its rows.
        before: the order of the state's qubits before it.
        table: the number of the table that the matrix is in.
        row: its row there.
        is_known: whether the matrix is a constant.
    """

    qubits: tuple[int, ...]
    before: tuple[int, ...]
    table: int
    row: int
    is_known: bool

    @property
    def after(self) -> tuple[int, ...]:
        """The order of the state's qubits behind it."""
        return (*self.qubits, *(qubit for qubit in self.before if qubit not in self.qubits))


@dataclass(frozen=True)
class Evolution:
    """A sequence of matrices.

    Attributes:
        base: how many entries a qubit has.
        places: where they act, one after the other.
        end: the order of the qubits at the end.
    """

    base: int
    places: tuple[PlacedMatrix, ...]
    end: tuple[int, ...]

    def applied(self, state: Any, tables: Sequence[Any]) -> Any:
        """Return a state after all matrices, differentiated as JAX does, state by state.

        Args:
            state: of parts and entries.
            tables: arrays of matrices.
        """
        matrices = _matrices(tables)
        for place in self.places:
            rows = self._in_front(state, place)
            state = self._product(matrices[place.table][place.row], rows).reshape(state.shape)
        return self._at_end(state)

    def applied_by_adjoint(self, state: Any, tables: Sequence[Any]) -> Any:
        """Return a state after matrices that are orthogonal, differentiated by the adjoint method.

        Args:
            state: of parts and entries.
            tables: arrays of matrices.
        """
        run = jax.custom_jvp(lambda state, *tables: self.applied(state, tables))

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            state, *tables = primals
            after = run(*primals)
            aval = ShapedArray(state.shape, state.dtype)
            saved = [state, after, *tables]
            linear = LinearMap(self._pullback, self._pushforward, len(saved), (aval,))
            return after, linear(saved, list(tangents))[0]

        run.defjvp(rule)
        return run(state, *tables)

    def _pushforward(self, saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangent of the state at the end."""
        state, _, *tables = saved
        tangent, *table_tangents = tangents
        matrices, matrix_tangents = _matrices(tables), _matrices(table_tangents)
        for place in self.places:
            shape = state.shape
            matrix = matrices[place.table][place.row]
            rows, moving = self._in_front(state, place), self._in_front(tangent, place)
            moving = self._product(matrix, moving)
            if not place.is_known:
                moving += self._product(matrix_tangents[place.table][place.row], rows)
            state, tangent = self._product(matrix, rows).reshape(shape), moving.reshape(shape)
        return [self._at_end(tangent)]

    def _pullback(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the state at the beginning, and of the tables."""
        _, state, *tables = saved
        matrices = _matrices(tables)
        found = [[jnp.zeros_like(row) for row in rows] for rows in matrices]
        start = self.places[-1].after
        state, cotangent = (
            permuted(each, self.end, start, self.base) for each in (state, *cotangents)
        )
        contraction: Any = ()
        for place in reversed(self.places):
            # One matrix after the other, or states would be held until they are asked for.
            state, cotangent, _ = jax.lax.optimization_barrier((state, cotangent, contraction))
            matrix, shape = matrices[place.table][place.row], state.shape
            rows, moving = (each.reshape(len(matrix), -1) for each in (state, cotangent))
            rows, state = self._product(matrix.T, rows), None
            contraction = ()
            if not place.is_known:
                contraction = self._product(moving, rows.T)
                found[place.table][place.row] = contraction
            moving = self._product(matrix.T, moving)
            state, cotangent = (
                permuted(each.reshape(shape), place.after, place.before, self.base)
                for each in (rows, moving)
            )
        return [cotangent, *map(jnp.stack, found)]

    def _in_front(self, state: Any, place: PlacedMatrix) -> Any:
        """Return a state as rows, those of the qubits of a matrix."""
        moved = permuted(state, place.before, place.after, self.base)
        return moved.reshape(len(state) * self.base ** len(place.qubits), -1)

    def _at_end(self, state: Any) -> Any:
        return permuted(state, self.places[-1].after, self.end, self.base)

    @staticmethod
    def _product(one: Any, other: Any) -> Any:
        return jnp.matmul(one, other, precision=_PRECISION)


def _matrices(tables: Sequence[Any]) -> list[list[Any]]:
    """Return the matrices of tables, which are transposed to one concatenation."""
    return [
        [row.reshape(row.shape[1:]) for row in jax.lax.split(table, [1] * len(table))]
        for table in tables
    ]


def permuted(state: Any, before: Sequence[int], after: Sequence[int], base: int) -> Any:
    """Return a state whose qubits are in another order, moving those together that stay so."""
    places = [before.index(qubit) for qubit in after]
    starts = [n for n, place in enumerate(places) if not n or place != places[n - 1] + 1]
    if len(starts) == 1:
        return state
    ends = [*starts[1:], len(places)]
    first = [places[start] for start in starts]
    length = dict(zip(first, (b - a for a, b in zip(starts, ends, strict=True)), strict=True))
    in_order = sorted(first)
    groups = state.reshape(len(state), *(base ** length[place] for place in in_order))
    return groups.transpose(0, *(1 + in_order.index(place) for place in first)).reshape(state.shape)
