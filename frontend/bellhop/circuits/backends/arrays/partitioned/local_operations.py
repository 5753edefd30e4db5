"""Apply an operation to the shard of a state on each device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.device_wires.device_wires import REPLICATED, DeviceWires
from bellhop.circuits.backends.arrays.pennylane_operations import (
    apply_to_amplitudes,
    split_controls,
)
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.operator_data import get_parameters, replace_parameters
from bellhop.circuits.ir.wires import is_dynamic

if TYPE_CHECKING:
    import pennylane as qml


def apply_to_all_shards(
    op: qml.operation.Operator,
    apply: Callable[..., Any],
    devices: DeviceWires,
    amplitudes: Any,
    *others: Any,
) -> Any:
    """Apply an operation to a state that is partitioned over devices, shard by shard.

    Traced parameters of the operation become operands of ``jax.shard_map``.

    Args:
        op: the operation, with static or traced parameters.
        apply: ``apply(op, shard, *others) -> shard``, called on each device.
        devices: the mesh over which the state is partitioned.
        amplitudes: the partitioned state, whole array ``[2, 2**qubits]``.
        *others: further arguments of `apply`, arrays that are replicated on all devices.

    Returns:
        the new partitioned state, in the shape of `amplitudes`.
    """
    parameters = get_parameters(op)
    computed = list(filter(is_dynamic, parameters))

    def run_on_shard(part: Any, computed: Sequence[Any], *others: Any) -> Any:
        """Rebuild the operation with its traced parameters; return `apply` of a shard."""
        next_values = iter(computed)
        values = [next(next_values) if is_dynamic(value) else value for value in parameters]
        return apply(replace_parameters(op, values), part, *others)

    here = devices.state_spec
    specs = (here, [REPLICATED] * len(computed), *[REPLICATED] * len(others))
    return devices.map_shards(run_on_shard, specs, here)(amplitudes, computed, *others)


def apply_to_shard(op: qml.operation.Operator, shard: Any, devices: DeviceWires) -> Any:
    """Apply an operation to this device's shard of a state, without communication.

    Some qubits are the bits of the device's index (device qubits). Apart from controls, the
    operation must act on local qubits alone, or must be diagonal on all of its wires. Call it in a
    function of ``jax.shard_map``.

    Args:
        op: operation whose wires are positions in the state's qubit order: first the device qubits,
            then the local qubits.
        shard: array ``[2, entries]``, real and imaginary parts.

    Returns:
        the new shard, in the same shape.
    """
    k, n_local = len(devices.axes), shard.shape[1].bit_length() - 1
    bit_of = lambda place: devices.device_index([place])
    in_parts = lambda x: jnp.stack([x.real, x.imag]).reshape(shard.shape).astype(shard.dtype)
    vector = jax.lax.complex(shard[0], shard[1]).reshape((2,) * n_local)
    if all(place >= k for place in op.wires):
        return in_parts(apply_to_amplitudes(op.map_wires({p: p - k for p in op.wires}), vector))
    split = split_controls(op)
    if split is not None:
        base, values = split
        local_controls = [(place, value) for place, value in values.items() if place >= k]
        inner = Modifiers(adjoint=False, controls=local_controls).apply(base)
        holds = jnp.bool_(True)
        for place, value in values.items():
            if place < k:
                holds &= bit_of(place) == int(value)
        return jnp.where(holds, apply_to_shard(inner, shard, devices), shard)
    eigenvalues = jnp.asarray(op.eigvals()).reshape((2,) * len(op.wires))
    chosen = tuple(bit_of(place) if place < k else slice(None) for place in op.wires)
    local_positions = [place - k for place in op.wires if place >= k]
    diagonal = eigenvalues[chosen].transpose(np.argsort(local_positions))
    shape = [2 if place in local_positions else 1 for place in range(n_local)]
    return in_parts(vector * diagonal.reshape(shape))
