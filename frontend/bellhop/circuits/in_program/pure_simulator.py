"""``default.qubit``: the state is a vector of amplitudes, and gates are matrices on it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.default_qubit import stopping_condition
from pennylane.devices.qubit import apply_operation, create_initial_state

from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.in_program.simulator import Simulator, brought_to_front
from bellhop.circuits.measure.observables import Factor, NamedFactor, terms_of
from bellhop.circuits.measure.states import by_outcome
from bellhop.circuits.measure.statistics import state_of_mixture
from bellhop.circuits.precision import complex_type

# To the eigenvectors of X, Y and Z.
_BASES = np.array([[[1, 1], [1, -1]], [[1, -1j], [1, 1j]], [[2**0.5, 0], [0, 2**0.5]]]) / 2**0.5


class PureSimulator(Simulator):
    """The amplitudes of all outcomes."""

    base = 2
    sides = 1

    def prepared(self, preparation: Any = None) -> Any:
        """Return the amplitudes of a state."""
        return _in_precision(initial_amplitudes(preparation, self.wires))

    def applies(self, op: Any) -> bool:
        """Tell whether PennyLane applies an operation as it is."""
        return is_applied(op)

    def has_small_matrix(self, op: Any) -> bool:
        """Tell that an operation has one: all do that are applied."""
        return True

    def matrix(self, op: Any) -> Any:
        """Return the matrix of a gate."""
        return op.matrix()

    def after_one(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Return the state after an operation, in the precision of the program."""
        if not any(map(is_dynamic, qubits)):
            # Gates with parameters of half the precision must not change the type.
            return _in_precision(apply_operation(on_qubits(op, self.wires), state))
        there, back = brought_to_front(state, qubits)
        front = op.map_wires(dict(zip(op.wires, range(len(op.wires)), strict=True)))
        return _in_precision(back(apply_operation(front, there)))

    def weight(self, state: Any) -> Any:
        """Return the squared norm."""
        return _inner_product(state, state)

    def moments(self, state: Any, observable: Any, *, has_square: bool = True) -> tuple[Any, Any]:
        """Return moments by the state after the observable.

        PennyLane would diagonalize some, whose derivative is none where eigenvalues are equal.
        """
        applied = sum(
            jnp.real(coefficient) * self._product_applied(factors, state)
            for coefficient, factors in terms_of(observable, self.where)
        )
        square = _inner_product(applied, applied) if has_square else None
        return _inner_product(state, applied), square

    def _product_applied(self, factors: Sequence[Factor], state: Any) -> Any:
        for factor in factors:
            if isinstance(factor, NamedFactor):
                op = getattr(qml, factor.name)(factor.wire)
            else:
                op = qml.Hermitian(factor.matrix, wires=factor.wires)
            state = self.after_one(op, self.qubits_of(op), state)
        return state

    def probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the sums of squares of amplitudes."""
        rows = by_outcome(state, qubits, state.ndim)
        return jnp.sum(jnp.real(rows) ** 2 + jnp.imag(rows) ** 2, axis=1)

    def after_outcomes(self, state: Any, basis: Any) -> Any:
        """Return the halves of a state in a basis."""
        return jnp.tensordot(jnp.asarray(_BASES, state.dtype)[basis], state, 1)

    def density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the products of amplitudes."""
        rows = by_outcome(state, qubits, state.ndim)
        return rows @ jnp.conj(rows).T

    def state(self, state: Any, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the vector."""
        if is_mixture:
            raise state_of_mixture(self.where)
        vector = jnp.ravel(state)
        return vector * jnp.sqrt(self.weight(state)) if is_divided else vector


def is_applied(op: Any) -> bool:
    """Tell whether PennyLane applies an operation to a state as it is."""
    if op.batch_size is not None:
        # Its parts are asked for one by one.
        return False
    if _has_power(op) and any(map(is_dynamic, op.data)):
        # A power of a matrix is not differentiable everywhere, and decompositions are.
        return not op.has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def initial_amplitudes(preparation: Any, wires: WireMap) -> Any:
    """Return the amplitudes of what an operation prepares, or of all zeros."""
    on_wires = None if preparation is None else on_qubits(preparation, wires)
    return create_initial_state(range(len(wires)), on_wires)


def on_qubits(part: Any, wires: WireMap) -> Any:
    """Return an operation or measurement with qubits in place of wire labels."""
    qubits = {wire: wires(wire) for wire in part.wires}
    if all(wire == qubit for wire, qubit in qubits.items()):
        return part
    return part.map_wires(qubits)


def _in_precision(state: Any) -> Any:
    """Return a state in the precision of the program, whatever that of its gates' parameters."""
    return jnp.asarray(state, complex_type())


def _has_power(op: Any) -> bool:
    while isinstance(op, qml.ops.SymbolicOp):
        if isinstance(op, qml.ops.Pow):
            return True
        op = op.base
    return False


def _inner_product(left: Any, right: Any) -> Any:
    """Return the real part of the inner product of two states."""
    return jnp.sum(jnp.real(jnp.conj(left) * right))
