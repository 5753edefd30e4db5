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
from bellhop.circuits.backends.arrays.adjoint_method import define_adjoint_derivative
from bellhop.circuits.backends.arrays.device_wires.device_wires import REPLICATED, DeviceWires
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import ExchangePlacement
from bellhop.circuits.backends.arrays.matrices.find_repeats import RepeatedSteps
from bellhop.circuits.backends.arrays.matrices.matrix_products import MatrixRows
from bellhop.mesh.manual_axes import vary_like

# A part is exchanged in so many pieces, if they have at least so many numbers.
_MAX_TILES = 16
_MIN_TILE_SIZE = 1 << 14


@dataclass(frozen=True)
class MatrixPlacement:
    """Where a matrix acts.

    Attributes:
        qubits: those of the matrix, in the order of its rows and of the state.
        qubit_order: the order of the state's qubits before it, and behind.
        is_constant: whether the matrix is a constant.
        axes: those of the devices whose wires come before these qubits; there it is diagonal.
    """

    qubits: tuple[int, ...]
    qubit_order: tuple[int, ...]
    is_constant: bool
    axes: tuple[int, ...] = ()

    @property
    def resulting_order(self) -> tuple[int, ...]:
        """The order of the state's qubits behind it."""
        return self.qubit_order

    @property
    def size(self) -> int:
        """How many qubits the matrix has, with those of devices."""
        return len(self.axes) + len(self.qubits)


Placement = MatrixPlacement | ExchangePlacement


def count_sizes(places: Sequence[Placement]) -> Counter[int]:
    """Return how many qubits matrices have, and how many have so many."""
    return Counter(place.size for place in places if isinstance(place, MatrixPlacement))


@dataclass(frozen=True)
class Evolution:
    """A sequence of matrices.

    Attributes:
        base: how many entries a qubit has.
        repeats: where they act, one after the other.
        devices: those that the state is partitioned over; None for a state that is not.
    """

    base: int
    repeats: tuple[RepeatedSteps[Placement], ...]
    devices: DeviceWires | None = None

    def apply(self, state: Operand, *tables: Any) -> Any:
        """Return a state after all matrices, differentiated as JAX does, state by state.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        return self._map_shards(self._apply_to_shard, 1, 1)(state, *tables)

    def apply_with_adjoint(self, state: Operand, *tables: Any) -> Any:
        """Return the same where the matrices are orthogonal, differentiated by the adjoint method.

        Args:
            state: of parts and entries.
            tables: arrays of the matrices.
        """
        pullback = self._map_shards(self._pull_back, 2, 1 + len(tables))
        return define_adjoint_derivative(self.apply, pullback)(state, *tables)

    def _map_shards(self, function: Callable[..., Any], n_states: int, n_results: int) -> Any:
        """Return a function of states and tables that each device runs with its part."""
        devices = self.devices
        if devices is None:
            return function
        part = devices.state_spec
        results = part if n_results == 1 else (part, *[REPLICATED] * (n_results - 1))

        def run_on_shards(*arrays: Operand) -> Any:
            kinds = [part] * n_states + [REPLICATED] * (len(arrays) - n_states)
            return devices.map_shards(function, tuple(kinds), results)(*arrays)

        return run_on_shards

    def _apply_to_shard(self, state: Operand, *tables: Any) -> Any:
        def step(place: Placement, state: Any, matrix: Any) -> tuple[Any, None]:
            if isinstance(place, ExchangePlacement):
                return self._exchange(state, place), None
            if place.is_constant:
                # Or the state before it would be kept.
                matrix = jax.lax.stop_gradient(matrix)
            return self._get_rows(place).multiply(self._select_block(matrix, place), state), None

        state, _ = self._scan_steps(step, state, tables)
        return state

    def _pull_back(self, state: Operand, cotangent: Operand, *tables: Any) -> tuple[Any, ...]:
        def step(place: Placement, carried: Sequence[Any], inverse: Any) -> tuple[Any, Any]:
            if isinstance(place, ExchangePlacement):
                return [self._exchange(each, place.inverse) for each in carried], None
            rows, chosen = self._get_rows(place), self._select_block(inverse, place)
            # In one loop for both, so that what else reads the state has done so before it begins.
            *before, contraction = rows.step_backwards(chosen, *carried)
            found = (
                jnp.zeros_like(inverse)
                if place.is_constant
                else self._embed_block(contraction, place)
            )
            return before, found

        # As tables: products of transposed matrices are slower than those of others.
        inverses = [table.mT for table in tables]
        (_, cotangent), of_tables = self._scan_steps(
            step, [state, cotangent], inverses, backwards=True
        )
        return cotangent, *(
            of_tables if self.devices is None else self.devices.sum_over_devices(of_tables)
        )

    def _scan_steps(
        self,
        step: Callable[[Placement, Any, Any], tuple[Any, Any]],
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
        numbers_of = [[next(numbers) for _ in count_sizes(steps)] for steps, _ in self.repeats]
        found: dict[int, Any] = {}
        for (steps, times), own in list(zip(self.repeats, numbers_of, strict=True))[::turn]:

            def run_steps(
                carried: Any, given: Sequence[Any], steps: Any = steps
            ) -> tuple[Any, Any]:
                sizes = list(count_sizes(steps))
                matrices = [iter(_unstack(table)[::turn]) for table in given]
                results: list[list[Any]] = [[] for _ in given]
                for place in steps[::turn]:
                    if isinstance(place, ExchangePlacement):
                        carried, _ = step(place, carried, None)
                        continue
                    number = sizes.index(place.size)
                    carried, result = step(place, carried, next(matrices[number]))
                    results[number].append(result)
                return carried, [_stack(rows[::turn]) for rows in results]

            given = [tables[number] for number in own]
            if times == 1:
                carried, results = run_steps(carried, jax.tree.map(lambda x: x[0], given))
                results = jax.tree.map(lambda x: x[None], results)
            else:
                carried, results = jax.lax.scan(run_steps, carried, given, reverse=backwards)
            found |= zip(own, results, strict=True)
        return carried, [found[number] for number in range(len(tables))]

    def _select_block(self, matrix: Operand, placement: MatrixPlacement) -> Any:
        """Return a matrix, of those that are diagonal on wires of devices the block of this one."""
        if not placement.axes:
            return matrix
        assert self.devices is not None
        number = self.devices.device_index(placement.axes)
        blocks = self._reshape_to_blocks(matrix, placement)
        rows = jax.lax.dynamic_index_in_dim(blocks, number, 1, keepdims=False)
        chosen = jax.lax.dynamic_index_in_dim(rows, number, 3, keepdims=False)
        size = len(matrix) // self.base ** len(placement.axes)
        return chosen.reshape(size, size)

    def _embed_block(self, block: Any, placement: MatrixPlacement) -> Any:
        """Return a matrix with the block of this device, and zeros in the others."""
        if not placement.axes:
            return block
        assert self.devices is not None
        n_blocks = self.base ** len(placement.axes)
        size = len(block) * n_blocks
        blocks = self._reshape_to_blocks(jnp.zeros((size, size), block.dtype), placement)
        here = jnp.arange(n_blocks) == self.devices.device_index(placement.axes)
        is_here = here[:, None, None, None, None] & here[:, None]
        parts, _, entries, *_ = blocks.shape
        own = block.reshape(parts, 1, entries, parts, 1, entries)
        return jnp.where(is_here, own, blocks).reshape(size, size)

    def _reshape_to_blocks(self, matrix: Operand, placement: MatrixPlacement) -> Any:
        """Return a matrix as one of parts, wires of devices and others."""
        n_blocks, entries = self.base ** len(placement.axes), self.base ** len(placement.qubits)
        parts = len(matrix) // (n_blocks * entries)
        return matrix.reshape((parts, n_blocks, entries) * 2)

    def _exchange(self, state: Operand, place: ExchangePlacement) -> Any:
        """Return a state after an exchange, some columns of it at a time, in its own memory."""
        devices = self.devices
        assert devices is not None

        def exchange_tiles(place: ExchangePlacement, state: Operand) -> Any:
            rows = MatrixRows(self.base, len(place.initial_order), place.positions)
            at_once = max(_MIN_TILE_SIZE, state.size // _MAX_TILES)
            return rows.map_tiles(lambda tile: devices.exchange_qubits(tile, place), state, at_once)

        linear = LinearMap(
            lambda _, cotangents: [exchange_tiles(place.inverse, cotangents[0])],
            lambda _, tangents: [exchange_tiles(place, tangents[0])],
            0,
            (ShapedArray(state.shape, state.dtype),),
        )
        return linear([], [state])[0]

    def _get_rows(self, placement: MatrixPlacement) -> MatrixRows:
        where = tuple(map(placement.qubit_order.index, placement.qubits))
        return MatrixRows(self.base, len(placement.qubit_order), where)


def _unstack(table: PyTree) -> list[Any]:
    """Return the rows of arrays, which are transposed to one concatenation."""
    leaves, structure = jax.tree.flatten(table)
    split = [jax.lax.split(leaf, [1] * len(leaf)) for leaf in leaves]
    rows = zip(*split, strict=True)
    return [structure.unflatten([x.reshape(x.shape[1:]) for x in row]) for row in rows]


def _stack(rows: Sequence[PyTree]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
