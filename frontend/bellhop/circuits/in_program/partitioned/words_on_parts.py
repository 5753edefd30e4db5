"""Sums of Pauli words on a state over several devices, of which each sends its part only.

The letters on wires of devices decide where a part goes, and its sign: X and Y flip bits of the
device's number, Z and Y are a sign by it.  So words that flip the same of them share one move::

    X0 Z3 + Y0 X4 + Z1 X4, wire 0 and 1 of devices  =  flip 0 of (Z3 + i s0 X4) + s1 X4
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.in_program.device_wires.device_wires import DeviceWires
from bellhop.circuits.in_program.pauli_sums import Word, applied


def applied_to_part(
    words: Sequence[Word],
    coefficients: Operand,
    part: Any,
    order: Sequence[int],
    devices: DeviceWires,
) -> Any:
    """Return the part of this device of a state after a sum of words.

    Args:
        words: at least one; their coefficients are not used.
        coefficients: real numbers, one for each.
        part: the real and imaginary parts of amplitudes.
        order: of the qubits, those of devices first.
        devices: those of the state.
    """
    k = len(devices.axes)
    place = {qubit: number for number, qubit in enumerate(order)}
    here, there = [], []
    for word in words:
        placed = [(place[qubit], letter) for qubit, letter in word.letters]
        there.append(Word(1, [each for each in placed if each[0] < k]))
        here.append(Word(1, [(qubit - k, letter) for qubit, letter in placed if qubit >= k]))
    masks = np.array([word.mask("YZ", k) for word in there], np.int32)
    signs = 1 - 2 * (jax.lax.population_count(devices.number() & masks) & 1)
    powers = np.array([1 if word.power < 2 else -1 for word in there])
    shares = coefficients * (signs * powers).astype(part.dtype)
    groups: dict[int, dict[bool, list[int]]] = defaultdict(lambda: {False: [], True: []})
    for number, word in enumerate(there):
        groups[word.mask("XY", k)][word.power % 2 == 1].append(number)

    def after_some(some: Sequence[int]) -> Any:
        return applied([here[number] for number in some], part, shares[np.array(some)])

    total: Any = 0
    for flips, (plain, turned) in ((flips, some.values()) for flips, some in groups.items()):
        after = after_some(plain) if plain else jnp.zeros_like(part)
        if turned:
            real, imag = after_some(turned)
            after += jnp.stack([-imag, real])
        if flips:
            moves = [(device, device ^ flips) for device in range(2**k)]
            after = jax.lax.ppermute(after, devices.axes, moves)
        total += after
    return total
