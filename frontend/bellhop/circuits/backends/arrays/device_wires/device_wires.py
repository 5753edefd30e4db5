"""The devices that a state is partitioned over: a mesh with an axis of two for each wire.

A state of ``n`` qubits over ``2**k`` devices is one array of the program, ``(2, 2**n)``, whose
last axis is partitioned.  Its qubits are in the order ``(*devices, *others)``, so the first ``k``
are the number of the device in binary, and what is done inside of ``jax.shard_map`` sees the others
alone::

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
    """Axes of a mesh that stand for wires.

    Attributes:
        mesh: with one axis for each of them, of size two.
        axes: their names.
    """

    mesh: Mesh
    axes: tuple[str, ...]

    @classmethod
    def from_state_axes(cls, state_axes: StateAxes) -> "DeviceWires":
        """Return those of axes whose sizes are powers of two."""
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
        """How a state is partitioned."""
        return PartitionSpec(None, self.axes)

    def map_shards(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        """Return a function of the parts of each device as one of whole arrays."""
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
        """Return the values of the wires of some axes, as one number, or those of all."""
        chosen = range(len(self.axes)) if axes is None else axes
        number = jnp.int32(0)
        for axis in chosen:
            number = 2 * number + jax.lax.axis_index(self.axes[axis])
        return number

    def exchange_qubits(self, rows: Any, placement: ExchangePlacement) -> Any:
        """Return some columns of the part of this device after an exchange.

        Args:
            rows: of parts and incoming qubits; afterwards of parts and outgoing ones.
            placement: of the exchange.
        """
        if placement.axes:
            blocks = rows.reshape(-1, 2 ** len(placement.axes), rows.shape[1])
            names = tuple(self.axes[axis] for axis in placement.axes)
            return jax.lax.all_to_all(blocks, names, 1, 1, tiled=True).reshape(rows.shape)
        numbers = np.arange(2 ** len(self.axes)).reshape(1, -1)
        # Where the part is that is to be on each.
        sources = permute_qubits(numbers, placement.exchange.before, placement.exchange.after, 2)[
            0
        ].tolist()
        moves = [(source, device) for device, source in enumerate(sources)]
        return jax.lax.ppermute(rows, self.axes, moves)

    def sum_over_devices(self, value: object) -> Any:
        """Return the sum over all devices."""
        return jax.tree.map(partial(jax.lax.psum, axis_name=self.axes), value)


def list_local_qubits(devices: Sequence[int], n_qubits: int) -> tuple[int, ...]:
    """Return the qubits of each device's part, in order."""
    return tuple(qubit for qubit in range(n_qubits) if qubit not in devices)
