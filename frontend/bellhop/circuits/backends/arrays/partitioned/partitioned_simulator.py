"""Simulate ``default.qubit`` with amplitudes partitioned over a mesh.

Exchanges are planned for the gates between two loops, conditionals or mid-circuit measurements
(``device_wires/qubit_exchange.py``).  A body ends with the device wires with which it begins.  The
whole state is only gathered for ``qml.state``, and for operations and density matrices that are
larger than the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.device_wires.device_wires import (
    REPLICATED,
    DeviceWires,
    list_local_qubits,
)
from bellhop.circuits.backends.arrays.device_wires.diagonal_wires import GateWires, find_gate_wires
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import (
    ExchangePlacement,
    permute_qubits,
    plan_exchanges,
    plan_segments,
)
from bellhop.circuits.backends.arrays.matrices.evolution import Evolution
from bellhop.circuits.backends.arrays.matrices.find_repeats import RepeatedSteps
from bellhop.circuits.backends.arrays.partitioned.local_operations import (
    apply_to_all_shards,
    apply_to_shard,
)
from bellhop.circuits.backends.arrays.partitioned.shard_kernels import (
    apply_to_leading_qubits,
    apply_words_to_shard,
    sample_sharded_state,
)
from bellhop.circuits.backends.arrays.pauli_sums import PauliTerm
from bellhop.circuits.backends.arrays.pennylane_operations import (
    find_basis_state,
    map_to_qubits,
    prepare_own_amplitudes,
)
from bellhop.circuits.backends.arrays.pure_simulator import PureSimulator
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.sampling import make_basis_rotations
from bellhop.errors import CompileError

if TYPE_CHECKING:
    import pennylane as qml


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PartitionedState:
    """A pure state that is partitioned over devices.

    Some qubits are the bits of the device's index (device qubits); the remaining qubits are local.
    An instance is a pytree, of which only the amplitudes are traced.

    Attributes:
        amplitudes: array ``[2, 2**qubits]`` of real and imaginary parts, with the qubits in
            `order`.
        devices: the device qubit of each mesh axis (of size two).
        local: the qubits of each shard, in order.
        is_zero: whether the state is known to be the basis state ``|0...0>``, so that any qubits
            can become device qubits without communication.
    """

    amplitudes: Any
    devices: tuple[int, ...] = field(metadata={"static": True})
    local: tuple[int, ...] = field(metadata={"static": True})
    is_zero: bool = field(default=False, metadata={"static": True})

    @property
    def order(self) -> tuple[int, ...]:
        """All qubits in the order of the amplitudes' axes: device qubits, local qubits."""
        return (*self.devices, *self.local)


class PartitionedSimulator(PureSimulator):
    """A simulator of pure states, with a shard of the amplitudes on each device.

    States are `PartitionedState`s. `choose_pure_simulator` decides when it is used.

    Args:
        device: PennyLane device.
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        dtype: real dtype of the state.
        devices: devices over which the state is partitioned.
    """

    devices: DeviceWires

    def __init__(
        self,
        device: qml.devices.Device,
        wires: WireMap,
        where: str,
        dtype: np.dtype,
        *,
        devices: DeviceWires,
    ) -> None:
        super().__init__(device, wires, where, dtype)
        self.devices = devices
        self._n_local = len(wires) - len(devices.axes)

    def check_memory(self) -> None:
        """Raise a `CompileError` if a shard does not fit into its device's memory."""
        MemoryCheck(self.where).check_shards(
            len(self.wires),
            devices=list(self.devices.mesh.devices.flat),
            n_shards=2 ** len(self.devices.axes),
            amplitude=2 * self.dtype.itemsize,
        )

    def prepare_inputs(self, inputs: Any) -> Any:
        """Constrain the arrays of a pytree to be replicated on all devices.

        Values computed from them are small, and XLA would otherwise choose a partition. Leaves
        other than arrays, and float0 arrays, are unchanged.
        """
        whole = jax.NamedSharding(self.devices.mesh, REPLICATED)
        is_array = lambda leaf: isinstance(leaf, jax.Array) and leaf.dtype != jax.dtypes.float0
        return jax.tree.map(
            lambda leaf: jax.lax.with_sharding_constraint(leaf, whole) if is_array(leaf) else leaf,
            inputs,
        )

    def prepare(self, preparation: Any = None) -> PartitionedState:
        """Return the state that a preparation creates; ``|0...0>`` for None.

        Args:
            preparation: PennyLane preparation of a pure state. Wires on which it does not act are
                zero.
        """
        k = len(self.devices.axes)
        first = tuple(range(k)), tuple(range(k, len(self.wires)))
        if preparation is None:
            return PartitionedState(self._prepare_basis_state({}), *first, is_zero=True)
        of_wires = find_basis_state(preparation)
        if of_wires is not None:
            bits = {self.wires(wire): bit for wire, bit in of_wires.items()}
            return PartitionedState(self._prepare_basis_state(bits), *first)
        amplitudes = jnp.ravel(prepare_own_amplitudes(preparation))
        qubits = [self.wires(wire) for wire in preparation.wires]
        return self._shard_amplitudes(amplitudes, qubits)

    def _prepare_basis_state(self, bits: dict[int, Any]) -> Any:
        """Return the amplitudes of a basis state, array ``[2, 2**qubits]`` in qubit order.

        Args:
            bits: static or traced bits by qubit; zero for the remaining qubits.
        """
        n_qubits, k = len(self.wires), len(self.devices.axes)

        def compute_index(qubits: Sequence[int]) -> Any:
            """Return the bits of some qubits as an integer, the first as most significant bit."""
            value = jnp.uint32(0)
            for qubit in qubits:
                value = 2 * value + jnp.asarray(bits.get(qubit, 0)).astype(jnp.uint32)
            return value

        def fill_shard(device: Operand, place: Any) -> Any:
            """Return this device's shard: zeros, and a one if it holds the basis state.

            `device` is the index of the device that holds the basis state, and `place` its index in
            this shard.
            """
            is_here = jax.lax.iota(jnp.uint32, 2**self._n_local) == place
            is_here &= self.devices.device_index() == device.astype(jnp.int32)
            return jnp.stack([is_here, jnp.zeros_like(is_here)]).astype(self.dtype)

        numbers = compute_index(range(k)), compute_index(range(k, n_qubits))
        return self.devices.map_shards(
            fill_shard, (REPLICATED, REPLICATED), self.devices.state_spec
        )(*numbers)

    def _shard_amplitudes(self, amplitudes: Operand, qubits: Sequence[int]) -> PartitionedState:
        """Make a state from amplitudes of some qubits; the remaining qubits are zero.

        Args:
            amplitudes: complex array ``[2**len(qubits)]``, replicated on all devices.
            qubits: the qubits of `amplitudes`, in order.
        """
        k = len(self.devices.axes)
        order = [*(q for q in range(len(self.wires)) if q not in qubits), *qubits]
        size = 2**self._n_local
        both = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)]).astype(self.dtype)

        def take_shard(both: Any) -> Any:
            """Return this device's shard; zeros if the amplitudes end before it.

            `both` has the replicated real and imaginary parts, ``[2, 2**len(qubits)]``.
            """
            missing = max(0, size - both.shape[1])
            padded = jnp.pad(both, ((0, 0), (0, missing)))
            n_parts = padded.shape[1] // size
            number = self.devices.device_index()
            found = jax.lax.dynamic_slice_in_dim(
                padded, jnp.minimum(number, n_parts - 1) * size, size, axis=1
            )
            return jnp.where(number < n_parts, found, 0)

        prepared = self.devices.map_shards(take_shard, (REPLICATED,), self.devices.state_spec)(both)
        return PartitionedState(prepared, tuple(order[:k]), tuple(order[k:]))

    def canonicalize_carry(
        self, state: PartitionedState, like: PartitionedState | None = None
    ) -> PartitionedState:
        """Convert a state to the pytree that loops and conditionals carry.

        All iterations and branches must carry the same type, so the static fields are made equal.

        Args:
            state: the state before the loop or conditional, or at the end of its body.
            like: the state at the beginning of the body; or None.

        Returns:
            the state with the device qubits and the qubit order of `like`, if there is one, and
            with `is_zero` set to False.
        """
        if like is not None:
            state = self._reorder(state, like.devices, like.local)
        return replace(state, is_zero=False)

    def _reorder(
        self,
        state: PartitionedState,
        devices: tuple[int, ...],
        local: tuple[int, ...] | None = None,
    ) -> PartitionedState:
        """Exchange and transpose the qubits of a state; return it in the new layout.

        Args:
            state: the state in any layout.
            devices: the new device qubits: for each mesh axis, the qubit that is this bit of the
                device's index.
            local: the new order of the local qubits; None for any order.
        """
        for exchange in plan_exchanges(state.devices, devices):
            place = ExchangePlacement(exchange, state.local)
            evolution = Evolution(self.base, (RepeatedSteps((place,), 1),), self.devices)
            moved = evolution.apply(state.amplitudes)
            state = PartitionedState(moved, exchange.after, place.resulting_order)
        if local in (None, state.local):
            return state
        sort = self._map_shards(lambda part: permute_qubits(part, state.local, local, self.base))
        return PartitionedState(sort(state.amplitudes), devices, local)

    def _make_local(self, state: PartitionedState, gate_wires: GateWires) -> PartitionedState:
        """Exchange qubits between devices so that `gate_wires.nondiagonal` are local qubits.

        Args:
            state: the state, whose device qubits are the bits of the device's index.
            gate_wires: the qubits of an operation, and on which of them it is not diagonal.

        Returns:
            the same state, with other device qubits if necessary.
        """
        plan = plan_segments(
            [gate_wires], len(self.wires), state.devices, None, can_choose_start=state.is_zero
        )
        return self._reorder(self._relabel_zero_state(state, plan.start), plan.end)

    def _relabel_zero_state(
        self, state: PartitionedState, devices: tuple[int, ...]
    ) -> PartitionedState:
        """Return the state ``|0...0>`` with other device qubits, without communication.

        Any other state must have the device qubits `devices` already, and is returned unchanged.
        """
        if state.devices == devices:
            return state
        return replace(state, devices=devices, local=list_local_qubits(devices, len(self.wires)))

    def _apply_matrices(
        self, matrices: Any, sequence: Sequence[tuple[Any, tuple[int, ...]]], state: Any
    ) -> Any:
        """Apply operations as matrices, with exchanges of qubits between devices.

        Args:
            matrices: a `MatrixSequence`.
            sequence: pairs of an operation and the indices of its qubits, in order.
            state: the state before the operations.

        Returns:
            the state after the operations, which may have other device qubits.
        """
        gate_wires = [find_gate_wires(op, qubits) for op, qubits in sequence]
        plan = plan_segments(
            gate_wires, len(self.wires), state.devices, None, can_choose_start=state.is_zero
        )
        local = self._relabel_zero_state(state, plan.start).local
        amplitudes, local = matrices.apply_plan(sequence, state.amplitudes, plan, local)
        return PartitionedState(amplitudes, plan.end, local)

    def can_apply(self, op: Any) -> bool:
        """Return whether an operation can be applied without decomposing it.

        PennyLane must be able to apply the operation. If it has a decomposition, it must also fit
        into a shard: it may have at most as many wires as a shard has qubits, not counting wires
        on which it is diagonal, such as controls. Operations with a traced matrix need not fit,
        since PennyLane cannot decompose them.
        """
        if not super().can_apply(op):
            return False
        if len(op.wires) <= self._n_local or not op.has_decomposition:
            return True
        # PennyLane cannot decompose a traced matrix.
        if any(is_dynamic(parameter) and jnp.ndim(parameter) > 0 for parameter in op.data):
            return True
        places = find_gate_wires(op, tuple(range(len(op.wires)))).nondiagonal
        return len(places) <= self._n_local

    def apply_single_operation(
        self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any
    ) -> Any:
        """Apply an operation on many qubits, or on dynamic qubits, to a state.

        The returned state may have other device qubits (bits of the device's index).

        Args:
            op: the operation to apply.
            qubits: the index of the qubit of each of the operation's wires, static or traced.
            state: the state before the operation.

        Raises:
            CompileError: if qubits are traced, and a shard has fewer qubits than the operation.
        """
        if any(map(is_dynamic, qubits)):
            return self._apply_on_dynamic_wires(op, qubits, state)
        gate_wires = find_gate_wires(op, qubits)
        if len(gate_wires.nondiagonal) > self._n_local:
            # The matrix is replicated and larger than the state, so gathering the state is cheap.
            after = super().apply_single_operation(op, qubits, self._gather_amplitudes(state))
            return self._shard_amplitudes(self._to_complex(after), range(len(self.wires)))
        state = self._make_local(state, gate_wires)
        on_places = map_to_qubits(op, self.wires).map_wires(
            {qubit: place for place, qubit in enumerate(state.order)}
        )
        after = lambda op, part: apply_to_shard(op, part, self.devices)
        amplitudes = apply_to_all_shards(on_places, after, self.devices, state.amplitudes)
        return replace(state, amplitudes=amplitudes, is_zero=False)

    def _gather_amplitudes(self, state: PartitionedState) -> Any:
        """Return all amplitudes in order, replicated on all devices."""
        k = len(self.devices.axes)
        in_order = self._reorder(state, tuple(range(k)), tuple(range(k, len(self.wires))))
        return self.prepare_inputs(in_order.amplitudes)

    def _apply_on_dynamic_wires(
        self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any
    ) -> Any:
        """Apply an operation, some of whose qubits are traced indices.

        Raises:
            CompileError: if a shard has fewer qubits than the operation.
        """
        k, n = len(self.devices.axes), len(qubits)
        if n > self._n_local:
            raise CompileError(
                f"{self.where}: {op.name} acts on {n} wires, some of them traced, expected at most "
                f"{self._n_local} wires, as the state of {len(self.wires)} wires is partitioned "
                f"over {2**k} devices. Decompose {op.name} into gates on fewer wires, or use fewer "
                "devices."
            )
        place_of = jnp.asarray(np.argsort(state.order), jnp.int32)
        places = place_of[
            jnp.stack([WireMap.clip_to_int32(jnp.asarray(qubit)) for qubit in qubits])
        ]
        on_places = op.map_wires(dict(zip(op.wires, range(k, k + n), strict=True)))

        def apply_on_shard(op: Any, part: Any, places: Operand) -> Any:
            """Apply the operation to the qubits of this device's shard at dynamic positions."""
            run = lambda part: apply_to_shard(op, part, self.devices)
            return apply_to_leading_qubits(run, part, places, self.devices)

        amplitudes = apply_to_all_shards(
            on_places, apply_on_shard, self.devices, state.amplitudes, places
        )
        return replace(state, amplitudes=amplitudes, is_zero=False)

    def _map_shards(self, function: Callable[..., Any], *others: Any) -> Any:
        """Convert a function of one device's shard to a function of all amplitudes.

        Args:
            function: ``function(shard, *arrays) -> shard``, called on each device.
            *others: the partition specs of the further arrays.
        """
        here = self.devices.state_spec
        return self.devices.map_shards(function, (here, *others), here)

    def compute_probability(self, state: Any) -> Any:
        """Return the squared norm of the state."""
        return self._sum_over_shards(lambda part: jnp.sum(part**2), state)

    def _sum_over_shards(self, function: Callable[..., Any], state: Any, *whole: Any) -> Any:
        """Return the sum over all devices of ``function(shard, *whole)``.

        Args:
            function: called on each device with its shard of the amplitudes; returns an array.
            state: the state, a `PartitionedState`.
            *whole: arrays that are replicated on all devices.
        """
        run = self.devices.map_shards(
            lambda part, *whole: self.devices.sum_over_devices(function(part, *whole)),
            (self.devices.state_spec, *[REPLICATED] * len(whole)),
            REPLICATED,
        )
        return run(state.amplitudes, *whole)

    def _get_amplitudes(self, state: Any, like: Any = None) -> Any:
        """Return a state's amplitudes, in the qubit layout of `like` (a state) if any."""
        in_order = state if like is None else self._reorder(state, like.devices, like.local)
        return in_order.amplitudes

    def _get_pauli_sum(self, words: Sequence[PauliTerm], state: Any) -> Callable[[Any, Any], Any]:
        """Return a function that applies a sum of Pauli words to amplitudes.

        Args:
            words: the Pauli words; their own coefficients are not used.
            state: a state with the qubit layout of the amplitudes.

        Returns:
            ``function(amplitudes, coefficients) -> amplitudes``, with coefficients ``[words]``.
        """

        def apply_words(part: Any, coefficients: Operand) -> Any:
            """Apply the sum of words to this device's shard."""
            return apply_words_to_shard(words, coefficients, part, state.order, self.devices)

        return self._map_shards(apply_words, REPLICATED)

    def _inner_product(self, one: Operand, other: Operand) -> Any:
        """Return the real inner product of amplitudes `one` and `other` in equal layouts."""
        product = lambda one, other: self.devices.sum_over_devices(jnp.sum(one * other))
        return self.devices.map_shards(product, (self.devices.state_spec,) * 2, REPLICATED)(
            one, other
        )

    def compute_probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the outcome probabilities of `qubits` ``[2**len(qubits)]``, replicated."""
        axes = [axis for axis, qubit in enumerate(state.devices) if qubit in qubits]
        kept = [qubit for qubit in state.local if qubit in qubits]
        order = [*kept, *(qubit for qubit in state.local if qubit not in kept)]

        def compute_marginal(part: Any) -> Any:
            """Return this shard's contribution to the probabilities of `qubits`.

            The result is a matrix: a row for each value of the measured device qubits (bits of the
            device's index), a column for each value of the measured local qubits. The shard has
            one value of the device qubits, so all other rows are zero.
            """
            squares = jnp.sum(part**2, axis=0, keepdims=True)
            rows = permute_qubits(squares, state.local, order, self.base).reshape(
                2 ** len(kept), -1
            )
            here = jnp.arange(2 ** len(axes)) == self.devices.device_index(axes)
            return jnp.where(here[:, None], jnp.sum(rows, axis=1), 0)

        found = self._sum_over_shards(compute_marginal, state).reshape(1, -1)
        before = [*(state.devices[axis] for axis in axes), *kept]
        return permute_qubits(found, before, list(qubits), self.base)[0]

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
        return self._draw_samples(state, jax.random.uniform(key, (shots,), self.dtype))

    def _draw_samples(self, state: Any, uniform: Operand) -> tuple[Any, Any]:
        """Draw a sample of all qubits for each of some random numbers.

        Args:
            state: the state to sample.
            uniform: ``[shots]``, uniform random numbers between zero and one.

        Returns:
            bits ``[shots, qubits]``, and the probability of each sample ``[shots]``, which JAX can
            differentiate.
        """
        here = self.devices.state_spec
        draw = self.devices.map_shards(
            lambda uniform, part: sample_sharded_state(uniform, part, self.devices),
            (REPLICATED, here),
            (REPLICATED, REPLICATED),
        )
        device, place = draw(uniform, jax.lax.stop_gradient(state.amplitudes))

        def read_probability(part: Any, device: Operand, place: Any) -> Any:
            """Return the probabilities of the samples in this device's shard; zero elsewhere."""
            found = jnp.sum(part[:, place] ** 2, axis=0)
            return jnp.where(device == self.devices.device_index(), found, 0)

        probabilities = self._sum_over_shards(read_probability, state, device, place)
        k = len(self.devices.axes)
        columns = [(device[:, None] >> np.arange(k)[::-1]) & 1]
        columns.append((place[:, None] >> np.arange(self._n_local)[::-1]) & 1)
        return jnp.concatenate(columns, axis=1)[:, np.argsort(state.order)], probabilities

    def prepare_snapshot(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the pair of the state and the qubits, which `sample_in_bases` takes."""
        return state, qubits

    def sample_in_bases(self, first: Any, uniform: Operand, bases: Operand) -> tuple[Any, Any]:
        """Draw one outcome of several qubits, each in its own Pauli basis.

        The qubits are rotated to their bases, and then all qubits of the state are sampled.

        Args:
            first: the result of `prepare_snapshot`: the state, and the qubits to sample.
            uniform: ``[qubits]``, uniform random numbers, of which only the first is used.
            bases: ``[qubits]``, 0, 1, 2 for X, Y, Z.

        Returns:
            bits ``[qubits]``, and the probability of the outcome of all qubits of the state.
        """
        state, qubits = first
        labels = [self.wires.labels[qubit] for qubit in qubits]
        bits, probability = self._draw_samples(
            self.apply_operations(make_basis_rotations(bases, labels), state), uniform[:1]
        )
        return bits[0, np.array(qubits, int)], probability[0]

    def compute_density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the reduced density matrix of `qubits`, complex and replicated."""
        if len(qubits) > self._n_local:
            # The density matrix is larger than the state, so gathering the state is cheap.
            return super().compute_density_matrix(self._gather_amplitudes(state), qubits)
        state = self._make_local(state, GateWires.from_wires(qubits))
        order = [*qubits, *(qubit for qubit in state.local if qubit not in qubits)]

        def multiply_rows(part: Any) -> Any:
            """Return a shard's complex contribution ``[2**n, 2**n]`` to the density matrix."""
            moved = permute_qubits(part, state.local, order, self.base).reshape(
                2, 2 ** len(qubits), -1
            )
            rows = jax.lax.complex(moved[0], moved[1])
            return jnp.matmul(rows, jnp.conj(rows).T, precision=jax.lax.Precision.HIGHEST)

        return self._sum_over_shards(multiply_rows, state)
