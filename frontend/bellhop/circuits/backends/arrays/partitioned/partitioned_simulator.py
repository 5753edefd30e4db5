"""``default.qubit`` over the devices of a mesh: each has a part of the amplitudes.

Gates are planned as far as they are known (``device_wires/exchanges.py``): from one loop,
conditional or measurement in the middle to the next, whose bodies end with the wires of devices
that they begin with.  Nothing gathers the state but ``qml.state``, and matrices
that are larger than it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.qubit import create_initial_state

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.device_wires.device_wires import (
    WHOLE,
    DeviceWires,
    local_qubits,
)
from bellhop.circuits.backends.arrays.device_wires.diagonal_wires import Footprint, footprint_of
from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import (
    PlacedExchange,
    exchanges_between,
    permuted,
    planned,
)
from bellhop.circuits.backends.arrays.matrices.evolution import Evolution
from bellhop.circuits.backends.arrays.matrices.find_repeats import Stretch
from bellhop.circuits.backends.arrays.partitioned.local_operations import after_local, after_on_each
from bellhop.circuits.backends.arrays.partitioned.shard_kernels import (
    applied_in_front,
    applied_to_part,
    drawn_from_part,
)
from bellhop.circuits.backends.arrays.pauli_sums import Word
from bellhop.circuits.backends.arrays.pure_simulator import PureSimulator, on_qubits
from bellhop.circuits.ir.memory import check_parts_fit
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.shadows import to_bases
from bellhop.errors import CompileError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PartitionedState:
    """A state, and which of its qubits stand for devices.

    Attributes:
        amplitudes: an array of their real and imaginary parts, of the qubits in that order.
        devices: the qubit of each axis of the devices.
        local: those of each device's part, in order.
        is_zero: whether all qubits are zero, so that any may stand for devices.
    """

    amplitudes: Any
    devices: tuple[int, ...] = field(metadata={"static": True})
    local: tuple[int, ...] = field(metadata={"static": True})
    is_zero: bool = field(default=False, metadata={"static": True})

    @property
    def order(self) -> tuple[int, ...]:
        """That of all qubits."""
        return (*self.devices, *self.local)


class PartitionedSimulator(PureSimulator):
    """The amplitudes of all outcomes, of which each device has a part.

    Args:
        device: PennyLane's.
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
        dtype: that of the real numbers of the state.
        devices: those that the state is partitioned over.
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

    def check_fits(self) -> None:
        """Refuse a state whose parts take more memory than the devices have."""
        check_parts_fit(
            len(self.wires),
            self.where,
            devices=list(self.devices.mesh.devices.flat),
            parts=2 ** len(self.devices.axes),
            amplitude=2 * self.dtype.itemsize,
        )

    def given(self, inputs: Any) -> Any:
        """Return the inputs of a circuit, of which each device has all.

        What is computed of them is small, and XLA would partition it as it finds them.
        """
        whole = jax.NamedSharding(self.devices.mesh, WHOLE)
        is_array = lambda leaf: isinstance(leaf, jax.Array) and leaf.dtype != jax.dtypes.float0
        return jax.tree.map(
            lambda leaf: jax.lax.with_sharding_constraint(leaf, whole) if is_array(leaf) else leaf,
            inputs,
        )

    def prepared(self, preparation: Any = None) -> PartitionedState:
        """Return the amplitudes of a state."""
        k = len(self.devices.axes)
        first = tuple(range(k)), tuple(range(k, len(self.wires)))
        if preparation is None:
            return PartitionedState(self._basis_state({}), *first, is_zero=True)
        if type(preparation) is qml.BasisState:
            bits = dict(zip(map(self.wires, preparation.wires), preparation.data[0], strict=True))
            return PartitionedState(self._basis_state(bits), *first)
        amplitudes = jnp.ravel(create_initial_state(list(preparation.wires), preparation))
        qubits = [self.wires(wire) for wire in preparation.wires]
        return self._with_amplitudes(amplitudes, qubits)

    def _basis_state(self, bits: dict[int, Any]) -> Any:
        n_qubits, k = len(self.wires), len(self.devices.axes)

        def number(qubits: Sequence[int]) -> Any:
            value = jnp.uint32(0)
            for qubit in qubits:
                value = 2 * value + jnp.asarray(bits.get(qubit, 0)).astype(jnp.uint32)
            return value

        def part(device: Operand, place: Any) -> Any:
            is_here = jax.lax.iota(jnp.uint32, 2**self._n_local) == place
            is_here &= self.devices.number() == device.astype(jnp.int32)
            return jnp.stack([is_here, jnp.zeros_like(is_here)]).astype(self.dtype)

        numbers = number(range(k)), number(range(k, n_qubits))
        return self.devices.on_each(part, (WHOLE, WHOLE), self.devices.partitioned)(*numbers)

    def _with_amplitudes(self, amplitudes: Operand, qubits: Sequence[int]) -> PartitionedState:
        """Return a state of some qubits, where all others are zero."""
        k = len(self.devices.axes)
        order = [*(q for q in range(len(self.wires)) if q not in qubits), *qubits]
        size = 2**self._n_local
        both = jnp.stack([jnp.real(amplitudes), jnp.imag(amplitudes)]).astype(self.dtype)

        def part(both: Any) -> Any:
            missing = max(0, size - both.shape[1])
            padded = jnp.pad(both, ((0, 0), (0, missing)))
            n_parts = padded.shape[1] // size
            number = self.devices.number()
            found = jax.lax.dynamic_slice_in_dim(
                padded, jnp.minimum(number, n_parts - 1) * size, size, axis=1
            )
            return jnp.where(number < n_parts, found, 0)

        prepared = self.devices.on_each(part, (WHOLE,), self.devices.partitioned)(both)
        return PartitionedState(prepared, tuple(order[:k]), tuple(order[k:]))

    def as_carried(
        self, state: PartitionedState, like: PartitionedState | None = None
    ) -> PartitionedState:
        """Return a state as loops and conditionals carry it."""
        if like is not None:
            state = self._in_order(state, like.devices, like.local)
        return replace(state, is_zero=False)

    def _in_order(
        self,
        state: PartitionedState,
        devices: tuple[int, ...],
        local: tuple[int, ...] | None = None,
    ) -> PartitionedState:
        """Return a state with other qubits of devices, or those of each part in another order."""
        for exchange in exchanges_between(state.devices, devices):
            place = PlacedExchange(exchange, state.local)
            evolution = Evolution(self.base, (Stretch((place,), 1),), self.devices)
            moved = evolution.applied(state.amplitudes)
            state = PartitionedState(moved, exchange.after, place.after)
        if local in (None, state.local):
            return state
        sort = self._on_each_part(lambda part: permuted(part, state.local, local, self.base))
        return PartitionedState(sort(state.amplitudes), devices, local)

    def _with_local(self, state: PartitionedState, footprint: Footprint) -> PartitionedState:
        """Return a state, some qubits of which are on each device."""
        plan = planned([footprint], len(self.wires), state.devices, None, is_free=state.is_zero)
        return self._in_order(self._starting(state, plan.start), plan.end)

    def _starting(self, state: PartitionedState, devices: tuple[int, ...]) -> PartitionedState:
        """Return a state of zeros with other qubits of devices, or one that has these."""
        if state.devices == devices:
            return state
        return replace(state, devices=devices, local=local_qubits(devices, len(self.wires)))

    def _after_matrices(
        self, matrices: Any, run: Sequence[tuple[Any, tuple[int, ...]]], state: Any
    ) -> Any:
        footprints = [footprint_of(op, qubits) for op, qubits in run]
        plan = planned(footprints, len(self.wires), state.devices, None, is_free=state.is_zero)
        local = self._starting(state, plan.start).local
        amplitudes, local = matrices.applied_by_plan(run, state.amplitudes, plan, local)
        return PartitionedState(amplitudes, plan.end, local)

    def applies(self, op: Any) -> bool:
        """Tell whether an operation is applied as it is: not if it has more wires than a part."""
        if not super().applies(op):
            return False
        if len(op.wires) <= self._n_local or not op.has_decomposition:
            return True
        # Such a matrix is decomposed by Python.
        if any(is_dynamic(parameter) and jnp.ndim(parameter) > 0 for parameter in op.data):
            return True
        places = footprint_of(op, tuple(range(len(op.wires)))).local
        return len(places) <= self._n_local

    def after_one(self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any) -> Any:
        """Return the state after an operation on many qubits, as PennyLane applies it."""
        if any(map(is_dynamic, qubits)):
            return self._after_on_computed(op, qubits, state)
        footprint = footprint_of(op, qubits)
        if len(footprint.local) > self._n_local:
            # Its matrix, which each device has, is larger than the state.
            after = super().after_one(op, qubits, self._whole(state))
            return self._with_amplitudes(self._vector(after), range(len(self.wires)))
        state = self._with_local(state, footprint)
        on_places = on_qubits(op, self.wires).map_wires(
            {qubit: place for place, qubit in enumerate(state.order)}
        )
        after = lambda op, part: after_local(op, part, self.devices)
        amplitudes = after_on_each(on_places, after, self.devices, state.amplitudes)
        return replace(state, amplitudes=amplitudes, is_zero=False)

    def _whole(self, state: PartitionedState) -> Any:
        """Return the amplitudes in order, of which each device has all."""
        k = len(self.devices.axes)
        in_order = self._in_order(state, tuple(range(k)), tuple(range(k, len(self.wires))))
        return self.given(in_order.amplitudes)

    def _after_on_computed(
        self, op: qml.operation.Operator, qubits: tuple[Any, ...], state: Any
    ) -> Any:
        """Return the state after an operation, of whose qubits the program computes some."""
        k, n = len(self.devices.axes), len(qubits)
        if n > self._n_local:
            raise CompileError(
                f"{self.where}: {op.name} acts on {n} wires at once, of which the program computes "
                f"some, and each device has {self._n_local} of the state's {len(self.wires)}. "
                "Decompose it into gates of fewer wires, or use fewer devices."
            )
        place_of = jnp.asarray(np.argsort(state.order), jnp.int32)
        places = place_of[jnp.stack([WireMap.as_int32(jnp.asarray(qubit)) for qubit in qubits])]
        on_places = op.map_wires(dict(zip(op.wires, range(k, k + n), strict=True)))

        def after(op: Any, part: Any, places: Operand) -> Any:
            run = lambda part: after_local(op, part, self.devices)
            return applied_in_front(run, part, places, self.devices)

        amplitudes = after_on_each(on_places, after, self.devices, state.amplitudes, places)
        return replace(state, amplitudes=amplitudes, is_zero=False)

    def _on_each_part(self, function: Callable[..., Any], *others: Any) -> Any:
        """Return a function of states, and of what else it is given, as one of parts."""
        here = self.devices.partitioned
        return self.devices.on_each(function, (here, *others), here)

    def weight(self, state: Any) -> Any:
        """Return the squared norm."""
        return self._sum_of_parts(lambda part: jnp.sum(part**2), state)

    def _sum_of_parts(self, function: Callable[..., Any], state: Any, *whole: Any) -> Any:
        run = self.devices.on_each(
            lambda part, *whole: self.devices.sum(function(part, *whole)),
            (self.devices.partitioned, *[WHOLE] * len(whole)),
            WHOLE,
        )
        return run(state.amplitudes, *whole)

    def _amplitudes(self, state: Any, like: Any = None) -> Any:
        in_order = state if like is None else self._in_order(state, like.devices, like.local)
        return in_order.amplitudes

    def _after_words(self, words: Sequence[Word], state: Any) -> Callable[[Any, Any], Any]:
        def on_part(part: Any, coefficients: Operand) -> Any:
            return applied_to_part(words, coefficients, part, state.order, self.devices)

        return self._on_each_part(on_part, WHOLE)

    def _inner(self, one: Operand, other: Operand) -> Any:
        """Return the inner product of two states."""
        product = lambda one, other: self.devices.sum(jnp.sum(one * other))
        return self.devices.on_each(product, (self.devices.partitioned,) * 2, WHOLE)(one, other)

    def probabilities(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the sums of squares of amplitudes, of all devices."""
        axes = [axis for axis, qubit in enumerate(state.devices) if qubit in qubits]
        kept = [qubit for qubit in state.local if qubit in qubits]
        order = [*kept, *(qubit for qubit in state.local if qubit not in kept)]

        def marginal(part: Any) -> Any:
            squares = jnp.sum(part**2, axis=0, keepdims=True)
            rows = permuted(squares, state.local, order, self.base).reshape(2 ** len(kept), -1)
            here = jnp.arange(2 ** len(axes)) == self.devices.number(axes)
            return jnp.where(here[:, None], jnp.sum(rows, axis=1), 0)

        found = self._sum_of_parts(marginal, state).reshape(1, -1)
        before = [*(state.devices[axis] for axis in axes), *kept]
        return permuted(found, before, list(qubits), self.base)[0]

    def sample(self, state: Any, key: Operand, shots: int) -> tuple[Any, Any]:
        """Return the bits of samples, and the probability of each sample."""
        return self._drawn(state, jax.random.uniform(key, (shots,), self.dtype))

    def _drawn(self, state: Any, uniform: Operand) -> tuple[Any, Any]:
        here = self.devices.partitioned
        draw = self.devices.on_each(
            lambda uniform, part: drawn_from_part(uniform, part, self.devices),
            (WHOLE, here),
            (WHOLE, WHOLE),
        )
        device, place = draw(uniform, jax.lax.stop_gradient(state.amplitudes))

        def probability(part: Any, device: Operand, place: Any) -> Any:
            found = jnp.sum(part[:, place] ** 2, axis=0)
            return jnp.where(device == self.devices.number(), found, 0)

        probabilities = self._sum_of_parts(probability, state, device, place)
        k = len(self.devices.axes)
        columns = [(device[:, None] >> np.arange(k)[::-1]) & 1]
        columns.append((place[:, None] >> np.arange(self._n_local)[::-1]) & 1)
        return jnp.concatenate(columns, axis=1)[:, np.argsort(state.order)], probabilities

    def by_wires(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return a state as it is, and the qubits."""
        return state, qubits

    def snapshot(self, first: Any, places: Operand, bases: Operand) -> tuple[Any, Any]:
        """Sample all wires once, after rotations of some to their bases."""
        state, qubits = first
        labels = [self.wires.labels[qubit] for qubit in qubits]
        bits, probability = self._drawn(self.after(to_bases(bases, labels), state), places[:1])
        return bits[0, np.array(qubits, int)], probability[0]

    def density_matrix(self, state: Any, qubits: Sequence[int]) -> Any:
        """Return the products of amplitudes."""
        if len(qubits) > self._n_local:
            # It is larger than the state.
            return super().density_matrix(self._whole(state), qubits)
        state = self._with_local(state, Footprint.of(qubits))
        order = [*qubits, *(qubit for qubit in state.local if qubit not in qubits)]

        def products(part: Any) -> Any:
            moved = permuted(part, state.local, order, self.base).reshape(2, 2 ** len(qubits), -1)
            rows = jax.lax.complex(moved[0], moved[1])
            return jnp.matmul(rows, jnp.conj(rows).T, precision=jax.lax.Precision.HIGHEST)

        return self._sum_of_parts(products, state)
