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
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import permuted
from bellhop.circuits.backends.arrays.pauli_sums import Word, applied, coefficients_of
from bellhop.circuits.backends.arrays.simulator_base import Simulator, brought_to_front
from bellhop.circuits.gates.decompositions import not_applied, split
from bellhop.circuits.gates.real_imag_inference import is_hermitian
from bellhop.circuits.ir.statistics import state_of_mixture
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.observables import Factor, NamedFactor, terms_of

# To the eigenvectors of X, Y and Z.
_BASES = np.array([[[1, 1], [1, -1]], [[1, -1j], [1, 1j]], [[2**0.5, 0], [0, 2**0.5]]]) / 2**0.5

_LETTERS = {"PauliX": "X", "PauliY": "Y", "PauliZ": "Z"}

# Gates of several parameters; those of one have a generator.
_UNITARY = (qml.Rot, qml.CRot, qml.U2, qml.U3, qml.GlobalPhase)


class PureSimulator(Simulator):
    """The amplitudes of all outcomes."""

    base = 2
    sides = 1
    parts = 2
    most_at_once = 4

    def prepared(self, preparation: Any = None) -> Any:
        """Return the amplitudes of a state."""
        if preparation is None:
            size = 2 ** len(self.wires)
            is_first = jax.lax.broadcasted_iota(np.int32, (2, size), 1) == 0
            is_real = jax.lax.broadcasted_iota(np.int32, (2, size), 0) == 0
            return (is_first & is_real).astype(self.dtype)
        return self._in_parts(initial_amplitudes(preparation, self.wires))

    def applies(self, op: Any) -> bool:
        """Tell whether PennyLane applies an operation as it is."""
        return is_applied(op)

    def has_small_matrix(self, op: Any) -> bool:
        """Tell that an operation has one: all do that are applied."""
        return True

    def matrix(self, op: Any) -> Any:
        """Return the matrix of a gate, which must be one of qubits."""
        matrix = op.matrix()
        if matrix.shape[-1] != 2 ** len(op.wires):
            raise not_applied(op, self.where)
        return matrix

    def is_unitary(self, op: Any) -> bool:
        """Tell whether a gate is, whatever its parameters: it is a rotation."""
        while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
            op = op.base
        if any(map(jnp.iscomplexobj, op.data)):
            return False
        if isinstance(op, qml.ops.SymbolicOp):
            return isinstance(op, qml.ops.Evolution) and is_hermitian(op.base)
        return isinstance(op, _UNITARY) or (op.num_params == 1 and op.has_generator)

    def after_one(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Return the state after an operation, as PennyLane applies it."""
        by_qubit = self._by_qubit(state)
        if not any(map(is_dynamic, qubits)):
            return self._in_parts(apply_operation(on_qubits(op, self.wires), by_qubit))
        there, back = brought_to_front(by_qubit, qubits)
        front = op.map_wires(dict(zip(op.wires, range(len(op.wires)), strict=True)))
        return self._in_parts(back(apply_operation(front, there)))

    def _by_qubit(self, state: Any) -> Any:
        """Return amplitudes, with an axis for each qubit."""
        return self._vector(state).reshape((2,) * len(self.wires))

    def _vector(self, state: Any) -> Any:
        return jax.lax.complex(state[0], state[1])

    def _in_parts(self, amplitudes: Any) -> Any:
        # Gates with parameters of half the precision must not change the type.
        vector = jnp.ravel(amplitudes)
        return jnp.stack([jnp.real(vector), jnp.imag(vector)]).astype(self.dtype)

    def weight(self, state: Any) -> Any:
        """Return the squared norm."""
        return jnp.sum(jnp.real(state) ** 2 + jnp.imag(state) ** 2)

    def moments(self, state: Any, observable: Any, *, has_square: bool = True) -> tuple[Any, Any]:
        """Return moments by the state after the observable.

        PennyLane would diagonalize some, whose derivative is none where eigenvalues are equal.
        """
        words: list[Word] = []
        others: list[Any] = []
        for coefficient, factors in terms_of(observable, self.where):
            word = self._word(coefficient, factors)
            if word is not None:
                words.append(word)
            else:
                ops = list(map(_operation, factors))
                share = jnp.asarray(jnp.real(coefficient), self.dtype)
                others.append(jax.tree.map(lambda x, c=share: c * x, self.after(ops, state)))
        amplitudes, after_words = self._amplitudes(state), self._after_words(words, state)
        coefficients = coefficients_of(words, self.dtype)
        if not others and not has_square:
            return self._mean(after_words, amplitudes, coefficients), None
        after: Any = sum(self._amplitudes(other, state) for other in others)
        if words:
            after += after_words(amplitudes, coefficients)
        square = self._inner(after, after) if has_square else None
        return self._inner(amplitudes, after), square

    def _amplitudes(self, state: Any, like: Any = None) -> Any:
        """Return the amplitudes of a state, as they stand or as in another one."""
        del like
        return state

    def _after_words(self, words: Sequence[Word], state: Any) -> Callable[[Any, Any], Any]:
        """Return what takes the amplitudes of a state, and coefficients, to a sum of words."""
        del state
        return lambda amplitudes, coefficients: applied(words, amplitudes, coefficients)

    def _mean(self, after: Callable[..., Any], amplitudes: Operand, coefficients: Operand) -> Any:
        """Return the mean of a symmetric matrix, for whose derivative one state is kept."""

        @jax.custom_jvp
        def mean(amplitudes: Operand, coefficients: Operand) -> Any:
            return self._inner(amplitudes, after(amplitudes, coefficients))

        def rule(primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
            amplitudes, coefficients = primals
            tangent, of_coefficients = tangents
            there = after(amplitudes, coefficients)
            value = self._inner(amplitudes, there)
            # So the state is read for the value before the derivative overwrites it.
            there = jnp.where(jnp.isnan(value), value, there)
            change: Any = jnp.zeros_like(value)
            if is_perturbed(tangent):
                change += 2 * self._inner(there, tangent)
            if is_perturbed(of_coefficients):
                change += self._inner(amplitudes, after(amplitudes, of_coefficients))
            return value, change

        mean.defjvp(rule, symbolic_zeros=True)
        return mean(amplitudes, coefficients)

    def _inner(self, one: Operand, other: Operand) -> Any:
        """Return the inner product of two states."""
        return jnp.sum(one * other)

    def _word(self, coefficient: Any, factors: Sequence[Factor]) -> Word | None:
        letters = [
            (self.wires(factor.wire), _LETTERS[factor.name])
            for factor in factors
            if isinstance(factor, NamedFactor) and factor.name in _LETTERS
        ]
        return Word(coefficient, letters) if len(letters) == len(factors) else None

    def probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the sums of squares of amplitudes."""
        squares = jnp.sum(state**2, axis=0, keepdims=True)
        return jnp.sum(self._by_outcome(squares, qubits), axis=(0, 2))

    def by_wires(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the amplitudes, with axes of some qubits in front."""
        return jnp.moveaxis(self._by_qubit(state), qubits, range(len(qubits)))

    def after_outcomes(self, state: Any, basis: Any) -> Any:
        """Return the halves of a state in a basis."""
        return jnp.tensordot(jnp.asarray(_BASES, state.dtype)[basis], state, 1)

    def density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the products of amplitudes."""
        rows = self._vector(self._by_outcome(state, qubits))
        return jnp.matmul(rows, jnp.conj(rows).T, precision=jax.lax.Precision.HIGHEST)

    def _by_outcome(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return parts of numbers, a row for each outcome of some qubits."""
        order = range(len(self.wires))
        others = [qubit for qubit in order if qubit not in qubits]
        in_front = permuted(state, order, [*qubits, *others], self.base)
        return in_front.reshape(len(state), 2 ** len(qubits), -1)

    def state(self, state: Any, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the vector."""
        if is_mixture:
            raise state_of_mixture(self.where)
        vector = self._vector(self._whole(state))
        return vector * jnp.sqrt(self.weight(state)) if is_divided else vector

    def _whole(self, state: Any) -> Any:
        """Return the amplitudes of all outcomes, in order."""
        return state


def is_applied(op: Any) -> bool:
    """Tell whether PennyLane applies an operation to a state as it is."""
    if op.batch_size is not None:
        # Its parts are asked for one by one.
        return False
    if has_computed_power(op):
        # A power of a matrix is not differentiable everywhere, and decompositions are.
        return not split(op, ())[0].has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def initial_amplitudes(preparation: Any, wires: WireMap) -> Any:
    """Return the amplitudes of what an operation prepares."""
    return create_initial_state(range(len(wires)), on_qubits(preparation, wires))


def on_qubits(part: Any, wires: WireMap) -> Any:
    """Return an operation or measurement with qubits in place of wire labels."""
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def has_computed_power(op: Any) -> bool:
    """Tell whether a power of what the program computes is in an operation."""
    if isinstance(op, qml.ops.CompositeOp):
        return any(map(has_computed_power, op))
    if not isinstance(op, qml.ops.SymbolicOp):
        return False
    is_power = isinstance(op, qml.ops.Pow) and any(map(is_dynamic, op.data))
    return is_power or has_computed_power(op.base)


def _operation(factor: Factor) -> Any:
    if isinstance(factor, NamedFactor):
        return getattr(qml, factor.name)(factor.wire)
    return qml.Hermitian(factor.matrix, wires=factor.wires)
