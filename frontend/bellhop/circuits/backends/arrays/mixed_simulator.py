"""Simulate ``default.mixed`` by expectation values of Pauli words.

Operations are real matrices on these values.  Compared with a density matrix, this takes half the
memory and a quarter of the arithmetic.  A partial trace is a slice, and the expectation value of a
Pauli word is an entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.matrices.angle_scan import MIN_OPERATIONS, AngleScan
from bellhop.circuits.backends.arrays.matrices.matrix_sequence import MAX_WIRES
from bellhop.circuits.backends.arrays.pauli_transfer import (
    compute_transfer_matrix,
    from_pauli_basis,
    get_kraus_operators,
    has_scalar_parameters,
    make_left_multiplication,
    to_pauli_basis,
)
from bellhop.circuits.backends.arrays.pennylane_operations import (
    is_supported_by_pennylane,
    prepare_amplitudes,
)
from bellhop.circuits.backends.arrays.simulator_base import Simulator, move_dynamic_qubits_to_front
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, find_terms, get_factor_matrix
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml

_WITHOUT_EFFECT = (OperationKind.IGNORED, OperationKind.GLOBAL_PHASE)
_LETTERS = {"PauliX": 1, "PauliY": 2, "PauliZ": 3}

# Number of qubits whose probabilities are computed in one matrix product.
_QUBITS_PER_STEP = 4


class MixedSimulator(Simulator):
    """A simulator of mixed states, as expectation values of all Pauli words.

    The state is a real array ``[4] * qubits``; indices 0 to 3 of a qubit's axis mean I, X, Y,
    Z. See ``pauli_transfer``.

    The device's ``readout_prob`` is the probability that an outcome is read wrongly. This is a bit
    flip after the gates that rotate to the measured basis: it multiplies the expectation value of a
    word by a factor for each of its letters X, Y, Z.

    Args:
        device: PennyLane device, whose ``readout_prob`` is used if it has one.
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        dtype: real dtype of the state.
    """

    base = 4
    n_components = 1
    axes_per_qubit = 2
    max_fused_qubits = 2
    is_mixed = True
    # Whether long sequences are applied in loops, which compile faster and run more slowly.
    uses_loops = False

    def __init__(
        self, device: qml.devices.Device, wires: WireMap, where: str, dtype: np.dtype
    ) -> None:
        super().__init__(device, wires, where, dtype)
        self._readout_factor = 1 - 2 * (getattr(device, "readout_err", None) or 0.0)

    def prepare(self, preparation: Any = None) -> Any:
        """Return the state ``|0...0>``, or the state that a preparation creates.

        Args:
            preparation: PennyLane preparation of a pure state; None for ``|0...0>``.

        Returns:
            real array ``[4] * qubits``, expectation values of all Pauli words.
        """
        n = len(self.wires)
        if preparation is None:
            pauli_values = functools.reduce(np.multiply.outer, [np.array([1.0, 0.0, 0.0, 1.0])] * n)
        else:
            amplitudes = prepare_amplitudes(preparation, self.wires).reshape(-1)
            pauli_values = to_pauli_basis(amplitudes[:, None] * amplitudes.conj(), n).real
        return jnp.asarray(pauli_values, self.dtype)

    def can_apply(self, op: qml.operation.Operator) -> bool:
        """Return whether an operation can be applied without decomposing it.

        True for gates that have a matrix, for channels, for preparations of a density matrix and
        for operations without effect, such as a global phase. An operation with a batch of
        parameters gives False, or raises the `CompileError`.

        Raises:
            CompileError: if a parameter of a channel is an array, such as a batch, and PennyLane
                expects a number.
            ValueError: if static parameters of a channel are invalid.
        """
        if not has_scalar_parameters(op):
            raise CompileError(
                f"{self.where}: a parameter of {op.name} is an array, expected a number, as "
                "PennyLane does not support batched channels. Map the circuit with jax.vmap."
            )
        kind = OperationKind.classify(op)
        if kind is OperationKind.CHANNEL:
            if op.batch_size is None and not any(map(is_dynamic, op.data)):
                self._check_channel(op)
            return op.batch_size is None
        if kind is OperationKind.DENSITY_MATRIX:
            return op.batch_size is None
        return kind in _WITHOUT_EFFECT or is_supported_by_pennylane(op)

    def _check_channel(self, op: qml.operation.Channel) -> None:
        """Raise a `ValueError` if PennyLane rejects a channel's static parameters."""
        try:
            op.kraus_matrices()
        except ValueError as error:
            raise ValueError(f"{self.where}: {op.name}: {error}") from error

    def _apply_sequence(self, sequence: Sequence[tuple[Any, tuple[int, ...]]], state: Any) -> Any:
        """Apply operations that have small matrices, in one loop or as fused matrices.

        The loop (`AngleScan`) is used if ``uses_loops`` is set, for at least `MIN_OPERATIONS`
        operations of a form that it supports; `is_orthogonal` becomes False.

        Args:
            sequence: pairs of an operation and the indices of its qubits, in order; may be empty.
            state: real array ``[4] * qubits``, the expectation values of all Pauli words.

        Returns:
            the new state, in the same shape.
        """
        if self.uses_loops and len(sequence) >= MIN_OPERATIONS:
            scan = AngleScan(self.compute_matrix)
            blocks = scan.make_blocks(sequence)
            if blocks is not None:
                self.is_orthogonal = False
                return scan.apply_blocks(blocks, state.reshape(1, -1)).reshape(state.shape)
        return super()._apply_sequence(sequence, state)

    def has_small_matrix(self, op: qml.operation.Operator) -> bool:
        """Return whether an operation is applied as a Pauli transfer matrix.

        False for operations without effect, such as a global phase, and for the preparation of a
        density matrix; `apply_single_operation` applies these.
        """
        kind = OperationKind.classify(op)
        return kind not in (*_WITHOUT_EFFECT, OperationKind.DENSITY_MATRIX)

    def compute_matrix(self, op: qml.operation.Operator) -> Any:
        """Return the Pauli transfer matrix of an operation."""
        return compute_transfer_matrix(op, self.where)

    def is_unitary(self, op: qml.operation.Operator) -> bool:
        """Return False: transfer matrices of channels are not orthogonal.

        Gates get the same answer, so that traced gates are fused with channels.
        """
        return False

    def apply_single_operation(
        self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any
    ) -> Any:
        """Apply an operation on many qubits, on dynamic qubits, or without a small matrix.

        Args:
            op: the operation, for instance a preparation of a density matrix.
            qubits: the index of the qubit of each of the operation's wires, static or traced.
            state: real array ``[4] * qubits``.

        Returns:
            the new state, in the same shape.
        """
        if OperationKind.classify(op) in _WITHOUT_EFFECT:
            return state
        return _apply_to_leading_axes(self._make_row_function(op), state, qubits)

    def _make_row_function(self, op: qml.operation.Operator) -> Callable[[Any], Any]:
        """Return an operation as a function of Pauli expectation values.

        Args:
            op: gate, channel or preparation of a density matrix.

        Returns:
            a function of an array ``[4**wires, rest]``, whose rows are the Pauli words on the
            operation's wires, to an array of the same shape.
        """
        k = len(op.wires)
        if OperationKind.classify(op) is OperationKind.DENSITY_MATRIX:
            prepared = jnp.real(to_pauli_basis(op.data[0], k)).reshape(-1)
            return lambda rows: prepared[:, None] * rows[0]
        if k <= MAX_WIRES:
            matrix = compute_transfer_matrix(op, self.where)
            return lambda rows: jnp.asarray(matrix, rows.dtype) @ rows
        operators = get_kraus_operators(op, self.where)

        def apply(pauli_values: Operand) -> Any:
            """Apply the Kraus operators to one column ``[4**wires]``, for `jax.vmap`."""
            before = from_pauli_basis(pauli_values.reshape((4,) * k), k)
            after = sum(operator @ before @ operator.conj().T for operator in operators)
            return jnp.real(to_pauli_basis(after, k)).reshape(-1)

        return jax.vmap(apply, in_axes=1, out_axes=1)

    def compute_probability(self, state: Any) -> Any:
        """Return the probability of the state: the expectation value of the identity."""
        return state[(0,) * state.ndim]

    def compute_moments(
        self, state: Any, observable: qml.operation.Operator, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return the expectation values of an observable and of its square.

        The device's readout errors are included in each term of the observable.

        Args:
            state: expectation values of Pauli words, array ``[4] * qubits``.
            observable: a Hermitian operator of PennyLane.
            has_square: whether to compute the second moment.

        Returns:
            two real scalars; the second is None without `has_square`.
        """
        terms = find_terms(observable, self.where)
        pauli_values = self._apply_readout_error(state)
        mean = self._compute_terms_mean(pauli_values, terms)
        if not has_square:
            return mean, None
        if len(terms) == 1:
            ((coefficient, factors),) = terms
            squares = [
                f.__class__(f.wires, f.matrix @ f.matrix)
                for f in factors
                if not isinstance(f, NamedFactor)
            ]
            return mean, jnp.real(coefficient) ** 2 * self._compute_mean(pauli_values, squares)
        applied = sum(
            jnp.real(coefficient)
            * functools.reduce(self._multiply_from_left, factors, pauli_values)
            for coefficient, factors in terms
        )
        return mean, self._compute_terms_mean(applied, terms)

    def _apply_readout_error(self, state: Any) -> Any:
        """Multiply the expectation values of Pauli words by a factor for each X, Y and Z.

        This has the effect of the device's readout errors on all measured expectation values.
        """
        if self._readout_factor == 1:
            return state
        shares = [np.array([1.0, *[self._readout_factor] * 3])] * state.ndim
        return state * jnp.asarray(functools.reduce(np.multiply.outer, shares), state.dtype)

    def _compute_terms_mean(self, pauli_values: Operand, terms: Sequence[Any]) -> Any:
        """Return the expectation value of a linear combination of products, a real scalar.

        Args:
            pauli_values: expectation values of Pauli words, array ``[4] * qubits``.
            terms: pairs of a coefficient and the product's factors on different wires.
        """
        words = [self._find_pauli_letters(factors) for _, factors in terms]
        places = [
            np.ravel_multi_index(word, pauli_values.shape) for word in words if word is not None
        ]
        of_words = iter(jnp.real(pauli_values.reshape(-1)[np.array(places, int)]))
        values = [
            self._compute_mean(pauli_values, factors) if word is None else next(of_words)
            for word, (_, factors) in zip(words, terms, strict=True)
        ]
        coefficients = [jnp.real(coefficient) for coefficient, _ in terms]
        return jnp.stack(coefficients) @ jnp.stack(values)

    def _find_pauli_letters(self, factors: Sequence[Factor]) -> tuple[int, ...] | None:
        """Return the index of a product of Pauli matrices in the state array.

        Args:
            factors: factors of a term of an observable, on different wires.

        Returns:
            for each qubit 0 to 3 for I, X, Y, Z; None if a factor is not X, Y or Z.
        """
        letters = [0] * len(self.wires)
        for factor in factors:
            if not isinstance(factor, NamedFactor) or factor.name not in _LETTERS:
                return None
            letters[self.wires(factor.wire)] = _LETTERS[factor.name]
        return tuple(letters)

    def _compute_mean(self, pauli_values: Operand, factors: Sequence[Factor]) -> Any:
        """Return the expectation value of a product of factors on disjoint wires.

        Args:
            pauli_values: expectation values of Pauli words, array ``[4] * qubits``.
            factors: Hermitian factors of an observable; none for the probability of the state.
        """
        qubits = [self.wires(wire) for factor in factors for wire in factor.wires]
        rest = _trace_out(pauli_values, qubits)
        for factor in factors:
            k = len(factor.wires)
            shares = to_pauli_basis(get_factor_matrix(factor), k) / 2**k
            rest = jnp.tensordot(jnp.asarray(shares), rest, axes=k)
        return jnp.real(rest)

    def _multiply_from_left(self, pauli_values: Operand, factor: Factor) -> Any:
        """Return ``Tr(P factor rho)`` for all Pauli words P, given ``Tr(P rho)``.

        Both are arrays ``[4] * qubits``; the result is complex.

        Args:
            pauli_values: ``Tr(P rho)``.
            factor: a matrix on some wires.
        """
        qubits = list(map(self.wires, factor.wires))
        matrix = make_left_multiplication(get_factor_matrix(factor), len(qubits))
        return _apply_to_leading_axes(lambda rows: jnp.asarray(matrix) @ rows, pauli_values, qubits)

    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the outcome probabilities of `qubits`, with the device's readout errors.

        Args:
            state: real array ``[4] * qubits``.
            qubits: distinct qubit indices, the most significant bit of an outcome first.

        Returns:
            array ``[2**len(qubits)]``.
        """
        pauli_values = _trace_out(state, qubits)[(slice(None, None, 3),) * len(qubits)]
        one = np.array([[0.5, 0.5 * self._readout_factor], [0.5, -0.5 * self._readout_factor]])
        for first in range(0, len(qubits), _QUBITS_PER_STEP):
            k = len(qubits[first : first + _QUBITS_PER_STEP])
            signs = functools.reduce(np.kron, [one] * k)
            # The transposition puts the processed qubits after the remaining qubits.
            pauli_values = (jnp.asarray(signs, state.dtype) @ pauli_values.reshape(2**k, -1)).T
        return pauli_values.reshape(-1)

    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the state with `qubits` as leading axes."""
        return jnp.moveaxis(state, qubits, range(len(qubits)))

    def project(self, state: Any, basis: Any) -> Any:
        """Project the first qubit on both eigenstates of X, Y or Z, with readout errors.

        Args:
            state: array ``[4] * qubits`` of the qubits that are not measured yet.
            basis: traced integer, 0, 1, 2 for X, Y, Z.

        Returns:
            array ``[2, *[4] * (qubits - 1)]``, the unnormalized state of the remaining qubits for
            each outcome.
        """
        letter = self._readout_factor * state[1 + basis]
        return jnp.stack([state[0] + letter, state[0] - letter]) / 2

    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the reduced density matrix of `qubits`."""
        return from_pauli_basis(_trace_out(state, qubits), len(qubits))

    def to_state_result(self, state: Any, name: str, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the density matrix of all qubits, the result of ``qml.state``.

        Only `state` is used; the remaining arguments are for simulators of pure states.
        """
        return self.compute_density_matrix(state, range(state.ndim))


def _trace_out(pauli_values: Operand, qubits: Sequence[int]) -> Any:
    """Return the reduced state of some qubits, as Pauli expectation values.

    Args:
        pauli_values: array with an axis of four for each qubit of the state.
        qubits: qubits to keep, in the order of the result's axes.
    """
    kept = sorted(qubits)
    rest = pauli_values[
        tuple(slice(None) if qubit in kept else 0 for qubit in range(pauli_values.ndim))
    ]
    return rest.transpose([kept.index(qubit) for qubit in qubits])


def _apply_to_leading_axes(
    function: Callable[[Any], Any], state: Any, qubits: Sequence[Any]
) -> Any:
    """Move `qubits` to the leading axes, apply `function`, and move them back.

    Args:
        function: takes and returns an array ``[4**len(qubits), rest]``.
        state: array with an axis of four for each qubit.
        qubits: static or traced indices of the state's axes.
    """
    restore_order: Callable[[Any], Any]
    if any(map(is_dynamic, qubits)):
        in_front, restore_order = move_dynamic_qubits_to_front(state, qubits)
    else:
        order = [*qubits, *(qubit for qubit in range(state.ndim) if qubit not in qubits)]
        in_front = state.transpose(order)
        restore_order = lambda after: after.transpose(np.argsort(order))
    rows = function(in_front.reshape(4 ** len(qubits), -1))
    return restore_order(rows.reshape(state.shape))
