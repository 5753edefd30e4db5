"""What each device does with its part of a state: samples, wires that are computed, Pauli words.

A sample is of some device, and then of some place in its part.  Each device says how probable its
part is, and looks for its own shots in sums of its part: of sixteen numbers, then of sixteen of
these, and so on, so that one shot looks at few numbers.

Wires that the program computes change places with the first wires of each part, and a gate acts on
these: a permutation of the part for a wire that is local, an exchange of half a part for one that
stands for devices.

Of a Pauli word, the letters on wires of devices decide where a part goes, and its sign: X and Y
flip bits of the device's number, Z and Y are a sign by it.  So words that flip the same of them
share one move::

    X0 Z3 + Y0 X4 + Z1 X4, wire 0 and 1 of devices  =  flip 0 of (Z3 + i s0 X4) + s1 X4
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
    """Draw from a state, by numbers between zero and one, of which each device has all.

    Args:
        uniform: one for each shot.
        shard: amplitudes of this device.
        devices: those of the state.

    Returns:
        for each shot, the number of the device, and the place in its part.
    """
    levels = [jnp.sum(shard**2, axis=0)]
    while levels[-1].size > 1:
        bits = min(_BITS_PER_LEVEL, levels[-1].size.bit_length() - 1)
        # A row for each number of the next level.
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
    """Find places in intervals that lie side by side.

    Args:
        positions: one for each row.
        rows: how long the intervals are.

    Returns:
        the number of the interval, and the place in it.
    """
    ends = jnp.cumsum(rows, axis=1)
    # Of no length is none, nor is there one behind the last where rounding leads there.
    last = rows.shape[1] - 1 - jnp.argmax(rows[:, ::-1] > 0, axis=1)
    found = jnp.minimum(jnp.sum(positions[:, None] >= ends, axis=1), last)
    starts = jnp.take_along_axis(ends - rows, found[:, None], axis=1)[:, 0]
    return found, jnp.maximum(positions - starts, 0)


def apply_to_leading_qubits(
    function: Callable[[Any], Any], shard: Any, positions: Operand, devices: DeviceWires
) -> Any:
    """Return the part of this device after a function of it that acts on its first wires.

    Args:
        function: takes and returns a part, in which computed places have changed with the first.
        shard: of two axes.
        positions: in the order of the devices' axes and then those of the part; all different.
        devices: those of the state.
    """
    changes: list[Any] = []
    for local in range(len(positions)):
        place = positions[local]
        shard = _swap_qubits(shard, local, place, devices)
        changes.append(place)
        # What was in front is there now.
        positions = jnp.where(positions == len(devices.axes) + local, place, positions)
    shard = function(shard)
    for local, place in reversed(list(enumerate(changes))):
        shard = _swap_qubits(shard, local, place, devices)
    return shard


def _swap_qubits(shard: Any, local: int, position: Operand, devices: DeviceWires) -> Any:
    """Return a part where one of its places and a computed place have changed."""
    k, n_local = len(devices.axes), shard.shape[1].bit_length() - 1

    def swap_with_device(axis: str) -> Any:
        def swap(part: Any) -> Any:
            halves = part.reshape(len(part), 2**local, 2, -1)
            return jax.lax.all_to_all(halves, axis, 2, 2, tiled=True).reshape(part.shape)

        return swap

    def swap_locally(part: Any) -> Any:
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
    """Return the part of this device of a state after a sum of words.

    Args:
        words: at least one; their coefficients are not used.
        coefficients: real numbers, one for each.
        shard: the real and imaginary parts of amplitudes.
        order: of the qubits, those of devices first.
        devices: those of the state.
    """
    k = len(devices.axes)
    place = {qubit: number for number, qubit in enumerate(order)}
    here, there = [], []
    for word in words:
        placed = [(place[qubit], letter) for qubit, letter in word.letters]
        there.append(PauliTerm(1, [each for each in placed if each[0] < k]))
        here.append(PauliTerm(1, [(qubit - k, letter) for qubit, letter in placed if qubit >= k]))
    masks = np.array([word.find_mask("YZ", k) for word in there], np.int32)
    signs = 1 - 2 * (jax.lax.population_count(devices.device_index() & masks) & 1)
    powers = np.array([1 if word.phase_power < 2 else -1 for word in there])
    shares = coefficients * (signs * powers).astype(shard.dtype)
    groups: dict[int, dict[bool, list[int]]] = defaultdict(lambda: {False: [], True: []})
    for number, word in enumerate(there):
        groups[word.find_mask("XY", k)][word.phase_power % 2 == 1].append(number)

    def apply_words(some: Sequence[int]) -> Any:
        return apply_pauli_sum([here[number] for number in some], shard, shares[np.array(some)])

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
