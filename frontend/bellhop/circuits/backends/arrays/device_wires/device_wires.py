"""Represent the devices of a mesh as wires: a mesh axis of size two for each wire.

The state of ``n`` qubits over ``2**k`` devices is one array ``(2, 2**n)`` of the program, whose
last axis is partitioned.  Its qubits are in the order ``(*devices, *local)``: the first ``k``
qubits are the bits of the device's index, and functions in ``jax.shard_map`` only see the local
qubits::

    mesh ("batch", "state") of (3, 4)  ->  ("batch", "wire_0", "wire_1") of (3, 2, 2)
    f64[2, 2**n]                       ->  P(None, ("wire_0", "wire_1")): f64[2, 2**(n - 2)] each
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

from bellhop.circuits.backends.arrays.device_wires.qubit_exchange import (
    ExchangePlacement,
    permute_qubits,
)
from bellhop.devices.devices import StateAxes
from bellhop.mesh.wire_axes import WIRE_AXIS_PREFIX, is_wire_axis

REPLICATED = PartitionSpec()


@dataclass(frozen=True)
class DeviceWires:
    """A mesh of ``2**k`` devices, over which a state vector of more qubits is partitioned.

    The ``k`` bits of a device's index are the values of ``k`` of the state's qubits, the *device
    qubits*. A device holds the amplitudes for these values, its shard; the remaining qubits are
    *local*.

    Attributes:
        mesh: mesh that has one axis of size two for each device qubit, and the axes over which the
            state is not partitioned.
        axes: names of the axes of size two; the first is the most significant bit of the device's
            index.
    """

    mesh: Mesh
    axes: tuple[str, ...]

    @classmethod
    def from_state_axes(cls, state_axes: StateAxes) -> "DeviceWires":
        """Make an instance by splitting mesh axes into axes of size two.

        For instance a mesh ``{"batch": 3, "state": 4}`` with ``axes=("state",)`` becomes
        ``{"batch": 3, "wire_0": 2, "wire_1": 2}``.

        Args:
            state_axes: a mesh, and the names of its axes over which the state is partitioned. The
                sizes of these axes are powers of two.
        """
        names: list[str] = []
        sizes: list[int] = []
        for name, size in state_axes.mesh.shape.items():
            if name in state_axes.axes:
                n_wires = size.bit_length() - 1
                first = sum(map(is_wire_axis, names))
                names += [f"{WIRE_AXIS_PREFIX}{first + wire}" for wire in range(n_wires)]
                sizes += [2] * n_wires
            else:
                names.append(name)
                sizes.append(size)
        kinds = (AxisType.Auto,) * len(names)
        mesh = Mesh(state_axes.mesh.devices.reshape(sizes), tuple(names), axis_types=kinds)
        return cls(mesh, tuple(filter(is_wire_axis, names)))

    @property
    def state_spec(self) -> PartitionSpec:
        """The partition spec of a state ``[components, entries]``: entries over `axes`."""
        return PartitionSpec(None, self.axes)

    def map_shards(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        """Return ``jax.jit(jax.shard_map(function))``, manual over `axes` only.

        The result is a function of whole arrays, which returns whole arrays.

        Args:
            function: called on each device with the shards of the arguments, returns shards.
            in_specs: partition specs of the arguments, as in `jax.shard_map`.
            out_specs: partition specs of the results.
        """
        mapped = jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=set(self.axes),
            check_vma=False,
        )
        return jax.jit(mapped)

    def device_index(self, axes: Sequence[int] | None = None) -> Any:
        """Return this device's index along some axes, as a traced integer.

        Call it in a function of `map_shards`.

        Args:
            axes: positions in `self.axes`, the most significant bit of the index first. None for
                all axes.
        """
        chosen = range(len(self.axes)) if axes is None else axes
        number = jnp.int32(0)
        for axis in chosen:
            number = 2 * number + jax.lax.axis_index(self.axes[axis])
        return number

    def exchange_qubits(self, rows: Any, placement: ExchangePlacement) -> Any:
        """Exchange device qubits with local qubits, for some columns of this device's shard.

        Device qubits are the bits of the device's index. Call this method in a function of
        `map_shards`. The exchange is a `jax.lax.all_to_all`; if the same qubits are device qubits
        before and after, and only change their order, it is a `jax.lax.ppermute`.

        Args:
            rows: array ``[components * 2**incoming, columns]``. The most significant part of a
                row's index is the component (real or imaginary part), the rest are the values of
                the qubits that become device qubits (incoming). The columns are any part of the
                values of the shard's remaining qubits.
            placement: the exchange, and the order of the qubits in the shard.

        Returns:
            array of the same shape, in which the qubits that were device qubits take the place of
            the incoming qubits.
        """
        if placement.axes:
            blocks = rows.reshape(-1, 2 ** len(placement.axes), rows.shape[1])
            names = tuple(self.axes[axis] for axis in placement.axes)
            return jax.lax.all_to_all(blocks, names, 1, 1, tiled=True).reshape(rows.shape)
        numbers = np.arange(2 ** len(self.axes)).reshape(1, -1)
        # For each device, the device that holds its new shard.
        sources = permute_qubits(numbers, placement.exchange.before, placement.exchange.after, 2)[
            0
        ].tolist()
        moves = [(source, device) for device, source in enumerate(sources)]
        return jax.lax.ppermute(rows, self.axes, moves)

    def sum_over_devices(self, value: object) -> Any:
        """Sum a pytree of arrays over all devices; call it in a function of `map_shards`."""
        return jax.tree.map(partial(jax.lax.psum, axis_name=self.axes), value)


def list_local_qubits(devices: Sequence[int], n_qubits: int) -> tuple[int, ...]:
    """Return the qubits in ``range(n_qubits)`` that are not in `devices`, ascending.

    Args:
        devices: the qubits that are bits of the device's index.
        n_qubits: number of qubits of the state.
    """
    return tuple(qubit for qubit in range(n_qubits) if qubit not in devices)
