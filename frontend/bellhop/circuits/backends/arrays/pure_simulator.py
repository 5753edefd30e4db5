"""``default.qubit``: the state is a vector of amplitudes, and gates are matrices on it.

It is a real array of shape ``(2, 2**n)``, the real and the imaginary parts: two axes, the last one
long, and products of real matrices, which is what accelerators have.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.default_qubit import stopping_condition
from pennylane.devices.qubit import apply_operation, create_initial_state

from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import permute_qubits
from bellhop.circuits.backends.arrays.pauli_sums import (
    PauliTerm,
    apply_pauli_sum,
    stack_coefficients,
)
from bellhop.circuits.backends.arrays.simulator_base import Simulator, move_dynamic_qubits_to_front
from bellhop.circuits.gates.decompositions import strip_modifiers, unsupported_operation_error
from bellhop.circuits.gates.real_imag_inference import is_hermitian
from bellhop.circuits.ir.statistics import mixed_state_error
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, find_terms

# To the eigenvectors of X, Y and Z.
_BASES = np.array([[[1, 1], [1, -1]], [[1, -1j], [1, 1j]], [[2**0.5, 0], [0, 2**0.5]]]) / 2**0.5

_LETTERS = {"PauliX": "X", "PauliY": "Y", "PauliZ": "Z"}

# Gates of several parameters; those of one have a generator.
_UNITARY_GATES = (qml.Rot, qml.CRot, qml.U2, qml.U3, qml.GlobalPhase)


class PureSimulator(Simulator):
    """The amplitudes of all outcomes."""

    base = 2
    axes_per_qubit = 1
    n_components = 2
    max_fused_qubits = 4

    def prepare(self, preparation: Any = None) -> Any:
        """Return the amplitudes of a state."""
        if preparation is None:
            size = 2 ** len(self.wires)
            is_first = jax.lax.broadcasted_iota(np.int32, (2, size), 1) == 0
            is_real = jax.lax.broadcasted_iota(np.int32, (2, size), 0) == 0
            return (is_first & is_real).astype(self.dtype)
        return self._to_components(prepare_amplitudes(preparation, self.wires))

    def can_apply(self, op: Any) -> bool:
        """Tell whether PennyLane applies an operation as it is."""
        return is_supported_by_pennylane(op)

    def has_small_matrix(self, op: Any) -> bool:
        """Tell that an operation has one: all do that are applied."""
        return True

    def compute_matrix(self, op: Any) -> Any:
        """Return the matrix of a gate, which must be one of qubits."""
        matrix = op.matrix()
        if matrix.shape[-1] != 2 ** len(op.wires):
            raise unsupported_operation_error(op, self.where)
        return matrix

    def is_unitary(self, op: Any) -> bool:
        """Tell whether a gate is, whatever its parameters: it is a rotation."""
        while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
            op = op.base
        if any(map(jnp.iscomplexobj, op.data)):
            return False
        if isinstance(op, qml.ops.SymbolicOp):
            return isinstance(op, qml.ops.Evolution) and is_hermitian(op.base)
        return isinstance(op, _UNITARY_GATES) or (op.num_params == 1 and op.has_generator)

    def apply_single_operation(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Return the state after an operation, as PennyLane applies it."""
        by_qubit = self._reshape_by_qubit(state)
        if not any(map(is_dynamic, qubits)):
            return self._to_components(apply_operation(map_to_qubits(op, self.wires), by_qubit))
        there, back = move_dynamic_qubits_to_front(by_qubit, qubits)
        front = op.map_wires(dict(zip(op.wires, range(len(op.wires)), strict=True)))
        return self._to_components(back(apply_operation(front, there)))

    def _reshape_by_qubit(self, state: Any) -> Any:
        """Return amplitudes, with an axis for each qubit."""
        return self._to_complex(state).reshape((2,) * len(self.wires))

    def _to_complex(self, state: Any) -> Any:
        return jax.lax.complex(state[0], state[1])

    def _to_components(self, amplitudes: Any) -> Any:
        # Gates with parameters of half the precision must not change the type.
        vector = jnp.ravel(amplitudes)
        return jnp.stack([jnp.real(vector), jnp.imag(vector)]).astype(self.dtype)

    def compute_probability(self, state: Any) -> Any:
        """Return the squared norm."""
        return jnp.sum(jnp.real(state) ** 2 + jnp.imag(state) ** 2)

    def compute_moments(
        self, state: Any, observable: Any, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return moments by the state after the observable.

        PennyLane would diagonalize some, whose derivative is none where eigenvalues are equal.
        """
        words: list[PauliTerm] = []
        others: list[Any] = []
        for coefficient, factors in find_terms(observable, self.where):
            word = self._find_pauli_term(coefficient, factors)
            if word is not None:
                words.append(word)
            else:
                ops = list(map(_to_operation, factors))
                share = jnp.asarray(jnp.real(coefficient), self.dtype)
                others.append(
                    jax.tree.map(lambda x, c=share: c * x, self.apply_operations(ops, state))
                )
        amplitudes, after_words = self._get_amplitudes(state), self._get_pauli_sum(words, state)
        coefficients = stack_coefficients(words, self.dtype)
        if not others and not has_square:
            return self._compute_mean(after_words, amplitudes, coefficients), None
        after: Any = sum(self._get_amplitudes(other, state) for other in others)
        if words:
            after += after_words(amplitudes, coefficients)
        square = self._inner_product(after, after) if has_square else None
        return self._inner_product(amplitudes, after), square

    def _get_amplitudes(self, state: Any, like: Any = None) -> Any:
        """Return the amplitudes of a state, as they stand or as in another one."""
        del like
        return state

    def _get_pauli_sum(self, words: Sequence[PauliTerm], state: Any) -> Callable[[Any, Any], Any]:
        """Return what takes the amplitudes of a state, and coefficients, to a sum of words."""
        del state
        return lambda amplitudes, coefficients: apply_pauli_sum(words, amplitudes, coefficients)

    def _compute_mean(
        self, after: Callable[..., Any], amplitudes: Operand, coefficients: Operand
    ) -> Any:
        """Return the mean of a symmetric matrix, for whose derivative one state is kept."""

        @jax.custom_jvp
        def mean(amplitudes: Operand, coefficients: Operand) -> Any:
            return self._inner_product(amplitudes, after(amplitudes, coefficients))

        def rule(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
            amplitudes, coefficients = primals
            tangent, of_coefficients = tangents
            there = after(amplitudes, coefficients)
            value = self._inner_product(amplitudes, there)
            # So the state is read for the value before the derivative overwrites it.
            there = jnp.where(jnp.isnan(value), value, there)
            change: Any = jnp.zeros_like(value)
            if is_perturbed(tangent):
                change += 2 * self._inner_product(there, tangent)
            if is_perturbed(of_coefficients):
                change += self._inner_product(amplitudes, after(amplitudes, of_coefficients))
            return value, change

        mean.defjvp(rule, symbolic_zeros=True)
        return mean(amplitudes, coefficients)

    def _inner_product(self, one: Operand, other: Operand) -> Any:
        """Return the inner product of two states."""
        return jnp.sum(one * other)

    def _find_pauli_term(self, coefficient: Any, factors: Sequence[Factor]) -> PauliTerm | None:
        letters = [
            (self.wires(factor.wire), _LETTERS[factor.name])
            for factor in factors
            if isinstance(factor, NamedFactor) and factor.name in _LETTERS
        ]
        return PauliTerm(coefficient, letters) if len(letters) == len(factors) else None

    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the sums of squares of amplitudes."""
        squares = jnp.sum(state**2, axis=0, keepdims=True)
        return jnp.sum(self._to_outcome_rows(squares, qubits), axis=(0, 2))

    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the amplitudes, with axes of some qubits in front."""
        return jnp.moveaxis(self._reshape_by_qubit(state), qubits, range(len(qubits)))

    def project(self, state: Any, basis: Any) -> Any:
        """Return the halves of a state in a basis."""
        return jnp.tensordot(jnp.asarray(_BASES, state.dtype)[basis], state, 1)

    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the products of amplitudes."""
        rows = self._to_complex(self._to_outcome_rows(state, qubits))
        return jnp.matmul(rows, jnp.conj(rows).T, precision=jax.lax.Precision.HIGHEST)

    def _to_outcome_rows(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return parts of numbers, a row for each outcome of some qubits."""
        order = range(len(self.wires))
        others = [qubit for qubit in order if qubit not in qubits]
        in_front = permute_qubits(state, order, [*qubits, *others], self.base)
        return in_front.reshape(len(state), 2 ** len(qubits), -1)

    def to_state_result(self, state: Any, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the vector."""
        if is_mixture:
            raise mixed_state_error(self.where)
        vector = self._to_complex(self._gather_amplitudes(state))
        return vector * jnp.sqrt(self.compute_probability(state)) if is_divided else vector

    def _gather_amplitudes(self, state: Any) -> Any:
        """Return the amplitudes of all outcomes, in order."""
        return state


def is_supported_by_pennylane(op: Any) -> bool:
    """Tell whether PennyLane applies an operation to a state as it is."""
    if op.batch_size is not None:
        # Its parts are asked for one by one.
        return False
    if has_traced_power(op):
        # A power of a matrix is not differentiable everywhere, and decompositions are.
        return not strip_modifiers(op, ())[0].has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def prepare_amplitudes(preparation: Any, wires: WireMap) -> Any:
    """Return the amplitudes of what an operation prepares."""
    return create_initial_state(range(len(wires)), map_to_qubits(preparation, wires))


def map_to_qubits(part: Any, wires: WireMap) -> Any:
    """Return an operation or measurement with qubits in place of wire labels."""
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def has_traced_power(op: Any) -> bool:
    """Tell whether a power of what the program computes is in an operation."""
    if isinstance(op, qml.ops.CompositeOp):
        return any(map(has_traced_power, op))
    if not isinstance(op, qml.ops.SymbolicOp):
        return False
    is_power = isinstance(op, qml.ops.Pow) and any(map(is_dynamic, op.data))
    return is_power or has_traced_power(op.base)


def _to_operation(factor: Factor) -> Any:
    if isinstance(factor, NamedFactor):
        return getattr(qml, factor.name)(factor.wire)
    return qml.Hermitian(factor.matrix, wires=factor.wires)
