"""Compute with a state's shards: samples, dynamic wires and Pauli words.

To draw samples, all devices share the probabilities of their shards, which select a device for each
shot.  In a shard, each shot descends a tree of partial sums with sixteen children per node, so it
reads few scalars.

For gates on dynamic wires, these wires are swapped with the first wires of each shard: a
permutation of the shard for a local wire, an exchange of half a shard for a device wire.

In a Pauli word, letters on device wires determine where a shard is sent, and its sign: X and Y flip
bits of the device's index, Z and Y give a sign by these bits.  Words that flip the same device
wires share one transfer::

    X0 Z3 + Y0 X4 + Z1 X4, device wires 0 and 1  =  flip 0 of (Z3 + i s0 X4) + s1 X4
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.device_wires.device_wires import DeviceWires
from bellhop.circuits.backends.arrays.pauli_sums import PauliTerm, apply_pauli_sum

_BITS_PER_LEVEL = 4


def sample_sharded_state(uniform: Any, shard: Any, devices: DeviceWires) -> tuple[Any, Any]:
    """Sample basis states of a sharded state by inverse transform sampling.

    Call it in a function of ``jax.shard_map``, on all devices.

    Args:
        uniform: ``[shots]``, uniform random numbers between zero and one, replicated.
        shard: array ``[2, entries]``, amplitudes on this device.

    Returns:
        for each shot, the index of the device and the index in this device's shard that together
        are the sampled basis state; two integer arrays ``[shots]``, replicated.
    """
    levels = [jnp.sum(shard**2, axis=0)]
    while levels[-1].size > 1:
        bits = min(_BITS_PER_LEVEL, levels[-1].size.bit_length() - 1)
        # A row for each entry of the next level.
        levels[-1] = levels[-1].reshape(-1, 2**bits)
        levels.append(jnp.sum(levels[-1], axis=1))
    of_each = jax.lax.all_gather(levels.pop()[0], devices.axes)
    rows = jnp.broadcast_to(of_each, (len(uniform), len(of_each)))
    device, rest = _find_intervals(uniform * jnp.sum(of_each), rows)
    place = jnp.zeros_like(device)
    for level in reversed(levels):
        child, rest = _find_intervals(rest, level[place])
        place = level.shape[1] * place + child
    is_here = device == devices.device_index()
    return device, devices.sum_over_devices(jnp.where(is_here, place, 0))


def _find_intervals(positions: Any, rows: Any) -> tuple[Any, Any]:
    """Find in each row of adjacent intervals the interval that contains a position.

    Args:
        positions: ``[rows]``, positions along the row's concatenated intervals.
        rows: ``[rows, intervals]``, lengths of the intervals, the first of which starts at 0.

    Returns:
        the index of the interval, and the distance of the position from the interval's start.
    """
    ends = jnp.cumsum(rows, axis=1)
    # Rounding must not select an interval of length zero, or one after the last.
    last = rows.shape[1] - 1 - jnp.argmax(rows[:, ::-1] > 0, axis=1)
    interval = jnp.minimum(jnp.sum(positions[:, None] >= ends, axis=1), last)
    starts = jnp.take_along_axis(ends - rows, interval[:, None], axis=1)[:, 0]
    return interval, jnp.maximum(positions - starts, 0)


def apply_to_leading_qubits(
    function: Callable[[Any], Any], shard: Any, positions: Operand, devices: DeviceWires
) -> Any:
    """Apply a function of a shard's leading qubits to qubits at dynamic positions.

    The qubits are swapped to the front of the shard, and back after the call. This also holds for
    device qubits, which are the bits of the device's index; their swaps are communication.

    Args:
        function: takes and returns a shard, with the qubits at `positions` in front.
        shard: array ``[2, entries]``, amplitudes on this device.
        positions: traced integers ``[n]``, distinct positions among device qubits (first) and local
            qubits.
        devices: the mesh over which the state is partitioned.

    Returns:
        the new shard, in the same shape.
    """
    changes: list[Any] = []
    for local in range(len(positions)):
        place = positions[local]
        shard = _swap_qubits(shard, local, place, devices)
        changes.append(place)
        # The qubit that was in front is now at this position.
        positions = jnp.where(positions == len(devices.axes) + local, place, positions)
    shard = function(shard)
    for local, place in reversed(list(enumerate(changes))):
        shard = _swap_qubits(shard, local, place, devices)
    return shard


def _swap_qubits(shard: Any, local: int, position: Operand, devices: DeviceWires) -> Any:
    """Swap the local qubit at a static position with the qubit at a dynamic position.

    Args:
        shard: array ``[2, entries]``.
        local: position of the first qubit in the shard.
        position: traced position of the other qubit among device qubits (first) and local qubits.
        devices: the mesh over which the state is partitioned.
    """
    k, n_local = len(devices.axes), shard.shape[1].bit_length() - 1

    def swap_with_device(axis: str) -> Any:
        """Return a function that swaps the local qubit with the qubit of a mesh axis."""

        def swap(part: Any) -> Any:
            """Exchange half of the shard with the neighbor on the mesh axis."""
            halves = part.reshape(len(part), 2**local, 2, -1)
            return jax.lax.all_to_all(halves, axis, 2, 2, tiled=True).reshape(part.shape)

        return swap

    def swap_locally(part: Any) -> Any:
        """Return a shard with two local qubits swapped, by permuting its entries."""
        index = jax.lax.iota(jnp.uint32, part.shape[1])
        one, other = (
            (n_local - 1 - there).astype(jnp.uint32) for there in (jnp.int32(local), position - k)
        )
        differ = (index >> one ^ index >> other) & 1
        return part[:, index ^ (differ << one) ^ (differ << other)]

    branches: Sequence[Any] = [*map(swap_with_device, devices.axes), swap_locally]
    return jax.lax.switch(jnp.minimum(position, k), branches, shard)


def apply_words_to_shard(
    words: Sequence[PauliTerm],
    coefficients: Operand,
    shard: Any,
    order: Sequence[int],
    devices: DeviceWires,
) -> Any:
    """Apply a sum of Pauli words to this device's shard.

    Call it in a function of ``jax.shard_map``. Words with X or Y on device qubits (the bits of the
    device's index) exchange shards between devices.

    Args:
        words: at least one word; their own coefficients are not used.
        coefficients: real array ``[words]``.
        shard: array ``[2, entries]``, real and imaginary parts.
        order: the qubits of the state in order, device qubits first.

    Returns:
        this device's shard of the new state.
    """
    k = len(devices.axes)
    place = {qubit: number for number, qubit in enumerate(order)}
    local_words, device_words = [], []
    for word in words:
        placed = [(place[qubit], letter) for qubit, letter in word.letters]
        device_words.append(PauliTerm(1, [each for each in placed if each[0] < k]))
        local_words.append(
            PauliTerm(1, [(qubit - k, letter) for qubit, letter in placed if qubit >= k])
        )
    masks = np.array([word.find_mask("YZ", k) for word in device_words], np.int32)
    signs = 1 - 2 * (jax.lax.population_count(devices.device_index() & masks) & 1)
    powers = np.array([1 if word.phase_power < 2 else -1 for word in device_words])
    shares = coefficients * (signs * powers).astype(shard.dtype)
    groups: dict[int, dict[bool, list[int]]] = defaultdict(lambda: {False: [], True: []})
    for number, word in enumerate(device_words):
        groups[word.find_mask("XY", k)][word.phase_power % 2 == 1].append(number)

    def apply_words(some: Sequence[int]) -> Any:
        """Apply the sum of the words with indices `some` to the shard.

        Letters on device qubits are left out, and coefficients include their signs.
        """
        return apply_pauli_sum(
            [local_words[number] for number in some], shard, shares[np.array(some)]
        )

    total: Any = 0
    for flips, (plain, turned) in ((flips, some.values()) for flips, some in groups.items()):
        after = apply_words(plain) if plain else jnp.zeros_like(shard)
        if turned:
            real, imag = apply_words(turned)
            after += jnp.stack([-imag, real])
        if flips:
            moves = [(device, device ^ flips) for device in range(2**k)]
            after = jax.lax.ppermute(after, devices.axes, moves)
        total += after
    return total
