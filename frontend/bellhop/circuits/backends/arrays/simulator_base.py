"""Define the interface of simulators: operations on a state and measurements."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.device_wires.device_wires import DeviceWires
from bellhop.circuits.backends.arrays.matrices.matrix_sequence import MAX_WIRES, MatrixSequence
from bellhop.circuits.backends.arrays.matrices.scan_matrices import MatrixScan, should_scan
from bellhop.circuits.gates.concretization_errors import explain_concretization
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.wires import WireMap, is_dynamic

# Fused matrices have at most one qubit for each four qubits of the state.
_QUBITS_PER_FUSED_QUBIT = 4


class Simulator(ABC):
    """Operations on a state array, and measurements of it, as JAX functions.

    The base class of the simulators of ``default.qubit`` (`PureSimulator`) and ``default.mixed``
    (`MixedSimulator`). An instance belongs to one traced circuit; the state itself is passed to
    each method. A state is not normalized: mid-circuit measurements project it, so its norm (or
    trace) is the probability of the outcomes.

    Args:
        device: PennyLane device.
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        dtype: real dtype of the state.

    Attributes:
        base: number of entries per qubit: 2 for amplitudes, 4 for expectation values of Paulis.
        n_components: real numbers per entry: 2 for real and imaginary part, or 1.
        axes_per_qubit: axes of size two per qubit: 1 for a vector, 2 for a density matrix.
        max_fused_qubits: largest number of qubits of a fused matrix.
        is_mixed: whether the simulator can represent mixed states, and so sums of states.
        devices: devices over which the state is partitioned, or None.
        is_orthogonal: whether all matrices applied since it was last set to True are orthogonal;
            loops read it to choose a derivative.
    """

    base: ClassVar[int]
    n_components: ClassVar[int]
    axes_per_qubit: ClassVar[int]
    max_fused_qubits: ClassVar[int]
    is_mixed: ClassVar[bool] = False
    devices: DeviceWires | None = None

    def __init__(self, device: Any, wires: WireMap, where: str, dtype: np.dtype) -> None:
        self.name = device.name
        self.dtype = dtype
        self.wires = wires
        self.where = where
        self.is_orthogonal = True

    @property
    def matrix_dtype(self) -> np.dtype:
        """The dtype of the matrices of operations."""
        return np.result_type(self.dtype, np.complex64) if self.n_components == 2 else self.dtype

    def check_memory(self) -> None:
        """Raise an error if the state does not fit into memory."""
        MemoryCheck(self.where).check_state(len(self.wires), axes=self.axes_per_qubit)

    def prepare_inputs(self, inputs: Any) -> Any:
        """Convert the inputs of a circuit, for instance to another sharding.

        This base class returns them unchanged.
        """
        return inputs

    @abstractmethod
    def prepare(self, preparation: Any = None) -> Any:
        """Return the state ``|0...0>``, or the state that a PennyLane preparation creates."""

    @abstractmethod
    def can_apply(self, op: Any) -> bool:
        """Return whether an operation can be applied without decomposing it."""

    def apply_operations(self, operations: Sequence[Any], state: Any) -> Any:
        """Apply supported operations to the state, fusing neighbours on few qubits.

        `is_orthogonal` is updated.

        Args:
            operations: operations for which `can_apply` is true, in order of application.
            state: the state before the operations.

        Returns:
            the state after all operations.
        """
        run: list[tuple[Any, tuple[int, ...]]] = []
        for op in operations:
            qubits = tuple(map(self.wires.get_qubit, op.wires))
            is_small = 0 < len(qubits) <= MAX_WIRES and self.has_small_matrix(op)
            if is_small and not any(map(is_dynamic, qubits)):
                run.append((op, qubits))
                continue
            state = self._apply_sequence(run, state)
            run = []
            self.is_orthogonal &= self.is_unitary(op)
            with explain_concretization(op, self.where):
                state = self.apply_single_operation(op, qubits, state)
        return self._apply_sequence(run, state)

    def _apply_sequence(self, sequence: Sequence[tuple[Any, tuple[int, ...]]], state: Any) -> Any:
        """Fuse and apply operations that have small matrices; return the new state.

        `is_orthogonal` is updated.

        Args:
            sequence: pairs of an operation and the indices of its qubits, in order; may be empty.
            state: the state before the operations.
        """
        if not sequence:
            return state
        matrices = self._make_matrix_sequence()
        after = self._apply_matrices(matrices, sequence, state)
        self.is_orthogonal &= matrices.is_orthogonal
        return after

    def _make_matrix_sequence(self) -> Any:
        """Make the object that applies operations as matrices, for one sequence.

        It is a `MatrixScan` for a small state of double precision on a TPU that is not partitioned,
        else a `MatrixSequence`.
        """

        def matrix(op: Any) -> Any:
            with explain_concretization(op, self.where):
                return self.compute_matrix(op)

        most, n_qubits = self.max_fused_qubits, len(self.wires)
        if self.devices is None:
            if should_scan(self.dtype, self.base**n_qubits):
                return MatrixScan(self.base, matrix, self.is_unitary)
            # For few qubits, fusing large matrices takes longer than applying small ones.
            most = min(most, max(2, -(-n_qubits // _QUBITS_PER_FUSED_QUBIT)))
        return MatrixSequence(
            self.base, matrix, self.matrix_dtype, most, self.is_unitary, self.devices
        )

    def _apply_matrices(
        self, matrices: Any, sequence: Sequence[tuple[Any, tuple[int, ...]]], state: Any
    ) -> Any:
        """Apply operations as matrices to the state; return the new state.

        Args:
            matrices: result of `_make_matrix_sequence`.
            sequence: pairs of an operation and the indices of its qubits, in order.
            state: the state before the operations.
        """
        return matrices.apply(sequence, state.reshape(self.n_components, -1)).reshape(state.shape)

    def canonicalize_carry(self, state: Any, like: Any = None) -> Any:
        """Convert a state to the pytree that loops and conditionals carry.

        All branches of a conditional, and the argument and result of a loop's body, must have equal
        types. In this base class all states have equal types, and `state` is returned.

        Args:
            state: the state before the loop or conditional, or at the end of its body.
            like: the state at the beginning of the body, whose layout the result gets; or None.
        """
        del like
        return state

    @abstractmethod
    def has_small_matrix(self, op: Any) -> bool:
        """Return whether an operation on few qubits can be applied as a matrix."""

    @abstractmethod
    def compute_matrix(self, op: Any) -> Any:
        """Return the matrix of an operation, as a NumPy array if it is static."""

    @abstractmethod
    def is_unitary(self, op: Any) -> bool:
        """Return whether an operation's matrix is known to be unitary for all parameters."""

    @abstractmethod
    def apply_single_operation(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Apply an operation on many or dynamic qubits, or without a small matrix.

        Args:
            op: the operation to apply.
            qubits: the index of the qubit of each of the operation's wires, static or traced.
            state: the state before the operation.

        Returns:
            the state after the operation.
        """

    @abstractmethod
    def compute_probability(self, state: Any) -> Any:
        """Return the probability of the state: its squared norm or trace."""

    @abstractmethod
    def compute_moments(
        self, state: Any, observable: Any, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return the expectation values of an observable and of its square.

        Values are not divided by the norm of the state.

        Args:
            has_square: whether to compute the second moment.

        Returns:
            two real scalars; the second is None without `has_square`.
        """

    @abstractmethod
    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the probabilities of the outcomes of `qubits`, an array ``[2**qubits]``."""

    def sample(self, state: Any, key: Operand, shots: int) -> tuple[Any, Any]:
        """Draw samples of all qubits in the computational basis.

        Args:
            state: the state to sample.
            key: PRNG key for the samples.
            shots: number of samples.

        Returns:
            bits ``[shots, qubits]``, and the probability of each sample ``[shots]``, which JAX can
            differentiate.
        """
        n_qubits = len(self.wires)
        probabilities = self.compute_probabilities(state, range(n_qubits))
        sample = draw_outcomes(key, jax.lax.stop_gradient(probabilities), shots)
        bits = (sample[:, None] >> np.arange(n_qubits)[::-1]) & 1
        return bits, probabilities[sample]

    @abstractmethod
    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Convert a state to the form that `sample_in_bases` takes, to measure `qubits`.

        Usually a state with `qubits` as leading axes; a partitioned state stays as it is.
        """

    def sample_in_bases(self, first: Any, uniform: Operand, bases: Operand) -> tuple[Any, Any]:
        """Draw one outcome of several qubits, each in its own Pauli basis.

        Args:
            first: the result of `prepare_snapshot` for these qubits.
            uniform: ``[qubits]``, uniform random numbers between zero and one.
            bases: ``[qubits]``, 0, 1, 2 for X, Y, Z.

        Returns:
            bits ``[qubits]``, and the probability of the outcome, a scalar.
        """
        rest = first
        bits: list[Any] = []
        # Measure qubit by qubit; each projection halves the state.
        for place, basis in zip(uniform, bases, strict=True):
            after = self.project(rest, basis)
            zero, one = map(self.compute_probability, after)
            bit = (place * (zero + one) >= zero).astype(int)
            rest = after[bit]
            bits.append(bit)
        return jnp.stack(bits), self.compute_probability(rest)

    @abstractmethod
    def project(self, state: Any, basis: Any) -> Any:
        """Project the first qubit on both states of a Pauli basis.

        Args:
            state: the state of the qubits that are not measured yet, in the form of
                `prepare_snapshot`.
            basis: traced integer, 0, 1, 2 for X, Y, Z.

        Returns:
            the unnormalized states of the remaining qubits, stacked along a new leading axis of two
            outcomes.
        """

    @abstractmethod
    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the reduced density matrix of `qubits`."""

    @abstractmethod
    def to_state_result(self, state: Any, name: str, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return the result of ``qml.state``: a complex state vector or density matrix.

        Args:
            state: the state at the end of the circuit.
            name: the user's measurement, such as ``state``, for errors.
            is_mixture: whether the circuit ends in a mixture of several branches.
            is_divided: whether the caller later divides the result by the state's probability.

        Raises:
            CompileError: for a mixture, if the simulator only represents pure states.
        """


def draw_outcomes(key: Operand, probabilities: Any, shots: int) -> Any:
    """Draw the index of an outcome for each shot, ``[shots]``.

    Args:
        key: PRNG key.
        probabilities: ``[outcomes]``, nonnegative weights, which need not sum to one.
        shots: number of outcomes to draw.
    """
    ends = jnp.cumsum(probabilities)
    places = jax.random.uniform(key, (shots,), ends.dtype) * ends[-1]
    outcomes = jnp.searchsorted(ends, places, side="right")
    return jnp.minimum(outcomes, len(probabilities) - 1)


def move_dynamic_qubits_to_front(state: Any, qubits: Sequence[Any]) -> tuple[Any, Any]:
    """Move the axes of some qubits, whose indices may be traced, to the front.

    If an index is out of range, the result is undefined; see ``runtime_checks``.

    Args:
        state: array with an axis for each qubit, all of equal size.
        qubits: indices of the axes, static or traced integers.

    Returns:
        the transposed state, and a function that transposes an array of the state's shape back.
    """
    n, base = state.ndim, state.shape[0]
    wires = [jnp.asarray(qubit) if is_dynamic(qubit) else jnp.int32(qubit) for qubit in qubits]
    chosen = jnp.stack(list(map(WireMap.clip_to_int32, wires)))
    rank = jnp.arange(n).at[chosen].set(jnp.arange(len(qubits)) - len(qubits))
    weights = base ** (n - 1 - jnp.argsort(rank))
    digits = jnp.arange(state.size)[:, None] // base ** np.arange(n)[::-1] % base
    source = jnp.sum(digits * weights, axis=1)

    def restore_order(after: Any) -> Any:
        """Move the axes of an array back from the front to their original places."""
        flat = jnp.zeros(state.size, after.dtype)
        return flat.at[source].set(after.reshape(-1)).reshape(state.shape)

    return state.reshape(-1)[source].reshape(state.shape), restore_order
