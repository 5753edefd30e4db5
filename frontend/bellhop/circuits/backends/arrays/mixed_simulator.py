"""``default.mixed``: the state is the means of all Pauli words, and operations are real matrices.

That takes half the memory of a density matrix and a quarter of the arithmetic, a partial trace is
a slice, and the mean of a Pauli word is an entry.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.matrices.matrix_sequence import MAX_WIRES
from bellhop.circuits.backends.arrays.pauli_transfer import (
    compute_transfer_matrix,
    from_pauli_basis,
    get_kraus_operators,
    has_scalar_parameters,
    make_left_multiplication,
    to_pauli_basis,
)
from bellhop.circuits.backends.arrays.pure_simulator import (
    is_supported_by_pennylane,
    prepare_amplitudes,
)
from bellhop.circuits.backends.arrays.simulator_base import Simulator, move_dynamic_qubits_to_front
from bellhop.circuits.gates.decompositions import IGNORED_OPERATIONS
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, find_terms, get_factor_matrix
from bellhop.errors import CompileError

_IGNORED = (*IGNORED_OPERATIONS, qml.GlobalPhase)
_LETTERS = {"PauliX": 1, "PauliY": 2, "PauliZ": 3}

# The probabilities of so many qubits are one product.
_QUBITS_PER_STEP = 4


class MixedSimulator(Simulator):
    """The means of all Pauli words, see ``pauli_transfer``.

    Outcomes are read wrongly with the probability ``readout_prob`` of the device.  That is a bit
    flip behind the gates that lead to the measured basis: words lose a share for each letter.
    """

    base = 4
    n_components = 1
    axes_per_qubit = 2
    max_fused_qubits = 2
    is_mixed = True

    def __init__(
        self, device: qml.devices.Device, wires: WireMap, where: str, dtype: np.dtype
    ) -> None:
        super().__init__(device, wires, where, dtype)
        self._readout_factor = 1 - 2 * (device.readout_err or 0.0)

    def prepare(self, preparation: Any = None) -> Any:
        """Return the means of a state."""
        n = len(self.wires)
        if preparation is None:
            means = functools.reduce(np.multiply.outer, [np.array([1.0, 0.0, 0.0, 1.0])] * n)
        else:
            amplitudes = prepare_amplitudes(preparation, self.wires).reshape(-1)
            means = to_pauli_basis(amplitudes[:, None] * amplitudes.conj(), n).real
        return jnp.asarray(means, self.dtype)

    def can_apply(self, op: qml.operation.Operator) -> bool:
        """Tell whether an operation has a matrix, or Kraus operators."""
        if not has_scalar_parameters(op):
            raise CompileError(
                f"{self.where}: {op.name} has an array of parameters, and PennyLane has no batches "
                "of channels. Give it numbers, and let jax.vmap go over the batch."
            )
        if isinstance(op, qml.operation.Channel):
            if op.batch_size is None and not any(map(is_dynamic, op.data)):
                self._check_channel(op)
            return op.batch_size is None
        if isinstance(op, qml.QubitDensityMatrix):
            return op.batch_size is None
        return isinstance(op, _IGNORED) or is_supported_by_pennylane(op)

    def _check_channel(self, op: qml.operation.Channel) -> None:
        """Let PennyLane check known numbers, while it is known where the user wrote them."""
        try:
            op.kraus_matrices()
        except ValueError as error:
            raise ValueError(f"{self.where}: {op.name}: {error}") from error

    def has_small_matrix(self, op: qml.operation.Operator) -> bool:
        """Tell whether an operation does more than preparing its wires, and anything at all."""
        return not isinstance(op, (*_IGNORED, qml.QubitDensityMatrix))

    def compute_matrix(self, op: qml.operation.Operator) -> Any:
        """Return the Pauli transfer matrix."""
        return compute_transfer_matrix(op, self.where)

    def is_unitary(self, op: qml.operation.Operator) -> bool:
        """Tell that a channel is not; gates are merged with those that follow them."""
        return False

    def apply_single_operation(
        self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any
    ) -> Any:
        """Return the state after an operation, those of its wires brought to the front."""
        if isinstance(op, _IGNORED):
            return state
        return _apply_to_leading_axes(self._make_row_function(op), state, qubits)

    def _make_row_function(self, op: qml.operation.Operator) -> Callable[[Any], Any]:
        """Return the function that an operation is of rows of means, those of its wires first."""
        k = len(op.wires)
        if isinstance(op, qml.QubitDensityMatrix):
            prepared = jnp.real(to_pauli_basis(op.data[0], k)).reshape(-1)
            return lambda rows: prepared[:, None] * rows[0]
        if k <= MAX_WIRES:
            matrix = compute_transfer_matrix(op, self.where)
            return lambda rows: jnp.asarray(matrix, rows.dtype) @ rows
        operators = get_kraus_operators(op, self.where)

        def apply(means: Operand) -> Any:
            before = from_pauli_basis(means.reshape((4,) * k), k)
            after = sum(operator @ before @ operator.conj().T for operator in operators)
            return jnp.real(to_pauli_basis(after, k)).reshape(-1)

        return jax.vmap(apply, in_axes=1, out_axes=1)

    def compute_probability(self, state: Any) -> Any:
        """Return the trace."""
        return state[(0,) * state.ndim]

    def compute_moments(
        self, state: Any, observable: qml.operation.Operator, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return moments of an observable whose words are each read with errors."""
        terms = find_terms(observable, self.where)
        means = self._apply_readout_error(state)
        mean = self._compute_terms_mean(means, terms)
        if not has_square:
            return mean, None
        if len(terms) == 1:
            ((coefficient, factors),) = terms
            squares = [
                f.__class__(f.wires, f.matrix @ f.matrix)
                for f in factors
                if not isinstance(f, NamedFactor)
            ]
            return mean, jnp.real(coefficient) ** 2 * self._compute_mean(means, squares)
        applied = sum(
            jnp.real(coefficient) * functools.reduce(self._multiply_from_left, factors, means)
            for coefficient, factors in terms
        )
        return mean, self._compute_terms_mean(applied, terms)

    def _apply_readout_error(self, state: Any) -> Any:
        if self._readout_factor == 1:
            return state
        shares = [np.array([1.0, *[self._readout_factor] * 3])] * state.ndim
        return state * jnp.asarray(functools.reduce(np.multiply.outer, shares), state.dtype)

    def _compute_terms_mean(self, means: Operand, terms: Sequence[Any]) -> Any:
        words = [self._find_pauli_letters(factors) for _, factors in terms]
        places = [np.ravel_multi_index(word, means.shape) for word in words if word is not None]
        of_words = iter(jnp.real(means.reshape(-1)[np.array(places, int)]))
        values = [
            self._compute_mean(means, factors) if word is None else next(of_words)
            for word, (_, factors) in zip(words, terms, strict=True)
        ]
        coefficients = [jnp.real(coefficient) for coefficient, _ in terms]
        return jnp.stack(coefficients) @ jnp.stack(values)

    def _find_pauli_letters(self, factors: Sequence[Factor]) -> tuple[int, ...] | None:
        """Return the letter of each qubit, or None for what is no Pauli word."""
        letters = [0] * len(self.wires)
        for factor in factors:
            if not isinstance(factor, NamedFactor) or factor.name not in _LETTERS:
                return None
            letters[self.wires(factor.wire)] = _LETTERS[factor.name]
        return tuple(letters)

    def _compute_mean(self, means: Operand, factors: Sequence[Factor]) -> Any:
        qubits = [self.wires(wire) for factor in factors for wire in factor.wires]
        rest = _trace_out(means, qubits)
        for factor in factors:
            k = len(factor.wires)
            shares = to_pauli_basis(get_factor_matrix(factor), k) / 2**k
            rest = jnp.tensordot(jnp.asarray(shares), rest, axes=k)
        return jnp.real(rest)

    def _multiply_from_left(self, means: Operand, factor: Factor) -> Any:
        """Return the means of a state that a factor was multiplied to from the left."""
        qubits = list(map(self.wires, factor.wires))
        matrix = make_left_multiplication(get_factor_matrix(factor), len(qubits))
        return _apply_to_leading_axes(lambda rows: jnp.asarray(matrix) @ rows, means, qubits)

    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the probabilities that outcomes are read with."""
        means = _trace_out(state, qubits)[(slice(None, None, 3),) * len(qubits)]
        one = np.array([[0.5, 0.5 * self._readout_factor], [0.5, -0.5 * self._readout_factor]])
        for first in range(0, len(qubits), _QUBITS_PER_STEP):
            k = len(qubits[first : first + _QUBITS_PER_STEP])
            signs = functools.reduce(np.kron, [one] * k)
            # The outcomes of these go behind those of the others.
            means = (jnp.asarray(signs, state.dtype) @ means.reshape(2**k, -1)).T
        return means.reshape(-1)

    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the means, with axes of some qubits in front."""
        return jnp.moveaxis(state, qubits, range(len(qubits)))

    def project(self, state: Any, basis: Any) -> Any:
        """Return the halves of a state in a basis, of outcomes that are read with errors."""
        letter = self._readout_factor * state[1 + basis]
        return jnp.stack([state[0] + letter, state[0] - letter]) / 2

    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the sum of all words by their means."""
        return from_pauli_basis(_trace_out(state, qubits), len(qubits))

    def to_state_result(self, state: Any, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the density matrix of all qubits."""
        return self.compute_density_matrix(state, range(state.ndim))


def _trace_out(means: Operand, qubits: Sequence[int]) -> Any:
    """Return the means of words on qubits, in their order."""
    kept = sorted(qubits)
    rest = means[tuple(slice(None) if qubit in kept else 0 for qubit in range(means.ndim))]
    return rest.transpose([kept.index(qubit) for qubit in qubits])


def _apply_to_leading_axes(
    function: Callable[[Any], Any], state: Any, qubits: Sequence[Any]
) -> Any:
    """Return a state after a function of rows, which are those of some qubits."""
    back: Callable[[Any], Any]
    if any(map(is_dynamic, qubits)):
        there, back = move_dynamic_qubits_to_front(state, qubits)
    else:
        order = [*qubits, *(qubit for qubit in range(state.ndim) if qubit not in qubits)]
        there, back = state.transpose(order), lambda after: after.transpose(np.argsort(order))
    rows = function(there.reshape(4 ** len(qubits), -1))
    return back(rows.reshape(state.shape))
