"""What a circuit in a program does to its state, whatever that is an array of."""

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
from bellhop.circuits.ir.memory import check_state_fits
from bellhop.circuits.ir.wires import WireMap, is_dynamic

# A matrix has one qubit for so many of the state.
_QUBITS_PER_FUSED_QUBIT = 4


class Simulator(ABC):
    """The operations on a state, and what is measured of it.

    A state is not normalized: measuring projects it, so that what it weighs is the probability of
    the outcomes.

    Args:
        device: PennyLane's.
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
        dtype: that of the real numbers of the state.

    Attributes:
        base: how many entries a qubit has.
        n_components: how many real numbers an entry is.
        axes_per_qubit: how many axes of two these entries are: two for a density matrix.
        max_fused_qubits: how many qubits the matrices have that operations are merged into, at
            most.
        is_mixed: whether the sum of two states is one.
        devices: those that a state is partitioned over; None for a state that is not.
        is_orthogonal: whether all that was applied so far is, as a matrix on the state.
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
        """The type of the numbers in its matrices."""
        return np.result_type(self.dtype, np.complex64) if self.n_components == 2 else self.dtype

    def check_memory(self) -> None:
        """Refuse a state that takes more memory than there is."""
        check_state_fits(len(self.wires), self.where, axes=self.axes_per_qubit)

    def prepare_inputs(self, inputs: Any) -> Any:
        """Return the inputs of a circuit as the simulator has them."""
        return inputs

    @abstractmethod
    def prepare(self, preparation: Any = None) -> Any:
        """Return the state in which a circuit begins: all zeros, or what an operation prepares."""

    @abstractmethod
    def can_apply(self, op: Any) -> bool:
        """Tell whether an operation is applied as it is."""

    def apply_operations(self, operations: Sequence[Any], state: Any) -> Any:
        """Return the state after operations that are applied as they are.

        Those that follow each other on few qubits are merged.
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
        if not sequence:
            return state
        matrices = self._make_matrix_sequence()
        after = self._apply_matrices(matrices, sequence, state)
        self.is_orthogonal &= matrices.is_orthogonal
        return after

    def _make_matrix_sequence(self) -> Any:
        """Return what applies a run of operations: a ``MatrixSequence``, or a ``MatrixScan``."""

        def matrix(op: Any) -> Any:
            with explain_concretization(op, self.where):
                return self.compute_matrix(op)

        most, n_qubits = self.max_fused_qubits, len(self.wires)
        if self.devices is None:
            if should_scan(self.dtype, self.base**n_qubits):
                return MatrixScan(self.base, matrix, self.is_unitary)
            # To multiply matrices takes longer than a state of few qubits does.
            most = min(most, max(2, -(-n_qubits // _QUBITS_PER_FUSED_QUBIT)))
        return MatrixSequence(
            self.base, matrix, self.matrix_dtype, most, self.is_unitary, self.devices
        )

    def _apply_matrices(
        self, matrices: Any, sequence: Sequence[tuple[Any, tuple[int, ...]]], state: Any
    ) -> Any:
        """Return the state after the matrices of operations."""
        return matrices.apply(sequence, state.reshape(self.n_components, -1)).reshape(state.shape)

    def canonicalize_carry(self, state: Any, like: Any = None) -> Any:
        """Return a state as loops and conditionals carry it.

        Args:
            state: at the beginning of one, or at the end of its body.
            like: the state at the beginning of the body.
        """
        del like
        return state

    @abstractmethod
    def has_small_matrix(self, op: Any) -> bool:
        """Tell whether what an operation on few qubits does is a matrix."""

    @abstractmethod
    def compute_matrix(self, op: Any) -> Any:
        """Return that matrix; NumPy's where all of it is known."""

    @abstractmethod
    def is_unitary(self, op: Any) -> bool:
        """Tell whether that matrix is, whatever the parameters of the operation."""

    @abstractmethod
    def apply_single_operation(self, op: Any, qubits: tuple[Any, ...], state: Any) -> Any:
        """Return the state after an operation on many qubits, or on some that are computed."""

    @abstractmethod
    def compute_probability(self, state: Any) -> Any:
        """Return the probability of a state."""

    @abstractmethod
    def compute_moments(
        self, state: Any, observable: Any, *, has_square: bool = True
    ) -> tuple[Any, Any]:
        """Return the mean of an observable, and that of its square if that is asked for."""

    @abstractmethod
    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the probabilities of the outcomes of qubits."""

    def sample(self, state: Any, key: Operand, shots: int) -> tuple[Any, Any]:
        """Return samples, a row of bits for each, and the probability of each."""
        n_qubits = len(self.wires)
        probabilities = self.compute_probabilities(state, range(n_qubits))
        sample = draw_outcomes(key, jax.lax.stop_gradient(probabilities), shots)
        bits = (sample[:, None] >> np.arange(n_qubits)[::-1]) & 1
        return bits, probabilities[sample]

    @abstractmethod
    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return a state as ``sample_in_bases`` takes it: with an axis for each qubit, some in
        front."""

    def sample_in_bases(self, first: Any, uniform: Operand, bases: Operand) -> tuple[Any, Any]:
        """Return an outcome of wires, each in a basis, and its probability.

        Args:
            first: a state by these wires.
            uniform: a number between zero and one for each.
            bases: 0, 1, 2 for X, Y, Z.
        """
        rest = first
        bits: list[Any] = []
        # A wire after the other, each of which leaves half of the state.
        for place, basis in zip(uniform, bases, strict=True):
            after = self.project(rest, basis)
            zero, one = map(self.compute_probability, after)
            bit = (place * (zero + one) >= zero).astype(int)
            rest = after[bit]
            bits.append(bit)
        return jnp.stack(bits), self.compute_probability(rest)

    @abstractmethod
    def project(self, state: Any, basis: Any) -> Any:
        """Return the states of the other qubits after both outcomes of the first, not normalized.

        Args:
            state: of some qubits.
            basis: 0, 1, 2 for X, Y, Z, an integer of the program.
        """

    @abstractmethod
    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the density matrix of qubits."""

    @abstractmethod
    def to_state_result(self, state: Any, *, is_mixture: bool, is_divided: bool) -> Any:
        """Return a state as ``qml.state`` does.

        Args:
            state: that of the circuit.
            is_mixture: whether it is one of several that are mixed.
            is_divided: whether the result is divided by the state's weight later.
        """


def draw_outcomes(key: Operand, probabilities: Any, shots: int) -> Any:
    """Return the index of an outcome for each shot; probabilities need not add up to one."""
    ends = jnp.cumsum(probabilities)
    places = jax.random.uniform(key, (shots,), ends.dtype) * ends[-1]
    found = jnp.searchsorted(ends, places, side="right")
    return jnp.minimum(found, len(probabilities) - 1)


def move_dynamic_qubits_to_front(state: Any, qubits: Sequence[Any]) -> tuple[Any, Any]:
    """Bring qubits to the front, of which the program computes some.

    Where one is not there the state is of no use; see ``checked_runs``.

    Returns:
        the state, and what brings another one of its shape back.
    """
    n, base = state.ndim, state.shape[0]
    wires = [jnp.asarray(qubit) if is_dynamic(qubit) else jnp.int32(qubit) for qubit in qubits]
    chosen = jnp.stack(list(map(WireMap.as_int32, wires)))
    rank = jnp.arange(n).at[chosen].set(jnp.arange(len(qubits)) - len(qubits))
    weights = base ** (n - 1 - jnp.argsort(rank))
    digits = jnp.arange(state.size)[:, None] // base ** np.arange(n)[::-1] % base
    source = jnp.sum(digits * weights, axis=1)

    def restore_order(after: Any) -> Any:
        flat = jnp.zeros(state.size, after.dtype)
        return flat.at[source].set(after.reshape(-1)).reshape(state.shape)

    return state.reshape(-1)[source].reshape(state.shape), restore_order
