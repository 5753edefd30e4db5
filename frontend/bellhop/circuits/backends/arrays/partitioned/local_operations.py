"""Apply an operation to the shard of a state on each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.device_wires.device_wires import REPLICATED, DeviceWires
from bellhop.circuits.backends.arrays.pennylane_operations import (
    apply_to_amplitudes,
    is_diagonal,
    split_controls,
)
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
        """Rebuild the operation from its traced parameters, and apply it to a shard."""
        next_values = iter(computed)
        values = [next(next_values) if is_dynamic(value) else value for value in parameters]
        return apply(replace_parameters(op, values), part, *others)

    here = devices.state_spec
    specs = (here, [REPLICATED] * len(computed), *[REPLICATED] * len(others))
    return devices.map_shards(run_on_shard, specs, here)(amplitudes, computed, *others)


def apply_to_shard(op: qml.operation.Operator, shard: Any, devices: DeviceWires) -> Any:
    """Apply an operation to this device's shard of a state, without communication.

    Some qubits are the bits of the device's index (device qubits). The operation must be diagonal
    on its device qubits; controls are. Call it in a function of ``jax.shard_map``.

    Args:
        op: operation whose wires are positions in the state's qubit order: first the device qubits,
            then the local qubits.
        shard: array ``[2, entries]``, real and imaginary parts.
        devices: the mesh over which the state is partitioned.

    Returns:
        the new shard, in the same shape.
    """
    k, n_local = len(devices.axes), shard.shape[1].bit_length() - 1
    vector = jax.lax.complex(shard[0], shard[1]).reshape((2,) * n_local)
    bits = {place: devices.device_index([place]) for place in op.wires if place < k}
    axes = {place: place - k for place in op.wires if place >= k}
    vector = _apply_with_fixed_bits(op, vector, axes, bits)
    return jnp.stack([vector.real, vector.imag]).reshape(shard.shape).astype(shard.dtype)


def _apply_with_fixed_bits(
    op: qml.operation.Operator,
    vector: Any,
    axes: Mapping[Any, int],
    bits: Mapping[Any, Any],
) -> Any:
    """Apply an operation to the amplitudes for given bits of some of its wires.

    For instance ``CRX`` on wires ``(0, 1)`` with ``bits={0: 1}`` and ``axes={1: 0}`` applies ``RX``
    to the first axis.

    Args:
        op: the operation, which is diagonal on the wires in `bits`.
        vector: complex array ``[2, ..., 2]``, an axis for each qubit that has no given bit.
        axes: the axis of `vector` of each of the remaining wires.
        bits: the bit, 0 or 1, of some wires; traced.

    Returns:
        the new amplitudes, in the same shape.
    """
    fixed = [wire for wire in op.wires if wire in bits]
    if not fixed:
        return apply_to_amplitudes(op.map_wires({wire: axes[wire] for wire in op.wires}), vector)
    split = split_controls(op)
    if split is not None:
        base, controls = split
        # The base acts on the entries whose bits are the controls' values.
        local_values = {axes[wire]: int(value) for wire, value in controls.items() if wire in axes}
        index = tuple(local_values.get(axis, slice(None)) for axis in range(vector.ndim))
        kept_axes = [axis for axis in range(vector.ndim) if axis not in local_values]
        entries = vector[index]
        base_axes = {wire: kept_axes.index(axes[wire]) for wire in base.wires if wire in axes}
        applied = _apply_with_fixed_bits(base, entries, base_axes, bits)
        for wire, value in controls.items():
            if wire in bits:
                applied = jnp.where(bits[wire] == int(value), applied, entries)
        applied = applied.astype(vector.dtype)
        # Without local controls, the indices of a scatter would be an empty constant, which
        # ``jax.shard_map`` takes as an input, and at which jaxlib 0.11 crashes.
        return vector.at[index].set(applied) if local_values else applied
    n_wires = len(op.wires)
    chosen = tuple(bits.get(wire, slice(None)) for wire in op.wires)
    local_axes = [axes[wire] for wire in op.wires if wire in axes]
    if is_diagonal(op):
        diagonal = jnp.asarray(op.eigvals()).reshape((2,) * n_wires)[chosen]
        shape = [2 if axis in local_axes else 1 for axis in range(vector.ndim)]
        return vector * diagonal.transpose(np.argsort(local_axes)).reshape(shape)
    # The block of the matrix for these bits.
    matrix = jnp.asarray(op.matrix(wire_order=op.wires)).reshape((2,) * 2 * n_wires)
    block = matrix[chosen + chosen]
    n_axes = len(local_axes)
    product = jnp.tensordot(block, vector, axes=(list(range(n_axes, 2 * n_axes)), local_axes))
    return jnp.moveaxis(product, list(range(n_axes)), local_axes)
