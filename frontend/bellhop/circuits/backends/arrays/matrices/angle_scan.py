"""Apply gates with one angle each, and constant operations, in one loop.

The transfer matrix (``pauli_transfer.py``) of a gate with the angle x, such as RX, CRY or
ControlledPhaseShift, is a trigonometric polynomial of x::

    R(x) = C0 + C1 cos(x/2) + C2 sin(x/2) + C3 cos(x) + C4 sin(x)

NumPy computes the coefficients C while the circuit is traced, and multiplies them by the constant
matrices of the neighboring operations.  So the program has, for any number of operations, the
sines and cosines of all angles, one product with the coefficients, and one loop::

    operations    RX(a) 0, CNOT 0 1, measurement of 0, RX(b) 1
    multiplied    (measurement CNOT) RX(a), RX(b)

XLA compiles this in less time than fused matrices, and runs it more slowly.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.matrices.scan_matrices import ScanSteps
from bellhop.circuits.backends.arrays.pennylane_operations import map_to_first_axes, stop_recording
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import is_dynamic

# Shorter sequences compile faster as fused matrices.
MIN_OPERATIONS = 4

_N_TERMS = 5
# Angles at which coefficients are fitted, and angles at which the fit is checked.
_FITTED = 4 * np.pi / _N_TERMS * np.arange(_N_TERMS)
_CHECKED = np.array([0.9, 4.1])
_TOLERANCE = 1e-12
_BITS = 2
# Gates with several angles are decomposed at most so often.
_MAX_DEPTH = 3
_WITHOUT_EFFECT = (OperationKind.IGNORED, OperationKind.GLOBAL_PHASE)


def _compute_terms(angles: Any, xp: Any) -> Any:
    """Return 1, cos(x/2), sin(x/2), cos(x), sin(x) of each angle, on a new last axis."""
    half = angles / 2
    terms = xp.cos(half), xp.sin(half), xp.cos(angles), xp.sin(angles)
    return xp.stack([xp.ones_like(angles), *terms], axis=-1)


@dataclass
class _Block:
    """The matrix of operations on few qubits, constant or a function of one traced angle.

    It is a Pauli transfer matrix, which acts on the expectation values of Pauli words.

    Attributes:
        qubits: the qubits, in the order of the matrix.
        coefficients: NumPy array ``[5, rows, rows]``, the coefficients of ``1, cos(x/2), sin(x/2),
            cos(x), sin(x)`` in the matrix for the angle x, with ``rows = 4**len(qubits)``; ``[1,
            rows, rows]`` without an angle, the matrix itself.
        angle: the angle, a traced scalar; None if all operations are constant.
    """

    qubits: tuple[int, ...]
    coefficients: np.ndarray
    angle: Any = None

    def extend(self, qubits: tuple[int, ...]) -> "_Block":
        """Return the block on more qubits, with the identity on the added qubits.

        Args:
            qubits: all qubits of the result, in the order of its matrix; contains this block's
                qubits.
        """
        others = tuple(qubit for qubit in qubits if qubit not in self.qubits)
        k, n = len(self.qubits), len(qubits)
        unit = np.eye(4 ** (n - k))
        embedded = np.einsum("tab,cd->tacbd", self.coefficients, unit)
        axes = [(*self.qubits, *others).index(qubit) for qubit in qubits]
        order = [0, *(1 + axis for axis in axes), *(1 + n + axis for axis in axes)]
        whole = embedded.reshape(-1, *(4,) * (2 * n)).transpose(order)
        return _Block(qubits, whole.reshape(-1, 4**n, 4**n), self.angle)

    def multiply(self, after: "_Block") -> "_Block":
        """Return the block that applies this block and then `after`: ``after @ self``.

        At most one of the two blocks may have an angle. The result acts on the qubits of both, this
        block's qubits first.
        """
        qubits = (*self.qubits, *(q for q in after.qubits if q not in self.qubits))
        one, other = self.extend(qubits), after.extend(qubits)
        angle = self.angle if after.angle is None else after.angle
        return _Block(qubits, other.coefficients @ one.coefficients, angle)


@dataclass
class AngleScan:
    """Applies operations to a mixed state in one loop, with at most one angle per iteration.

    The state is an array of expectation values of all Pauli words, on one device. `make_blocks`
    multiplies constant operations with neighboring gates, such as CNOT with RX(a); `apply_blocks`
    applies the products. `MixedSimulator` makes an instance for a sequence of operations.

    Args:
        compute_matrix: returns the Pauli transfer matrix of an operation, a NumPy array if it is
            static.

    Attributes:
        is_orthogonal: False, since channels are not orthogonal.
    """

    compute_matrix: Callable[[Any], Any]
    is_orthogonal: bool = field(default=False, init=False)
    # Coefficients by the structure of an operation and its constant parameters.
    _known: dict[Any, np.ndarray | None] = field(default_factory=dict, init=False)

    def make_blocks(self, operations: Sequence[tuple[Any, tuple[int, ...]]]) -> list[_Block] | None:
        """Multiply neighboring operations to blocks with at most one angle each.

        Args:
            operations: pairs of an operation and the indices of its qubits, in order; not empty.

        Returns:
            the blocks in order; None if the matrix of an operation, or of a part of its
            decomposition, is neither constant nor a linear combination of 1 and the cosines and
            sines of x and x/2, for one traced angle x.
        """
        width = max(2, *(len(qubits) for _, qubits in operations))
        blocks: list[_Block] = []
        # For each qubit, the index of the last block that acts on it.
        last: dict[int, int] = {}
        for block in itertools.chain.from_iterable(
            self._make_blocks_of_operation(op, qubits) for op, qubits in operations
        ):
            if block is None:
                return None
            qubits = block.qubits
            first = max(last.get(qubit, 0) for qubit in qubits)
            fitting = (
                number
                for number in range(first, len(blocks))
                if len({*blocks[number].qubits, *qubits}) <= width
                and (block.angle is None or blocks[number].angle is None)
            )
            number = next(fitting, len(blocks))
            if number < len(blocks):
                blocks[number] = blocks[number].multiply(block)
            else:
                blocks.append(block)
            last.update(dict.fromkeys(qubits, number))
        return blocks

    def _make_blocks_of_operation(
        self, op: Any, qubits: tuple[int, ...], depth: int = 0
    ) -> Iterator[_Block | None]:
        """Yield an operation as a block, or the blocks of the gates in its decomposition.

        A block is a matrix that is constant or a function of one angle (`_make_block`). A gate
        whose matrix has neither form is decomposed, at most three times in succession. If a gate
        cannot be decomposed (further), None is yielded in its place.

        Args:
            op: a gate, channel or other operation with a matrix.
            qubits: the qubits of `op`.
            depth: the number of decompositions that the operation results from.
        """
        block = self._make_block(op, qubits)
        if block is not None or depth == _MAX_DEPTH or not op.has_decomposition:
            yield block
            return
        by_wire = dict(zip(op.wires, qubits, strict=True))
        with stop_recording():
            parts = op.decomposition()
        for part in parts:
            if OperationKind.classify(part) not in _WITHOUT_EFFECT:
                on = tuple(by_wire[wire] for wire in part.wires)
                yield from self._make_blocks_of_operation(part, on, depth + 1)

    def _make_block(self, op: Any, qubits: tuple[int, ...]) -> _Block | None:
        """Return the matrix of an operation as a block: constant, or a function of one angle.

        The coefficients are cached by the structure and the constant parameters of the operation.

        Args:
            op: a gate, channel or other operation with a matrix.
            qubits: the qubits of `op`.

        Returns:
            the block; None if the matrix is neither constant nor a linear combination of 1 and the
            cosines and sines of x and x/2, for one traced real scalar x. None for a channel with a
            traced parameter.
        """
        parameters = get_parameters(op)
        dynamic = [number for number, value in enumerate(parameters) if is_dynamic(value)]
        angle = parameters[dynamic[0]] if dynamic else None
        if angle is not None and (
            len(dynamic) > 1
            or angle.ndim
            or not jnp.issubdtype(angle.dtype, jnp.floating)
            # The parameters of channels are probabilities, which must not leave [0, 1].
            or OperationKind.classify(op) is OperationKind.CHANNEL
        ):
            return None
        constants = tuple(np.asarray(v).tobytes() for v in parameters if not is_dynamic(v))
        key = jax.tree.structure(map_to_first_axes(op)), constants
        if key not in self._known:
            self._known[key] = (
                self._compute_constant(op)
                if angle is None
                else self._fit_coefficients(op, parameters, dynamic[0])
            )
        coefficients = self._known[key]
        return None if coefficients is None else _Block(qubits, coefficients, angle)

    def _compute_constant(self, op: Any) -> np.ndarray | None:
        """Return an operation's matrix as a NumPy array ``[1, rows, rows]``; None if traced."""
        matrix = self.compute_matrix(op)
        return matrix[None] if isinstance(matrix, np.ndarray) else None

    def _fit_coefficients(
        self, op: Any, parameters: Sequence[Any], number: int
    ) -> np.ndarray | None:
        """Fit the coefficients of an operation's matrix as a function of its angle.

        Args:
            parameters: the parameters of `op`, static except for the angle.
            number: the index of the angle among the parameters.

        Returns:
            array ``[5, rows, rows]``, the coefficients of ``1, cos(x/2), sin(x/2), cos(x), sin(x)``
            for the angle x; None if the matrix is not such a sum.
        """

        def compute(angle: float) -> Any:
            """Return the matrix of the operation for a static angle."""
            changed = [*parameters[:number], np.float64(angle), *parameters[number + 1 :]]
            return self.compute_matrix(replace_parameters(op, changed))

        matrices = np.stack([np.asarray(compute(x)) for x in (*_FITTED, *_CHECKED)])
        shape = matrices.shape[1:]
        flat = matrices.reshape(len(matrices), -1)
        fitted = np.linalg.solve(_compute_terms(_FITTED, np), flat[:_N_TERMS])
        error = _compute_terms(_CHECKED, np) @ fitted - flat[_N_TERMS:]
        fitted[abs(fitted) < _TOLERANCE] = 0
        return fitted.reshape(_N_TERMS, *shape) if np.all(abs(error) < _TOLERANCE) else None

    def apply_blocks(self, blocks: Sequence[_Block], state: Operand) -> Any:
        """Apply blocks to a state, one after another in a loop.

        Args:
            blocks: the blocks in order.
            state: real array ``[1, 4**qubits]``, expectation values of all Pauli words.

        Returns:
            the state after all blocks, in the same shape.
        """
        n_qubits = (state.shape[1].bit_length() - 1) // _BITS
        in_order = tuple(range(n_qubits))
        width = min(n_qubits, max(len(block.qubits) for block in blocks))
        whole = [_pad_block(block, width, in_order) for block in blocks]
        orders = [(*b.qubits, *(q for q in in_order if q not in b.qubits)) for b in whole]
        steps = ScanSteps(_BITS, (in_order, *orders, in_order))
        return steps.apply(state, _compute_matrices(whole, state.dtype))


def _pad_block(block: _Block, width: int, in_order: tuple[int, ...]) -> _Block:
    """Extend a block to `width` qubits, and its coefficients to all five terms.

    Args:
        block: a block on at most ``width`` qubits.
        width: number of qubits of the result.
        in_order: all qubits of the state. The first of them that the block lacks are added to it,
            and its matrix is the identity on them.

    Returns:
        a block with coefficients ``[5, 4**width, 4**width]``; terms that the block lacks are zero.
    """
    others = [qubit for qubit in in_order if qubit not in block.qubits]
    padded = block.extend((*block.qubits, *others[: width - len(block.qubits)]))
    n_missing = _N_TERMS - len(padded.coefficients)
    padded.coefficients = np.pad(padded.coefficients, ((0, n_missing), (0, 0), (0, 0)))
    return padded


def _compute_matrices(blocks: Sequence[_Block], dtype: np.dtype) -> Any:
    """Return the matrices of blocks at their angles, ``[blocks, rows, rows]``.

    Args:
        blocks: blocks on equally many qubits, with all five terms (`_pad_block`).
        dtype: real dtype of the result.
    """
    tables: dict[bytes, int] = {}
    numbers = [tables.setdefault(block.coefficients.tobytes(), len(tables)) for block in blocks]
    shape = blocks[0].coefficients.shape
    table = np.stack([np.frombuffer(each).reshape(shape) for each in tables])
    angles = [block.angle for block in blocks if block.angle is not None]
    if not angles:
        return jnp.asarray(table[numbers, 0], dtype)
    common = functools.reduce(jnp.promote_types, [angle.dtype for angle in angles], dtype)
    # Constant blocks have the coefficient of 1 alone, for any angle.
    of_blocks = [angles[0] if block.angle is None else block.angle for block in blocks]
    terms = _compute_terms(stack_scalars([jnp.asarray(x, common) for x in of_blocks]), jnp)
    # XLA would evaluate the selection of constants while it compiles.
    chosen = jax.lax.optimization_barrier(jnp.asarray(table, dtype))[np.array(numbers)]
    return jnp.einsum("bt,btij->bij", terms.astype(dtype), chosen)
