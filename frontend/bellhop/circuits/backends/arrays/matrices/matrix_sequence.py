"""Apply sequences of operations as matrices, with few equations in the program.

XLA compiles each equation for some milliseconds, and starts each kernel for a microsecond.  So the
matrices of all operations of one kind are computed together, and are fused before they are applied,
again in shared equations:

    operations    RX(a) 0, RX(b) 1, BitFlip(p) 0, BitFlip(q) 1, CNOT 0 1
    computed      RX of [a, b]; BitFlip of [p, q]; CNOT is static
    multiplied    [BitFlip(p) RX(a), BitFlip(q) RX(b)]
    fused         CNOT (first x second)
    applied       one matrix to wires 0 and 1

A qubit's axis of a state has two entries for amplitudes, and four for expectation values of Paulis.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.device_wires.device_wires import DeviceWires
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import (
    Exchange,
    ExchangePlacement,
    ExchangePlan,
    plan_exchanges,
    plan_single_device,
)
from bellhop.circuits.backends.arrays.matrices.complex_matmul import matmul, to_real_matrices
from bellhop.circuits.backends.arrays.matrices.evolution import (
    Evolution,
    MatrixPlacement,
    Placement,
    count_sizes,
)
from bellhop.circuits.backends.arrays.matrices.find_repeats import find_repeats
from bellhop.circuits.backends.arrays.matrices.gate_fusion import (
    FusedBlock,
    fuse_matrices,
    multiply_blocks,
)
from bellhop.circuits.backends.arrays.matrices.matrix_table import Entry, MatrixTable
from bellhop.circuits.backends.arrays.matrices.operation_matrices import (
    OperationMatrices,
    is_unitary_matrix,
)

# Operations on more wires are not applied as matrices.
MAX_WIRES = 3

# Largest number of factors in a product of one-qubit matrices.
_MAX_PRODUCT_LENGTH = 32


@dataclass(frozen=True)
class _MatrixStep:
    """Matrices to multiply to one: one-qubit matrices, then a matrix on all of the qubits.

    Attributes:
        qubits: indices of the qubits.
        entry: the matrix that is applied after the one-qubit matrices: a static matrix, or the
            index of a traced matrix in the table of its size; None if there is none.
        products: for each of one or two qubits, its one-qubit matrices in order of application;
            empty if there is only the matrix `entry`.
    """

    qubits: tuple[int, ...]
    entry: Entry | None
    products: tuple[tuple[Entry, ...], ...] = ()


@dataclass
class MatrixSequence:
    """Applies operations on few, static qubits to a state, by few equations of a jaxpr.

    It multiplies neighbouring matrices to larger matrices, and applies these in a loop (an
    `Evolution`). A new instance is used for each sequence of operations.

    Args:
        base: number of entries of a qubit's axis: 2 for amplitudes, 4 for Pauli expectation values.
        compute_matrix: returns the matrix of an operation, a NumPy array if it is static.
        dtype: dtype of the matrices.
        max_qubits: largest number of qubits of a fused matrix.
        is_unitary: returns whether an operation is unitary for all values of its parameters;
            unitary matrices are differentiated by the adjoint method.
        devices: devices over which the state is partitioned, or None.

    Attributes:
        is_orthogonal: whether each matrix applied so far is orthogonal on the real components of
            the state, so that the adjoint method differentiates it.
    """

    base: int
    compute_matrix: Callable[[Any], Any]
    dtype: np.dtype
    max_qubits: int
    is_unitary: Callable[[Any], bool]
    devices: DeviceWires | None = None
    is_orthogonal: bool = field(default=True, init=False)
    _operation_matrices: OperationMatrices = field(init=False)
    _pending: dict[int, tuple[Entry, ...]] = field(default_factory=dict)
    _steps: list[_MatrixStep] = field(default_factory=list)
    # Pairs of a matrix's number of qubits and its row in the table.
    _not_unitary: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._operation_matrices = OperationMatrices(self.compute_matrix, self.dtype)

    def apply(self, operations: Sequence[tuple[Any, tuple[int, ...]]], state: Operand) -> Any:
        """Apply operations to a state on one device.

        Args:
            operations: pairs of an operation and the indices of its qubits, in order.
            state: real array ``[components, base**qubits]``; two components (real and imaginary
                part) for amplitudes, one for Pauli expectation values.

        Returns:
            the new state, in the same shape.
        """
        order = tuple(range(round(math.log(state.shape[1], self.base))))
        return self.apply_plan(operations, state, plan_single_device(len(operations)), order)[0]

    def apply_plan(
        self,
        operations: Sequence[tuple[Any, tuple[int, ...]]],
        state: Operand,
        plan: ExchangePlan,
        order: tuple[int, ...],
    ) -> tuple[Any, tuple[int, ...]]:
        """Apply operations to a state, exchanging qubits between devices as planned.

        Args:
            operations: pairs of an operation and the indices of its qubits.
            state: real array ``[components, base**qubits]``, partitioned over `devices`.
            plan: the exchanges, and the operations between them.
            order: the qubits of each shard, in order, before the plan's first exchange.

        Returns:
            the new state, and the order of the qubits in each shard of it.
        """
        n_qubits = len(plan.start) + len(order)
        entries = self._operation_matrices.compute(operations)
        for (op, qubits), entry in zip(operations, entries, strict=True):
            if isinstance(entry, int) and not self.is_unitary(op):
                self._not_unitary.add((len(qubits), entry))
        ends = []
        for segment in plan.segments:
            for number in segment.gates:
                self._add_matrix(entries[number], operations[number][1])
            self._flush(list(self._pending))
            ends.append(len(self._steps))
        evaluated = self._evaluate_steps()
        blocks: list[FusedBlock | Exchange] = []
        devices = plan.start
        for segment, first, last in zip(plan.segments, [0, *ends], ends, strict=False):
            blocks += plan_exchanges(devices, segment.devices)
            devices = segment.devices
            blocks += fuse_matrices(evaluated[first:last], self.max_qubits, n_qubits)
        blocks += plan_exchanges(devices, plan.end)
        places = self._place_blocks(blocks, plan.start, order)
        matrices = self._multiply_blocks(blocks, state)
        for by_adjoint, some in itertools.groupby(
            zip(_use_adjoint_method(blocks), places, strict=True), lambda each: each[0]
        ):
            part = [place for _, place in some]
            order = part[-1].resulting_order
            repeated = find_repeats(part)
            tables = [
                _split_table(matrices, size, times, n_rows)
                for steps, times in repeated
                for size, n_rows in count_sizes(steps).items()
            ]
            evolution = Evolution(self.base, tuple(repeated), self.devices)
            self.is_orthogonal &= by_adjoint
            run = evolution.apply_with_adjoint if by_adjoint else evolution.apply
            state = run(state, *tables)
        return state, order

    def _place_blocks(
        self,
        steps: Sequence[FusedBlock | Exchange],
        devices: tuple[int, ...],
        order: tuple[int, ...],
    ) -> list[Placement]:
        """Add qubits to small fused blocks; return the qubits on which each block acts.

        A block (product of matrices) on fewer than `max_qubits` qubits gets more qubits, on which
        its matrix is the identity. So all blocks can be multiplied together.

        Args:
            steps: blocks, and exchanges of qubits between devices, in order. The attribute `qubits`
                of the blocks is changed.
            devices: the qubits that index devices before the first step.
            order: the qubits of each shard, in order, before the first step.

        Returns:
            the qubits on which each block or exchange acts, in the order of `steps`.
        """
        n_qubits = len(devices) + len(order)
        places: list[Placement] = []
        for block in steps:
            if isinstance(block, Exchange):
                places.append(ExchangePlacement(block, order))
                order, devices = places[-1].resulting_order, block.after
                continue
            others = (qubit for qubit in order if qubit not in block.qubits)
            missing = min(self.max_qubits, n_qubits) - len(block.qubits)
            block.qubits += itertools.islice(others, max(missing, 0))
            # In the order of the state.
            block.qubits.sort(key=(*devices, *order).index)
            axes = tuple(map(devices.index, filter(devices.__contains__, block.qubits)))
            qubits = tuple(block.qubits[len(axes) :])
            places.append(MatrixPlacement(qubits, order, block.is_constant, axes))
        return places

    def _multiply_blocks(
        self, steps: Sequence[FusedBlock | Exchange], state: Operand
    ) -> dict[int, Any]:
        """Multiply the factors of each block to one real matrix.

        Args:
            steps: blocks and exchanges; exchanges are skipped.
            state: the state, for its dtype and number of components.

        Returns:
            by number of qubits, the real matrices of the blocks of this size, stacked in order.
        """
        by_size: dict[int, list[FusedBlock]] = defaultdict(list)
        for block in steps:
            if isinstance(block, FusedBlock):
                by_size[len(block.qubits)].append(block)
        return {
            size: jnp.asarray(
                to_real_matrices(
                    multiply_blocks(some, self.base, self.dtype, self._gather), len(state)
                ),
                state.dtype,
            )
            for size, some in by_size.items()
        }

    def _get_table(self, n_qubits: int) -> MatrixTable:
        return self._operation_matrices.get_table(self.base**n_qubits)

    def _gather(self, n_qubits: int, entries: Sequence[Entry]) -> Any:
        """Stack matrices on `n_qubits` qubits to an array ``[entries, rows, columns]``.

        Args:
            n_qubits: number of qubits of each matrix.
            entries: static matrices, and indices of traced matrices in the table of this size.
        """
        return self._get_table(n_qubits).gather(entries)

    def _add_matrix(self, entry: Entry, qubits: tuple[int, ...]) -> None:
        """Add the matrix of the next operation to the matrices to multiply.

        A one-qubit matrix joins the pending product of its qubit. A two-qubit matrix and the
        pending products of its qubits become one step (`_MatrixStep`). A larger matrix becomes a
        step after the pending products of its qubits.

        Args:
            entry: static matrix, or the index of a traced matrix.
            qubits: the qubits of the matrix.
        """
        if len(qubits) == 1:
            *others, last = (*self._pending.get(qubits[0], ()), entry)
            if others and isinstance(last, np.ndarray) and isinstance(others[-1], np.ndarray):
                others[-1] = last @ others[-1]
            else:
                others.append(last)
            self._pending[qubits[0]] = tuple(others)
            if len(others) == _MAX_PRODUCT_LENGTH:
                self._flush(qubits)
        elif len(qubits) == 2:
            if isinstance(entry, np.ndarray) and qubits[0] > qubits[1]:
                # Blocks have ascending qubits.
                sides = (self.base,) * 4
                entry = entry.reshape(sides).transpose(1, 0, 3, 2).reshape(entry.shape)
                qubits = qubits[::-1]
            products = tuple(self._pending.pop(qubit, ()) for qubit in qubits)
            self._steps.append(_MatrixStep(qubits, entry, products if any(products) else ()))
        else:
            self._flush(qubits)
            self._steps.append(_MatrixStep(qubits, entry))

    def _flush(self, qubits: Sequence[int]) -> None:
        """Turn the pending one-qubit products of `qubits` into steps, two qubits per step."""
        waiting = sorted(qubit for qubit in qubits if qubit in self._pending)
        for place in range(0, len(waiting), 2):
            some = tuple(waiting[place : place + 2])
            self._steps.append(_MatrixStep(some, None, tuple(map(self._pending.pop, some))))

    def _evaluate_steps(self) -> list[tuple[tuple[int, ...], Entry, bool]]:
        """Multiply the matrices of each step to one matrix.

        Returns:
            for each step its qubits, its matrix (static, or its index in the table of its size),
            and whether it is unitary for all values of its parameters.
        """
        alone, pairs = ([s for s in self._steps if len(s.products) == size] for size in (1, 2))
        unit = (np.eye(self.base),)
        products = [product or unit for s in (*alone, *pairs) for product in s.products]
        evaluated = self._get_table(1).multiply_entries(products)
        of_alone = iter(evaluated[: len(alone)])
        of_pairs = iter(self._multiply_pairs(pairs, evaluated[len(alone) :]))

        def next_matrix(step: _MatrixStep) -> Any:
            """Return the product of a step's matrices; the steps are passed in order."""
            if not step.products:
                return step.entry
            return next(of_alone if len(step.products) == 1 else of_pairs)

        return [(step.qubits, next_matrix(step), self._is_unitary(step)) for step in self._steps]

    def _is_unitary(self, step: _MatrixStep) -> bool:
        """Return whether all matrices of a step are unitary.

        Static matrices are tested numerically. A traced matrix counts as unitary if its operation
        is unitary for all values of its parameters.
        """
        entries = [(1, entry) for product in step.products for entry in product]
        if step.entry is not None:
            entries.append((len(step.qubits), step.entry))
        return all(
            is_unitary_matrix(entry)
            if isinstance(entry, np.ndarray)
            else (n_qubits, entry) not in self._not_unitary
            for n_qubits, entry in entries
        )

    def _multiply_pairs(self, pairs: Sequence[_MatrixStep], ones: Sequence[Entry]) -> list[Entry]:
        """Multiply the one-qubit products and the two-qubit matrix of each step.

        Args:
            pairs: two-qubit steps, with a product on each of the two qubits.
            ones: the evaluated one-qubit products, two for each step.

        Returns:
            for each step its two-qubit matrix: static, or its index in the table of two-qubit
            matrices.
        """
        done: dict[int, Entry] = {}
        computed: list[int] = []
        for number, pair in enumerate(pairs):
            parts = ones[2 * number : 2 * number + 2]
            if all(isinstance(part, np.ndarray) for part in (*parts, self._get_entry(pair))):
                done[number] = self._get_entry(pair) @ np.kron(*parts)
            else:
                computed.append(number)
        if computed:
            table, twos = self._get_table(1), self._get_table(2)
            one, other = (
                table.gather([ones[2 * number + side] for number in computed]) for side in (0, 1)
            )
            both = one[:, :, None, :, None] * other[:, None, :, None]
            both = both.reshape(len(computed), self.base**2, -1)
            if any(pairs[n].entry is not None for n in computed):
                both = matmul(twos.gather([self._get_entry(pairs[n]) for n in computed]), both)
            place = twos.append(both)
            done |= {number: place + row for row, number in enumerate(computed)}
        return [done[number] for number in range(len(pairs))]

    def _get_entry(self, pair: _MatrixStep) -> Entry:
        """Return the two-qubit matrix of a step; the identity if it has none."""
        return np.eye(self.base**2) if pair.entry is None else pair.entry


def _use_adjoint_method(blocks: Sequence[FusedBlock | Exchange]) -> list[bool]:
    """Return for each block whether the adjoint method differentiates it.

    True for unitary blocks, and False for other blocks, for which reverse mode saves states.
    Exchanges of qubits between devices and constant unitary blocks support both methods. They use
    the method of the preceding block (at the beginning, of the next), so that consecutive blocks
    form one `Evolution`.
    """
    in_one_way = [
        None if isinstance(block, Exchange) or (block.is_constant and block.is_unitary) else block
        for block in blocks
    ]
    last = next(filter(None, in_one_way), None)
    by_adjoint = []
    for block in in_one_way:
        last = block or last
        by_adjoint.append(last is None or last.is_unitary)
    return by_adjoint


def _split_table(matrices: dict[int, Any], size: int, n_repeats: int, n_rows: int) -> Any:
    """Remove the next matrices of one size from `matrices`, and return them.

    Args:
        matrices: by number of qubits, the remaining matrices ``[remaining, rows, columns]``;
            changed.
        size: number of qubits of the matrices to remove.
        n_repeats: number of repetitions of a subsequence of placements.
        n_rows: number of matrices of this size in each repetition.

    Returns:
        array ``[n_repeats, n_rows, rows, columns]``.
    """
    some, matrices[size] = jnp.split(matrices[size], [n_repeats * n_rows])
    return some.reshape(n_repeats, n_rows, *some.shape[1:])
