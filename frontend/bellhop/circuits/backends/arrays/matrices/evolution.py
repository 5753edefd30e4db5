"""A state after a sequence of matrices, and the adjoint method for their derivatives.

A state is an array of two axes: ``(parts, base**n)``, where amplitudes have a real and an imaginary
part and means of Pauli words have one.  A matrix of ``k`` qubits is real, on the parts and the
entries of these qubits together, and multiplies the state where it stands (``matrix_products.py``).

Orthogonal matrices are differentiated by the adjoint method (Jones and Gacon, arXiv:2009.02823):
backwards, the state before a matrix is the transposed matrix by the state behind it, so two states
are held, whatever the number of matrices::

    primal      state = M state                         for each, forwards
    transposed  M_bar = cotangent state_before^T        for each, backwards
                cotangent = M^T cotangent
                state = M^T state

Stretches that repeat are loops over their matrices (``repetitions.py``), backwards too.

Of a state that is partitioned over devices (``device_wires/``), each multiplies its part, and
between the matrices qubits are exchanged with those that stand for devices, backwards in reverse.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.linear_map import LinearMap
from bellhop.circuits.backends.arrays.adjoint_method import differentiated_by_adjoint
from bellhop.circuits.backends.arrays.device_wires.device_wires import WHOLE, DeviceWires
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import PlacedExchange
from bellhop.circuits.backends.arrays.matrices.find_repeats import Stretch
from bellhop.circuits.backends.arrays.matrices.matrix_products import RowsOfMatrix
from bellhop.mesh.manual_axes import vary_like

# A part is exchanged in so many pieces, if they have at least so many numbers.
_TIMES = 16
_EXCHANGED_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class PlacedMatrix:
    """Where a matrix acts.

    Attributes:
        qubits: those of the matrix, in the order of its rows and of the state.
        before: the order of the state's qubits before it, and behind.
        is_known: whether the matrix is a constant.
        axes: those of the devices whose wires come before these qubits; there it is diagonal.
    """

    qubits: tuple[int, ...]
    before: tuple[int, ...]
    is_known: bool
    axes: tuple[int, ...] = ()

    @property
    def after(self) -> tuple[int, ...]:
        """The order of the state's qubits behind it."""
        return self.before

    @property
    def size(self) -> int:
        """How many qubits the matrix has, with those of devices."""
        return len(self.axes) + len(self.qubits)


Place = PlacedMatrix | PlacedExchange


def sizes_of(places: Sequence[Place]) -> Counter[int]:
    """Return how many qubits matrices have, and how many have so many."""
    return Counter(place.size for place in places if isinstance(place, PlacedMatrix))


@dataclass(frozen=True)
class Evolution:
    """A sequence of matrices.

    Attributes:
        base: how many entries a qubit has.
        stretches: where they act, one after the other.
        devices: those that the state is partitioned over; None for a state that is not.
    """

    base: int
    stretches: tuple[Stretch[Place], ...]
    devices: DeviceWires | None = None

    def applied(self, state: Operand, *tables: Any) -> Any:
        """Return a state after all matrices, differentiated as JAX does, state by state.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        return self._on_each(self._applied, 1, 1)(state, *tables)

    def applied_by_adjoint(self, state: Operand, *tables: Any) -> Any:
        """Return the same where the matrices are orthogonal, differentiated by the adjoint method.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        pullback = self._on_each(self._cotangents, 2, 1 + len(tables))
        return differentiated_by_adjoint(self.applied, pullback)(state, *tables)

    def _on_each(self, function: Callable[..., Any], n_states: int, n_results: int) -> Any:
        """Return a function of states and tables that each device runs with its part."""
        devices = self.devices
        if devices is None:
            return function
        part = devices.partitioned
        results = part if n_results == 1 else (part, *[WHOLE] * (n_results - 1))

        def on_each(*arrays: Operand) -> Any:
            kinds = [part] * n_states + [WHOLE] * (len(arrays) - n_states)
            return devices.on_each(function, tuple(kinds), results)(*arrays)

        return on_each

    def _applied(self, state: Operand, *tables: Any) -> Any:
        def step(place: Place, state: Any, matrix: Any) -> tuple[Any, None]:
            if isinstance(place, PlacedExchange):
                return self._exchanged(state, place), None
            if place.is_known:
                # Or the state before it would be kept.
                matrix = jax.lax.stop_gradient(matrix)
            return self._rows(place).product(self._chosen(matrix, place), state), None

        state, _ = self._run(step, state, tables)
        return state

    def _cotangents(self, state: Operand, cotangent: Operand, *tables: Any) -> tuple[Any, ...]:
        def step(place: Place, carried: Sequence[Any], inverse: Any) -> tuple[Any, Any]:
            if isinstance(place, PlacedExchange):
                return [self._exchanged(each, place.reversed) for each in carried], None
            rows, chosen = self._rows(place), self._chosen(inverse, place)
            # In one loop for both, so that what else reads the state has done so before it begins.
            *before, contraction = rows.backwards(chosen, *carried)
            found = (
                jnp.zeros_like(inverse) if place.is_known else self._embedded(contraction, place)
            )
            return before, found

        # As tables: products of transposed matrices are slower than those of others.
        inverses = [table.mT for table in tables]
        (_, cotangent), of_tables = self._run(step, [state, cotangent], inverses, backwards=True)
        return cotangent, *(of_tables if self.devices is None else self.devices.sum(of_tables))

    def _run(
        self,
        step: Callable[[Place, Any, Any], tuple[Any, Any]],
        carried: PyTree,
        tables: Sequence[PyTree],
        *,
        backwards: bool = False,
    ) -> tuple[Any, list[Any]]:
        """Run a step for each place; return what it carries, and its results for each table.

        Args:
            step: takes a place, what is carried, and its matrix in each array of a table.
            carried: at the first place.
            tables: pytrees of arrays, one for each size of matrices in each stretch.
            backwards: whether the last place is the first.
        """
        turn = -1 if backwards else 1
        carried = vary_like((carried, tables), carried)
        numbers = iter(range(len(tables)))
        numbers_of = [[next(numbers) for _ in sizes_of(steps)] for steps, _ in self.stretches]
        found: dict[int, Any] = {}
        for (steps, times), own in list(zip(self.stretches, numbers_of, strict=True))[::turn]:

            def once(carried: Any, given: Sequence[Any], steps: Any = steps) -> tuple[Any, Any]:
                sizes = list(sizes_of(steps))
                matrices = [iter(_unstacked(table)[::turn]) for table in given]
                results: list[list[Any]] = [[] for _ in given]
                for place in steps[::turn]:
                    if isinstance(place, PlacedExchange):
                        carried, _ = step(place, carried, None)
                        continue
                    number = sizes.index(place.size)
                    carried, result = step(place, carried, next(matrices[number]))
                    results[number].append(result)
                return carried, [_stacked(rows[::turn]) for rows in results]

            given = [tables[number] for number in own]
            if times == 1:
                carried, results = once(carried, jax.tree.map(lambda x: x[0], given))
                results = jax.tree.map(lambda x: x[None], results)
            else:
                carried, results = jax.lax.scan(once, carried, given, reverse=backwards)
            found |= zip(own, results, strict=True)
        return carried, [found[number] for number in range(len(tables))]

    def _chosen(self, matrix: Operand, place: PlacedMatrix) -> Any:
        """Return a matrix, of those that are diagonal on wires of devices the block of this one."""
        if not place.axes:
            return matrix
        assert self.devices is not None
        number = self.devices.number(place.axes)
        blocks = self._blocks(matrix, place)
        rows = jax.lax.dynamic_index_in_dim(blocks, number, 1, keepdims=False)
        chosen = jax.lax.dynamic_index_in_dim(rows, number, 3, keepdims=False)
        size = len(matrix) // self.base ** len(place.axes)
        return chosen.reshape(size, size)

    def _embedded(self, block: Any, place: PlacedMatrix) -> Any:
        """Return a matrix with the block of this device, and zeros in the others."""
        if not place.axes:
            return block
        assert self.devices is not None
        n_blocks = self.base ** len(place.axes)
        size = len(block) * n_blocks
        blocks = self._blocks(jnp.zeros((size, size), block.dtype), place)
        here = jnp.arange(n_blocks) == self.devices.number(place.axes)
        is_here = here[:, None, None, None, None] & here[:, None]
        parts, _, entries, *_ = blocks.shape
        own = block.reshape(parts, 1, entries, parts, 1, entries)
        return jnp.where(is_here, own, blocks).reshape(size, size)

    def _blocks(self, matrix: Operand, place: PlacedMatrix) -> Any:
        """Return a matrix as one of parts, wires of devices and others."""
        n_blocks, entries = self.base ** len(place.axes), self.base ** len(place.qubits)
        parts = len(matrix) // (n_blocks * entries)
        return matrix.reshape((parts, n_blocks, entries) * 2)

    def _exchanged(self, state: Operand, place: PlacedExchange) -> Any:
        """Return a state after an exchange, some columns of it at a time, in its own memory."""
        devices = self.devices
        assert devices is not None

        def moved(place: PlacedExchange, state: Operand) -> Any:
            rows = RowsOfMatrix(self.base, len(place.before), place.places)
            at_once = max(_EXCHANGED_AT_ONCE, state.size // _TIMES)
            return rows.mapped(lambda tile: devices.exchanged(tile, place), state, at_once)

        linear = LinearMap(
            lambda _, cotangents: [moved(place.reversed, cotangents[0])],
            lambda _, tangents: [moved(place, tangents[0])],
            0,
            (ShapedArray(state.shape, state.dtype),),
        )
        return linear([], [state])[0]

    def _rows(self, place: PlacedMatrix) -> RowsOfMatrix:
        where = tuple(map(place.before.index, place.qubits))
        return RowsOfMatrix(self.base, len(place.before), where)


def _unstacked(table: PyTree) -> list[Any]:
    """Return the rows of arrays, which are transposed to one concatenation."""
    leaves, structure = jax.tree.flatten(table)
    split = [jax.lax.split(leaf, [1] * len(leaf)) for leaf in leaves]
    rows = zip(*split, strict=True)
    return [structure.unflatten([x.reshape(x.shape[1:]) for x in row]) for row in rows]


def _stacked(rows: Sequence[PyTree]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
