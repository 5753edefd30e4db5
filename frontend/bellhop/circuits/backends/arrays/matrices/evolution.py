"""Apply a sequence of matrices to a state, differentiated by the adjoint method.

A state is an array ``[components, base**n]``.  Amplitudes have two components, real and imaginary
part; expectation values of Pauli words have one.  The matrix of ``k`` qubits is real, acts on the
components and the entries of these qubits together, and multiplies the state in place
(``matrix_products.py``).

Orthogonal matrices are differentiated by the adjoint method (Jones and Gacon, arXiv:2009.02823).
The backward pass recomputes the state before a matrix with the transposed matrix, so it holds only
two states::

    primal      state = M state                         for each, forwards
    transposed  M_bar = cotangent state_before^T        for each, backwards
                cotangent = M^T cotangent
                state = M^T state

Sequences that repeat become loops over their matrices (``find_repeats.py``), also backwards.

If a state is partitioned over devices (``device_wires/``), each device multiplies its shard.
Between the matrices, local qubits are exchanged with qubits that index devices; the backward pass
exchanges them back.
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

# A shard is exchanged in at most this number of tiles, each at least this number of scalars.
_MAX_TILES = 16
_MIN_TILE_SIZE = 1 << 14


@dataclass(frozen=True)
class MatrixPlacement:
    """The qubits of the state on which a matrix acts.

    If the state is partitioned over devices, some qubits are the bits of the device's index (device
    qubits), and the remaining, local qubits are the axes of each shard. If the matrix acts on
    device qubits, it is diagonal on them, and they come first in the index of its rows.

    Attributes:
        qubits: the matrix's local qubits, in the order of its rows and of the state.
        qubit_order: all qubits of each shard, in order; the matrix does not change the order.
        is_constant: whether the matrix is a constant, so that it needs no cotangent.
        axes: indices of the mesh axes of the matrix's device qubits; empty on one device.
    """

    qubits: tuple[int, ...]
    qubit_order: tuple[int, ...]
    is_constant: bool
    axes: tuple[int, ...] = ()

    @property
    def resulting_order(self) -> tuple[int, ...]:
        """The qubits of each shard after the matrix, in order: the same as before."""
        return self.qubit_order

    @property
    def size(self) -> int:
        """Number of qubits on which the matrix acts, local and device qubits."""
        return len(self.axes) + len(self.qubits)


Placement = MatrixPlacement | ExchangePlacement


def count_sizes(places: Sequence[Placement]) -> Counter[int]:
    """Return how many matrices act on each number of qubits.

    Args:
        places: the qubits of matrices; and exchanges of qubits between devices, which are skipped.

    Returns:
        the number of matrices by number of qubits, in order of first occurrence.
    """
    return Counter(place.size for place in places if isinstance(place, MatrixPlacement))


@dataclass(frozen=True)
class Evolution:
    """Multiplies a state by a sequence of matrices, with a choice of derivative.

    If the state is partitioned over devices, the sequence also has exchanges, which change the
    qubits that are bits of the device's index. The instance stores the qubits on which each matrix
    acts. The matrices themselves are arguments of `apply`, stacked in *tables*: each entry of
    `repeats` has, for each number of qubits of its matrices (in the order of `count_sizes`), one
    array ``[n_repeats, matrices, rows, columns]``.
    `MatrixSequence` makes an instance for consecutive matrices with the same kind of derivative.

    Attributes:
        base: number of entries per qubit: 2 for amplitudes, 4 for Pauli expectation values.
        repeats: where matrices and exchanges act, in order; a repeated subsequence becomes a loop.
        devices: devices over which the state is partitioned, or None for one device.
    """

    base: int
    repeats: tuple[RepeatedSteps[Placement], ...]
    devices: DeviceWires | None = None

    def apply(self, state: Operand, *tables: Any) -> Any:
        """Apply all matrices and exchanges to a state; reverse mode is JAX's.

        Reverse mode saves the state before each matrix that is not constant. Exchanges are
        communication between the devices over which the state is partitioned.

        Args:
            state: real array ``[components, base**qubits]``.
            *tables: for each repeated subsequence and number of qubits, the real matrices, an array
                ``[repeats, matrices, rows, columns]``.

        Returns:
            the final state, an array of the shape of `state`.
        """
        return self._map_shards(self._apply_to_shard, 1, 1)(state, *tables)

    def apply_with_adjoint(self, state: Operand, *tables: Any) -> Any:
        """Apply all matrices and exchanges to a state; reverse mode is the adjoint method.

        The backward pass recomputes states with transposed matrices, so all matrices must be
        orthogonal. Arguments and result are as of `apply`.
        """
        pullback = self._map_shards(self._pull_back, 2, 1 + len(tables))
        return define_adjoint_derivative(self.apply, pullback)(state, *tables)

    def _map_shards(self, function: Callable[..., Any], n_states: int, n_results: int) -> Any:
        """Convert a function of one device's shards to a function of whole arrays.

        On one device, where the state is not partitioned, `function` is returned unchanged.

        Args:
            function: ``function(*states, *tables)``, of shards of states and replicated tables;
                returns one shard, or a shard followed by replicated arrays.
            n_states: number of states among the arguments.
            n_results: number of results.
        """
        devices = self.devices
        if devices is None:
            return function
        part = devices.state_spec
        results = part if n_results == 1 else (part, *[REPLICATED] * (n_results - 1))

        def run_on_shards(*arrays: Operand) -> Any:
            """Call `function` on each device, with its shards of the states and all tables."""
            kinds = [part] * n_states + [REPLICATED] * (len(arrays) - n_states)
            return devices.map_shards(function, tuple(kinds), results)(*arrays)

        return run_on_shards

    def _apply_to_shard(self, state: Operand, *tables: Any) -> Any:
        """Apply all matrices and exchanges to this device's shard, or to the whole state.

        Args:
            state: array ``[components, base**local_qubits]``.
            *tables: the matrices, as in `apply`.

        Returns:
            the shard of the final state, in the same shape.
        """

        def step(place: Placement, state: Any, matrix: Any) -> tuple[Any, None]:
            """Apply one matrix or exchange to the shard; a step of `_scan_steps`.

            `matrix` is None for an exchange. Returns the new shard, and None, since matrices yield
            no values.
            """
            if isinstance(place, ExchangePlacement):
                return self._exchange(state, place), None
            if place.is_constant:
                # Otherwise JAX saves the state before the matrix for its cotangent.
                matrix = jax.lax.stop_gradient(matrix)
            return self._get_rows(place).multiply(self._select_block(matrix, place), state), None

        state, _ = self._scan_steps(step, state, tables)
        return state

    def _pull_back(self, state: Operand, cotangent: Operand, *tables: Any) -> tuple[Any, ...]:
        """Compute cotangents by the adjoint method, from the final state backwards.

        Each matrix is undone by its transpose, so all matrices must be orthogonal.

        Args:
            state: this device's shard of the final state, array ``[components,
                base**local_qubits]``.
            cotangent: the cotangent of this shard.
            *tables: the matrices, as in `apply`.

        Returns:
            the cotangents of the initial state (this device's shard) and of each table (summed over
            all devices).
        """

        def step(place: Placement, carried: Sequence[Any], inverse: Any) -> tuple[Any, Any]:
            """Undo one matrix or exchange; a step of `_scan_steps` in reverse order.

            Args:
                place: where the matrix or exchange acts.
                carried: state and cotangent after it.
                inverse: the transposed matrix; None for an exchange.

            Returns:
                state and cotangent before it, and the cotangent of the matrix (None for an
                exchange).
            """
            if isinstance(place, ExchangePlacement):
                return [self._exchange(each, place.inverse) for each in carried], None
            rows, chosen = self._get_rows(place), self._select_block(inverse, place)
            # One loop updates state and cotangent, so that other readers of the state run before.
            *before, contraction = rows.step_backwards(chosen, *carried)
            matrix_cotangent = (
                jnp.zeros_like(inverse)
                if place.is_constant
                else self._embed_block(contraction, place)
            )
            return before, matrix_cotangent

        # Transpose whole tables: products with transposed matrices are slower.
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
        """Run `step` for each matrix and each exchange of the sequence, in order.

        A subsequence that is repeated becomes a `lax.scan`.

        Args:
            step: ``step(placement, carried, matrix)``, which returns the new carried value and a
                result for the matrix. The placement has the qubits on which the matrix or exchange
                acts. For an exchange, `matrix` and the result are None.
            carried: the initial carried value, a pytree of arrays.
            tables: for each repeated subsequence and number of qubits, a pytree of arrays
                ``[repeats, matrices, ...]``.
            backwards: whether to run the steps in reverse order.

        Returns:
            the final carried value, and for each table the matrices' results, stacked in the layout
            of the table.
        """
        turn = -1 if backwards else 1
        carried = vary_like((carried, tables), carried)
        numbers = iter(range(len(tables)))
        numbers_of = [[next(numbers) for _ in count_sizes(steps)] for steps, _ in self.repeats]
        results_by_table: dict[int, Any] = {}
        for (steps, times), own in list(zip(self.repeats, numbers_of, strict=True))[::turn]:

            def run_steps(
                carried: Any, given: Sequence[Any], steps: Any = steps
            ) -> tuple[Any, Any]:
                """Call `step` for each placement of a subsequence; the body of the `lax.scan`.

                Args:
                    carried: the value that `step` carries from placement to placement.
                    given: for each size of matrices, the matrices of this repetition, arrays
                        ``[matrices, ...]``, in the order of the placements that use them.
                    steps: the placements of the subsequence, in order; called in reverse order if
                        `backwards`.

                Returns:
                    the new carried value, and the results in the layout of `given`.
                """
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
            results_by_table |= zip(own, results, strict=True)
        return carried, [results_by_table[number] for number in range(len(tables))]

    def _select_block(self, matrix: Operand, placement: MatrixPlacement) -> Any:
        """Return the block of a matrix that multiplies this device's shard.

        A matrix that acts on device qubits (bits of the device's index) is diagonal on them, so it
        has one block for each value of these qubits.

        Args:
            matrix: array ``[rows, rows]``, diagonal along the mesh axes `placement.axes`; returned
                unchanged if there are none.
            placement: where the matrix acts.
        """
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
        """Return a matrix with this device's block at its place, and zeros elsewhere.

        It is the transpose of `_select_block`, for the cotangent of a matrix.

        Args:
            block: square array, on the local qubits of the matrix; returned unchanged without mesh
                axes.
            placement: where the matrix acts.
        """
        if not placement.axes:
            return block
        assert self.devices is not None
        n_blocks = self.base ** len(placement.axes)
        size = len(block) * n_blocks
        blocks = self._reshape_to_blocks(jnp.zeros((size, size), block.dtype), placement)
        is_own_index = jnp.arange(n_blocks) == self.devices.device_index(placement.axes)
        is_own_block = is_own_index[:, None, None, None, None] & is_own_index[:, None]
        parts, _, entries, *_ = blocks.shape
        own = block.reshape(parts, 1, entries, parts, 1, entries)
        return jnp.where(is_own_block, own, blocks).reshape(size, size)

    def _reshape_to_blocks(self, matrix: Operand, placement: MatrixPlacement) -> Any:
        """Split each axis of a matrix into components, device qubits and local qubits.

        Args:
            matrix: square array, on device qubits and local qubits.
            placement: where the matrix acts, which decides the sizes of the axes.

        Returns:
            array of six axes, ``(components, device blocks, local entries) * 2``.
        """
        n_blocks, entries = self.base ** len(placement.axes), self.base ** len(placement.qubits)
        parts = len(matrix) // (n_blocks * entries)
        return matrix.reshape((parts, n_blocks, entries) * 2)

    def _exchange(self, state: Operand, place: ExchangePlacement) -> Any:
        """Exchange qubits of the shard with device qubits (bits of the device's index).

        To save memory, parts of the shard (tiles) are exchanged one after another. The transpose is
        the inverse exchange.

        Args:
            state: this device's shard, array ``[components, base**local_qubits]``.
            place: the exchange, and the order of the local qubits before it.

        Returns:
            the new shard, of the same shape, with the qubits in `place.resulting_order`.
        """
        devices = self.devices
        assert devices is not None

        def exchange_tiles(place: ExchangePlacement, state: Operand) -> Any:
            """Exchange qubits of the shard `state` as `place` says, in a loop over tiles."""
            rows = MatrixRows(self.base, len(place.initial_order), place.positions)
            max_tile_size = max(_MIN_TILE_SIZE, state.size // _MAX_TILES)
            return rows.map_tiles(
                lambda tile: devices.exchange_qubits(tile, place), state, max_tile_size
            )

        linear = LinearMap(
            lambda _, cotangents: [exchange_tiles(place.inverse, cotangents[0])],
            lambda _, tangents: [exchange_tiles(place, tangents[0])],
            0,
            (ShapedArray(state.shape, state.dtype),),
        )
        return linear([], [state])[0]

    def _get_rows(self, placement: MatrixPlacement) -> MatrixRows:
        """Return the positions of a matrix's qubits in the shard, as `MatrixRows`."""
        where = tuple(map(placement.qubit_order.index, placement.qubits))
        return MatrixRows(self.base, len(placement.qubit_order), where)


def _unstack(table: PyTree) -> list[Any]:
    """Split a pytree of arrays along their first axis into a list of pytrees.

    Each array is split by one equation, whose transpose is one concatenation.
    """
    leaves, structure = jax.tree.flatten(table)
    split = [jax.lax.split(leaf, [1] * len(leaf)) for leaf in leaves]
    rows = zip(*split, strict=True)
    return [structure.unflatten([x.reshape(x.shape[1:]) for x in row]) for row in rows]


def _stack(rows: Sequence[PyTree]) -> PyTree:
    """Stack pytrees of one structure, leaf by leaf, along a new first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
