"""Runs of operations as matrices on the axes of a state: few equations, however many there are.

Each equation of a program takes XLA some milliseconds to compile, and each kernel a microsecond to
start.  So the matrices of a run of operations are made together, and merged before they are
applied, in equations that all of a kind share:

    operations    RX(a) 0, RX(b) 1, BitFlip(p) 0, BitFlip(q) 1, CNOT 0 1
    made          RX of [a, b]; BitFlip of [p, q]; CNOT is known
    multiplied    [BitFlip(p) RX(a), BitFlip(q) RX(b)]
    merged        CNOT (first x second)
    applied       one matrix to wires 0 and 1

An axis of a state has two entries for amplitudes, and four for means of Pauli words.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.ops.functions import bind_new_parameters

from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.in_program.blocks import Block, grouped, known_product, products
from bellhop.circuits.in_program.evolution import Evolution, PlacedMatrix
from bellhop.circuits.vectorize.pack import pack

# A matrix that is known, or the row of one in the table of those that the program computes.
Entry = np.ndarray | int

# Matrices of more wires are not made.
MOST_WIRES = 3

# So many factors of one wire are one product.
_LONGEST_PRODUCT = 32

# A constant matrix is unitary up to that.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class _Product:
    """A product of matrices of one wire, of which the first is applied first."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class _Pair:
    """A matrix of two wires after one of each; without it, these two alone."""

    entry: Entry | None
    first: _Product
    second: _Product


Step = tuple[tuple[int, ...], Entry | _Product | _Pair]


@dataclass
class MatrixRun:
    """A run of operations on qubits that are known, each of few.

    Args:
        base: how many entries the axis of a qubit has.
        matrix_of: returns the matrix of an operation; NumPy's where all of it is known.
        dtype: that of the numbers in the matrices.
        most: how many qubits the matrices have that meet the state.
        is_unitary: tells of an operation whether its inverse is its adjoint, whatever its
            parameters; these are differentiated by the adjoint method.
    """

    base: int
    matrix_of: Callable[[Any], Any]
    dtype: np.dtype
    most: int
    is_unitary: Callable[[Any], bool]
    _tables: dict[int, "_Table"] = field(default_factory=dict)
    _pending: dict[int, tuple[Entry, ...]] = field(default_factory=dict)
    _steps: list[Step] = field(default_factory=list)
    # Rows of tables, with the number of their qubits.
    _not_unitary: set[tuple[int, int]] = field(default_factory=set)

    def applied(self, operations: Sequence[tuple[Any, tuple[int, ...]]], state: Any) -> Any:
        """Return a state after operations.

        Args:
            operations: pairs of an operation and its qubits.
            state: of two axes, see ``evolution``.
        """
        n_qubits = round(math.log(state.shape[1], self.base))
        entries = self._made(operations)
        for (op, qubits), entry in zip(operations, entries, strict=True):
            if isinstance(entry, int) and not self.is_unitary(op):
                self._not_unitary.add((len(qubits), entry))
            self._add(entry, qubits)
        self._flush(list(self._pending))
        blocks = grouped(self._evaluated(), self.most, n_qubits)
        places, tables = self._placed(blocks, n_qubits, state)
        for is_unitary, some in itertools.groupby(
            zip(blocks, places, strict=True), lambda each: each[0].is_unitary
        ):
            part = tuple(place for _, place in some)
            is_last = part[-1] is places[-1]
            end = tuple(range(n_qubits)) if is_last else part[-1].after
            evolution = Evolution(self.base, part, end)
            run = evolution.applied_by_adjoint if is_unitary else evolution.applied
            state = run(state, tables)
        return state

    def _placed(
        self, blocks: Sequence[Block], n_qubits: int, state: Any
    ) -> tuple[list[PlacedMatrix], list[Any]]:
        """Say where blocks act; return that and tables of their matrices."""
        order = tuple(range(n_qubits))
        before = []
        for block in blocks:
            others = (qubit for qubit in order if qubit not in block.qubits)
            missing = min(self.most, n_qubits) - len(block.qubits)
            block.qubits += itertools.islice(others, max(missing, 0))
            # As they stand, so that most of them move together.
            block.qubits.sort(key=order.index)
            before.append(order)
            order = (*block.qubits, *(qubit for qubit in order if qubit not in block.qubits))
        sizes = sorted({len(block.qubits) for block in blocks})
        tables: list[Any] = []
        row_of: dict[int, int] = {}
        for size in sizes:
            same = [block for block in blocks if len(block.qubits) == size]
            known = [block for block in same if block.is_known]
            computed = [block for block in same if not block.is_known]
            parts = []
            if known:
                parts.append(np.stack([known_product(block, self.base) for block in known]))
            if computed:
                parts.append(products(computed, self.base, self.dtype, self._rows_of))
            row_of |= {id(block): row for row, block in enumerate([*known, *computed])}
            matrices = jnp.concatenate(parts) if computed else parts[0]
            tables.append(jnp.asarray(_as_real(matrices, len(state)), state.dtype))
        places = [
            PlacedMatrix(
                tuple(block.qubits),
                order,
                sizes.index(len(block.qubits)),
                row_of[id(block)],
                block.is_known,
            )
            for block, order in zip(blocks, before, strict=True)
        ]
        return places, tables

    def _rows_of(self, n_qubits: int, entries: Sequence[Entry]) -> Any:
        """Return matrices of equally many qubits, one after the other."""
        table = self._table(n_qubits)
        rows = np.array([table.row(entry) for entry in entries])
        return table.array()[rows]

    def _made(self, operations: Sequence[tuple[Any, tuple[int, ...]]]) -> list[Entry]:
        """Make the matrices of operations, those that differ by parameters alone together."""
        entries: dict[int, Entry] = {}
        groups: dict[Any, list[int]] = defaultdict(list)
        for number, (op, _) in enumerate(operations):
            if not any(map(is_dynamic, op.data)):
                matrix = self.matrix_of(_with(op, list(map(_numpy, op.data))))
                if isinstance(matrix, np.ndarray):
                    entries[number] = matrix
                    continue
            groups[len(op.wires), _kind(op, number), tuple(map(jnp.shape, op.data))].append(number)
        for (n_wires, _, _), numbers in groups.items():
            first, *others = (operations[number][0] for number in numbers)
            if not others:
                made = self.matrix_of(first)[None]
            else:
                columns = zip(*(op.data for op in (first, *others)), strict=True)
                stacks = list(map(_stacked, columns))
                made = jax.vmap(lambda *data, op=first: self.matrix_of(_with(op, data)))(*stacks)
            place = self._table(n_wires).append(made)
            entries |= {number: place + row for row, number in enumerate(numbers)}
        return [entries[number] for number in range(len(operations))]

    def _table(self, n_wires: int) -> "_Table":
        return self._tables.setdefault(n_wires, _Table(self.dtype))

    def _add(self, entry: Entry, qubits: tuple[int, ...]) -> None:
        """Add a matrix to the run: to what waits on its wire, or after that."""
        if len(qubits) == 1:
            *others, last = (*self._pending.get(qubits[0], ()), entry)
            if others and isinstance(last, np.ndarray) and isinstance(others[-1], np.ndarray):
                others[-1] = last @ others[-1]
            else:
                others.append(last)
            self._pending[qubits[0]] = tuple(others)
            if len(others) == _LONGEST_PRODUCT:
                self._flush(qubits)
        elif len(qubits) == 2:
            first, second = (_Product(self._pending.pop(qubit, ())) for qubit in qubits)
            is_alone = not first.entries and not second.entries
            self._steps.append((qubits, entry if is_alone else _Pair(entry, first, second)))
        else:
            self._flush(qubits)
            self._steps.append((qubits, entry))

    def _flush(self, qubits: Sequence[int]) -> None:
        """Apply what waits on wires, on two at once."""
        waiting = [qubit for qubit in qubits if qubit in self._pending]
        for place in range(0, len(waiting), 2):
            some = tuple(waiting[place : place + 2])
            products = [_Product(self._pending.pop(qubit)) for qubit in some]
            self._steps.append((some, _Pair(None, *products) if len(some) == 2 else products[0]))

    def _evaluated(self) -> list[tuple[tuple[int, ...], Entry, bool]]:
        """Return the matrices of all steps, and whether they are unitary."""
        pairs = [what for _, what in self._steps if isinstance(what, _Pair)]
        alone = [what for _, what in self._steps if isinstance(what, _Product)]
        products = [p for pair in pairs for p in (pair.first, pair.second)]
        rows = dict(
            zip(map(id, [*alone, *products]), self._products([*alone, *products]), strict=True)
        )
        of_pairs = iter(self._pairs(pairs, rows))

        def matrix(what: Any) -> Any:
            return next(of_pairs) if isinstance(what, _Pair) else rows.get(id(what), what)

        return [
            (qubits, matrix(what), self._is_unitary(len(qubits), what))
            for qubits, what in self._steps
        ]

    def _is_unitary(self, n_qubits: int, what: Any) -> bool:
        """Tell whether what is applied is unitary, whatever its parameters."""
        if isinstance(what, _Pair):
            parts = [(1, what.first), (1, what.second), (2, what.entry)]
            return all(self._is_unitary(*part) for part in parts if part[1] is not None)
        if isinstance(what, _Product):
            return all(self._is_unitary(1, entry) for entry in what.entries)
        if isinstance(what, np.ndarray):
            return np.allclose(what @ what.conj().T, np.eye(len(what)), rtol=0, atol=_ROUNDING)
        return (n_qubits, what) not in self._not_unitary

    def _products(self, products: Sequence[_Product]) -> list[Entry]:
        """Return products of matrices of one wire."""
        done: dict[int, Entry] = {}
        several: list[int] = []
        for number, product in enumerate(products):
            if len(product.entries) > 1:
                several.append(number)
            else:
                done[number] = product.entries[0] if product.entries else np.eye(self.base)
        if several:
            table = self._table(1)
            length = 1 << max(len(products[n].entries) - 1 for n in several).bit_length()
            unit = table.row(np.eye(self.base))
            rows = [[table.row(entry) for entry in products[n].entries] for n in several]
            padded = np.array([row + [unit] * (length - len(row)) for row in rows])
            factors = table.array()[padded]
            while factors.shape[1] > 1:
                factors = factors[:, 1::2] @ factors[:, ::2]
            first = table.append(factors[:, 0])
            done |= {number: first + row for row, number in enumerate(several)}
        return [done[number] for number in range(len(products))]

    def _pairs(self, pairs: Sequence[_Pair], rows: dict[int, Entry]) -> list[Entry]:
        """Return the matrices of pairs."""
        done: dict[int, Entry] = {}
        computed: list[int] = []
        for number, pair in enumerate(pairs):
            parts = [rows[id(pair.first)], rows[id(pair.second)]]
            if all(isinstance(part, np.ndarray) for part in (*parts, self._entry(pair))):
                done[number] = self._entry(pair) @ np.kron(*parts)
            else:
                computed.append(number)
        if computed:
            ones, twos = self._table(1), self._table(2)
            first, second = (
                np.array([ones.row(rows[id(getattr(pairs[n], side))]) for n in computed])
                for side in ("first", "second")
            )
            last = np.array([twos.row(self._entry(pairs[n])) for n in computed])
            singles = ones.array()
            square = (len(computed), self.base**2, self.base**2)
            both = jnp.einsum("nab,ncd->nacbd", singles[first], singles[second]).reshape(square)
            place = twos.append(twos.array()[last] @ both)
            done |= {number: place + row for row, number in enumerate(computed)}
        return [done[number] for number in range(len(pairs))]

    def _entry(self, pair: _Pair) -> Entry:
        return np.eye(self.base**2) if pair.entry is None else pair.entry


@dataclass
class _Table:
    """Matrices of one size, in blocks."""

    dtype: np.dtype
    blocks: list[Any] = field(default_factory=list)
    _size: int = 0
    _rows: dict[bytes, int] = field(default_factory=dict)

    def append(self, block: Any) -> int:
        """Append a block of matrices; return the row of the first."""
        self.blocks.append(block.astype(self.dtype))
        self._size += len(block)
        return self._size - len(block)

    def row(self, entry: Entry) -> int:
        """Return the row of a matrix, which may be known."""
        if not isinstance(entry, np.ndarray):
            return entry
        key = entry.tobytes()
        if key not in self._rows:
            self._rows[key] = self.append(entry[None])
        return self._rows[key]

    def array(self) -> Any:
        """Return all matrices, one after the other."""
        return jnp.concatenate(self.blocks)


def _as_real(matrices: Any, parts: int) -> Any:
    """Return matrices as those of the parts and the entries of a state together."""
    if parts == 1:
        return matrices
    xp = np if isinstance(matrices, np.ndarray) else jnp
    real, imag = xp.real(matrices), xp.imag(matrices)
    rows = [xp.concatenate(row, 2) for row in ((real, -imag), (imag, real))]
    return xp.concatenate(rows, 1)


def _stacked(values: Sequence[Any]) -> Any:
    """Return parameters one after the other; of numbers, what ``vectorized`` makes one array."""
    dtype = jnp.result_type(*values)
    arrays = [jnp.asarray(value, dtype) for value in values]
    return pack(arrays) if arrays[0].ndim == 0 else jnp.stack(arrays)


def _with(op: Any, data: Sequence[Any]) -> Any:
    """Return an operation with other parameters."""
    if all(new is old for new, old in zip(data, op.data, strict=True)):
        return op
    with qml.QueuingManager.stop_recording():
        return bind_new_parameters(op, data)


def _numpy(number: Any) -> Any:
    return np.asarray(number) if isinstance(number, jax.Array) else number


def _kind(op: Any, number: int) -> Any:
    """Return what operations have in common that differ by parameters and wires alone.

    Args:
        op: the operation.
        number: one of its own, for operations that do not say what they are made of.
    """
    with qml.QueuingManager.stop_recording():
        on_first = op.map_wires({wire: place for place, wire in enumerate(op.wires)})
    tree = jax.tree.structure(on_first)
    try:
        hash(tree)
    except TypeError:
        return number
    return tree
