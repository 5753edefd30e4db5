"""Simulate ``default.qubit``: a state vector and gates as matrices.

The state is a real array ``[2, 2**n]`` of real and imaginary parts.  Accelerators are fastest with
few, long axes and real matrix products.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand, PyTree
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import permute_qubits
from bellhop.circuits.backends.arrays.pauli_sums import (
    PauliTerm,
    apply_pauli_sum,
    stack_coefficients,
)
from bellhop.circuits.backends.arrays.pennylane_operations import (
    apply_to_amplitudes,
    is_supported_by_pennylane,
    is_unitary,
    map_to_first_axes,
    map_to_qubits,
    prepare_amplitudes,
)
from bellhop.circuits.backends.arrays.simulator_base import Simulator, move_dynamic_qubits_to_front
from bellhop.circuits.gates.decompositions import unsupported_operation_error
from bellhop.circuits.ir.statistics import ExactValues
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.observables import (
    Factor,
    NamedFactor,
    find_terms,
    make_factor_operation,
)

# Rotations to the eigenbases of X, Y and Z; the rows are conjugated eigenvectors.
_BASES = np.array([[[1, 1], [1, -1]], [[1, -1j], [1, 1j]], [[2**0.5, 0], [0, 2**0.5]]]) / 2**0.5

_LETTERS = {"PauliX": "X", "PauliY": "Y", "PauliZ": "Z"}


class PureSimulator(Simulator):
    """A simulator of pure states, as amplitudes of all basis states.

    A state is a real array ``[2, 2**n]``, the real and imaginary parts of the amplitudes.
    """

    base = 2
    axes_per_qubit = 1
    n_components = 2
    max_fused_qubits = 4

    def prepare(self, preparation: Any = None) -> Any:
        """Return the state that a preparation creates; ``|0...0>`` for None."""
        if preparation is None:
            size = 2 ** len(self.wires)
            is_first = jax.lax.broadcasted_iota(np.int32, (2, size), 1) == 0
            is_real = jax.lax.broadcasted_iota(np.int32, (2, size), 0) == 0
            return (is_first & is_real).astype(self.dtype)
        return self._to_components(prepare_amplitudes(preparation, self.wires))

    def can_apply(self, op: Any) -> bool:
        """Return whether PennyLane can apply an operation without decomposing it."""
        return is_supported_by_pennylane(op)

    def has_small_matrix(self, op: Any) -> bool:
        """Return True: all operations that are applied have a matrix."""
        return True

    def compute_matrix(self, op: Any) -> Any:
        """Return PennyLane's matrix of a gate, ``[2**wires, 2**wires]``, real or complex.

        It is a NumPy array if the gate's parameters are static.

        Raises:
            CompileError: if the gate does not act on qubits.
        """
        matrix = op.matrix()
        if matrix.shape[-1] != 2 ** len(op.wires):
            raise unsupported_operation_error(op, self.where)
        return matrix

    def is_unitary(self, op: Any) -> bool:
        """Return whether a parametrized gate is unitary for all values of its parameters."""
        return is_unitary(op)

    def apply_single_operation(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Apply one operation on static or dynamic qubits with PennyLane.

        Args:
            op: the operation to apply.
            qubits: the index of the qubit of each of the operation's wires, static or traced.
            state: real array ``[2, 2**n]``.
        """
        by_qubit = self._reshape_by_qubit(state)
        if not any(map(is_dynamic, qubits)):
            return self._to_components(apply_to_amplitudes(map_to_qubits(op, self.wires), by_qubit))
        in_front, restore_order = move_dynamic_qubits_to_front(by_qubit, qubits)
        applied = apply_to_amplitudes(map_to_first_axes(op), in_front)
        return self._to_components(restore_order(applied))

    def _reshape_by_qubit(self, state: Any) -> Any:
        """Return complex amplitudes, with an axis for each qubit."""
        return self._to_complex(state).reshape((2,) * len(self.wires))

    def _to_complex(self, state: Any) -> Any:
        """Return the complex amplitudes ``[2**n]`` of a real array ``[2, 2**n]``."""
        return jax.lax.complex(state[0], state[1])

    def _to_components(self, amplitudes: Any) -> Any:
        """Return the real and imaginary parts ``[2, 2**n]`` of complex amplitudes."""
        # Gates with parameters of lower precision must not change the state's dtype.
        vector = jnp.ravel(amplitudes)
        return jnp.stack([jnp.real(vector), jnp.imag(vector)]).astype(self.dtype)

    def compute_probability(self, state: Any) -> Any:
        """Return the squared norm of the state."""
        return jnp.sum(jnp.real(state) ** 2 + jnp.imag(state) ** 2)

    def compute_moments(
        self, state: Any, observable: Any, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return the expectation values of an observable and of its square.

        Both are inner products with the state after the observable is applied. PennyLane
        diagonalizes some observables instead, which has no derivative at degenerate eigenvalues.

        Args:
            state: array ``[2, 2**n]``.
            has_square: whether to compute the second moment.

        Returns:
            two real scalars; the second is None without `has_square`.
        """
        words: list[PauliTerm] = []
        others: list[Any] = []
        for coefficient, factors in find_terms(observable, self.where):
            word = self._find_pauli_term(coefficient, factors)
            if word is not None:
                words.append(word)
            else:
                ops = list(map(make_factor_operation, factors))
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
        """Return the amplitudes ``[2, 2**n]`` of a state.

        A subclass with states of different qubit orders returns them in the order of `like`.
        """
        del like
        return state

    def _get_pauli_sum(self, words: Sequence[PauliTerm], state: Any) -> Callable[[Any, Any], Any]:
        """Return a function that applies a sum of Pauli words to amplitudes.

        Args:
            words: the Pauli words; their own coefficients are not used.
            state: the state, whose qubit layout a partitioned simulator needs.

        Returns:
            ``function(amplitudes, coefficients) -> amplitudes``, with coefficients ``[words]``.
        """
        del state
        return lambda amplitudes, coefficients: apply_pauli_sum(words, amplitudes, coefficients)

    def _compute_mean(
        self, after: Callable[..., Any], amplitudes: Operand, coefficients: Operand
    ) -> Any:
        """Return the expectation value ``<psi|A|psi>`` of an observable, a real scalar.

        Its derivative with respect to the state ``psi`` keeps only ``A psi`` in memory; the
        derivative with respect to the coefficients keeps ``psi`` too.

        Args:
            after: ``after(amplitudes, coefficients)`` applies the observable, a Hermitian matrix
                that is linear in the coefficients of its terms.
            amplitudes: the state, real array ``[2, 2**n]``.
            coefficients: real array ``[terms]``.
        """

        @jax.custom_jvp
        def mean(amplitudes: Operand, coefficients: Operand) -> Any:
            return self._inner_product(amplitudes, after(amplitudes, coefficients))

        def rule(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
            """JVP rule of the mean: a Hermitian ``A`` has the tangent ``2 <A psi, d psi>``.

            Primals and tangents (arrays or symbolic zeros) are amplitudes and coefficients.
            """
            amplitudes, coefficients = primals
            tangent, of_coefficients = tangents
            applied = after(amplitudes, coefficients)
            value = self._inner_product(amplitudes, applied)
            # This dependence makes XLA read the state before the derivative overwrites it.
            applied = jnp.where(jnp.isnan(value), value, applied)
            change: Any = jnp.zeros_like(value)
            if is_perturbed(tangent):
                change += 2 * self._inner_product(applied, tangent)
            if is_perturbed(of_coefficients):
                change += self._inner_product(amplitudes, after(amplitudes, of_coefficients))
            return value, change

        mean.defjvp(rule, symbolic_zeros=True)
        return mean(amplitudes, coefficients)

    def _inner_product(self, one: Operand, other: Operand) -> Any:
        """Return the real inner product of two states."""
        return jnp.sum(one * other)

    def _find_pauli_term(self, coefficient: Any, factors: Sequence[Factor]) -> PauliTerm | None:
        """Convert a product of factors to a Pauli word with a coefficient.

        Args:
            coefficient: scalar of the product.
            factors: factors on different wires, for instance of ``X(0) @ Z(1)``.

        Returns:
            the Pauli word; None if a factor is not X, Y or Z.
        """
        letters = [
            (self.wires(factor.wire), _LETTERS[factor.name])
            for factor in factors
            if isinstance(factor, NamedFactor) and factor.name in _LETTERS
        ]
        return PauliTerm(coefficient, letters) if len(letters) == len(factors) else None

    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the outcome probabilities of `qubits`: sums of squared amplitudes."""
        squares = jnp.sum(state**2, axis=0, keepdims=True)
        return jnp.sum(self._to_outcome_rows(squares, qubits), axis=(0, 2))

    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return complex amplitudes, with an axis for each qubit and `qubits` in front."""
        return jnp.moveaxis(self._reshape_by_qubit(state), qubits, range(len(qubits)))

    def project(self, state: Any, basis: Any) -> Any:
        """Project the first qubit on both eigenstates of X, Y or Z.

        Args:
            state: complex array ``[2] * qubits`` of the qubits that are not measured yet.
            basis: traced integer, 0, 1, 2 for X, Y, Z.

        Returns:
            array ``[2, *[2] * (qubits - 1)]``, the unnormalized state of the remaining qubits for
            each outcome.
        """
        return jnp.tensordot(jnp.asarray(_BASES, state.dtype)[basis], state, 1)

    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the reduced density matrix of `qubits`."""
        rows = self._to_complex(self._to_outcome_rows(state, qubits))
        return jnp.matmul(rows, jnp.conj(rows).T, precision=jax.lax.Precision.HIGHEST)

    def _to_outcome_rows(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return amplitudes with a row for each outcome of `qubits`.

        Args:
            state: array ``[components, 2**n]``.
            qubits: distinct qubit indices, the most significant bit of an outcome first.

        Returns:
            array ``[components, 2**len(qubits), rest]``.
        """
        order = range(len(self.wires))
        others = [qubit for qubit in order if qubit not in qubits]
        in_front = permute_qubits(state, order, [*qubits, *others], self.base)
        return in_front.reshape(len(state), 2 ** len(qubits), -1)

    def to_state_result(self, state: Any, name: str, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the complex state vector ``[2**n]``, the result of ``qml.state``.

        Args:
            state: the state at the end of the circuit.
            name: the user's measurement, such as ``state``, for errors.
            is_mixture: whether the circuit ends in a mixture of several branches.
            is_divided: whether the caller later divides the result by the state's probability. Then
                the result is multiplied by the square root of the probability, so that the quotient
                is normalized.

        Raises:
            CompileError: for a mixture.
        """
        if is_mixture:
            raise ExactValues.mixed_state_error(self.where, name)
        vector = self._to_complex(self._gather_amplitudes(state))
        return vector * jnp.sqrt(self.compute_probability(state)) if is_divided else vector

    def _gather_amplitudes(self, state: Any) -> Any:
        """Return the amplitudes ``[2, 2**n]`` of all basis states, in order of their index."""
        return state
