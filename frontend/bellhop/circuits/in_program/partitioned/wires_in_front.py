"""Wires that the program computes, of a state over several devices.

They change places with the first wires of each part, and a gate acts on these: a permutation of the
part for a wire that is local, an exchange of half a part for one that stands for devices.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import Operand
from bellhop.circuits.in_program.device_wires.device_wires import DeviceWires


def applied_in_front(
    function: Callable[[Any], Any], part: Any, places: Operand, devices: DeviceWires
) -> Any:
    """Return the part of this device after a function of it that acts on its first wires.

    Args:
        function: takes and returns a part, in which computed places have changed with the first.
        part: of two axes.
        places: in the order of the devices' axes and then those of the part; all different.
        devices: those of the state.
    """
    changes: list[Any] = []
    for local in range(len(places)):
        place = places[local]
        part = _changed(part, local, place, devices)
        changes.append(place)
        # What was in front is there now.
        places = jnp.where(places == len(devices.axes) + local, place, places)
    part = function(part)
    for local, place in reversed(list(enumerate(changes))):
        part = _changed(part, local, place, devices)
    return part


def _changed(part: Any, local: int, place: Operand, devices: DeviceWires) -> Any:
    """Return a part where one of its places and a computed place have changed."""
    k, n_local = len(devices.axes), part.shape[1].bit_length() - 1

    def with_device(axis: str) -> Any:
        def changed(part: Any) -> Any:
            halves = part.reshape(len(part), 2**local, 2, -1)
            return jax.lax.all_to_all(halves, axis, 2, 2, tiled=True).reshape(part.shape)

        return changed

    def within(part: Any) -> Any:
        index = jax.lax.iota(jnp.uint32, part.shape[1])
        one, other = (
            (n_local - 1 - there).astype(jnp.uint32) for there in (jnp.int32(local), place - k)
        )
        differ = (index >> one ^ index >> other) & 1
        return part[:, index ^ (differ << one) ^ (differ << other)]

    branches: Sequence[Any] = [*map(with_device, devices.axes), within]
    return jax.lax.switch(jnp.minimum(place, k), branches, part)
