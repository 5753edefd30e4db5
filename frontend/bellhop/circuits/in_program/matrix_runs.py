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

# A matrix that is known, or the row of one in the table of those that the program computes.
Entry = np.ndarray | int

# Matrices of more wires are not made.
MOST_WIRES = 3

# So many factors of one wire are one product.
_LONGEST_PRODUCT = 32


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
    """

    base: int
    matrix_of: Callable[[Any], Any]
    _tables: dict[int, "_Table"] = field(default_factory=dict)
    _pending: dict[int, tuple[Entry, ...]] = field(default_factory=dict)
    _steps: list[Step] = field(default_factory=list)

    def applied(self, operations: Sequence[tuple[Any, tuple[int, ...]]], state: Any) -> Any:
        """Return a state after operations.

        Args:
            operations: pairs of an operation and its qubits.
            state: with an axis for each qubit.
        """
        entries = self._made(operations)
        for (_, qubits), entry in zip(operations, entries, strict=True):
            self._add(entry, qubits)
        self._flush(list(self._pending))
        matrices = self._evaluated()
        order = list(range(state.ndim))
        for (qubits, _), matrix in zip(self._steps, matrices, strict=True):
            now = [*qubits, *(qubit for qubit in order if qubit not in qubits)]
            rows = state.transpose([order.index(qubit) for qubit in now])
            rows = jnp.asarray(matrix, state.dtype) @ rows.reshape(len(matrix), -1)
            state, order = rows.reshape(state.shape), now
        return state.transpose([order.index(qubit) for qubit in range(state.ndim)])

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
                stacks = [jnp.stack(list(map(jnp.asarray, column))) for column in columns]
                made = jax.vmap(lambda *data, op=first: self.matrix_of(_with(op, data)))(*stacks)
            place = self._table(n_wires).append(made)
            entries |= {number: place + row for row, number in enumerate(numbers)}
        return [entries[number] for number in range(len(operations))]

    def _table(self, n_wires: int) -> "_Table":
        return self._tables.setdefault(n_wires, _Table())

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

    def _evaluated(self) -> list[Any]:
        """Return the matrices of all steps."""
        pairs = [what for _, what in self._steps if isinstance(what, _Pair)]
        alone = [what for _, what in self._steps if isinstance(what, _Product)]
        products = [p for pair in pairs for p in (pair.first, pair.second)]
        rows = dict(
            zip(map(id, [*alone, *products]), self._products([*alone, *products]), strict=True)
        )
        of_pairs = iter(self._pairs(pairs, rows))
        tables = {n_wires: table.array() for n_wires, table in self._tables.items() if table.blocks}

        def matrix(qubits: tuple[int, ...], what: Any) -> Any:
            entry = next(of_pairs) if isinstance(what, _Pair) else rows.get(id(what), what)
            return entry if isinstance(entry, np.ndarray) else tables[len(qubits)][entry]

        return [matrix(qubits, what) for qubits, what in self._steps]

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

    blocks: list[Any] = field(default_factory=list)
    _size: int = 0
    _rows: dict[bytes, int] = field(default_factory=dict)

    def append(self, block: Any) -> int:
        """Append a block of matrices; return the row of the first."""
        self.blocks.append(block)
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
