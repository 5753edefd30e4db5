"""Samples of a state over several devices: which device has it, and then where in its part.

Each device says how probable its part is, and looks for its own shots in sums of its part: of
sixteen numbers, then of sixteen of these, and so on, so that one shot looks at few numbers.
"""

from typing import Any

import jax
import jax.numpy as jnp

from bellhop.circuits.in_program.device_wires.device_wires import DeviceWires

_BITS = 4


def drawn_from_part(uniform: Any, part: Any, devices: DeviceWires) -> tuple[Any, Any]:
    """Draw from a state, by numbers between zero and one, of which each device has all.

    Args:
        uniform: one for each shot.
        part: amplitudes of this device.
        devices: those of the state.

    Returns:
        for each shot, the number of the device, and the place in its part.
    """
    levels = [jnp.sum(part**2, axis=0)]
    while levels[-1].size > 1:
        bits = min(_BITS, levels[-1].size.bit_length() - 1)
        # A row for each number of the next level.
        levels[-1] = levels[-1].reshape(-1, 2**bits)
        levels.append(jnp.sum(levels[-1], axis=1))
    of_each = jax.lax.all_gather(levels.pop()[0], devices.axes)
    rows = jnp.broadcast_to(of_each, (len(uniform), len(of_each)))
    device, rest = _found(uniform * jnp.sum(of_each), rows)
    place = jnp.zeros_like(device)
    for level in reversed(levels):
        child, rest = _found(rest, level[place])
        place = level.shape[1] * place + child
    is_here = device == devices.number()
    return device, devices.sum(jnp.where(is_here, place, 0))


def _found(places: Any, rows: Any) -> tuple[Any, Any]:
    """Find places in intervals that lie side by side.

    Args:
        places: one for each row.
        rows: how long the intervals are.

    Returns:
        the number of the interval, and the place in it.
    """
    ends = jnp.cumsum(rows, axis=1)
    # Of no length is none, nor is there one behind the last where rounding leads there.
    last = rows.shape[1] - 1 - jnp.argmax(rows[:, ::-1] > 0, axis=1)
    found = jnp.minimum(jnp.sum(places[:, None] >= ends, axis=1), last)
    starts = jnp.take_along_axis(ends - rows, found[:, None], axis=1)[:, 0]
    return found, jnp.maximum(places - starts, 0)
