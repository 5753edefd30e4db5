"""How much memory devices have, and how much more a program takes there."""

import math
import sys
from collections.abc import Sequence

import jax

from bellhop_runtime import memory_for_process


def min_device_memory(devices: Sequence[jax.Device]) -> int:
    """Return the bytes that each of some devices has, the one with the least of them.

    The CPUs of a process share those of its machine.
    """
    return min(_single_device_memory(device, devices) for device in devices)


def _single_device_memory(device: jax.Device, devices: Sequence[jax.Device]) -> int:
    stats = device.memory_stats() if device.process_index == jax.process_index() else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    if device.platform != "cpu":
        # It does not say.
        return sys.maxsize
    together = sum(each.process_index == device.process_index for each in devices)
    return memory_of_process() // together


def memory_of_process() -> int:
    """Return the bytes that this process may have: of the machine, or by a limit of the system."""
    memory = memory_for_process()
    return sys.maxsize if math.isinf(memory) else int(memory)


def required_memory(compiled: jax.stages.Compiled) -> int:
    """Return the bytes that a program takes of each of its devices; 0 where that is not known."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return 0
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )


def required_device_count(required: int, available: int) -> int:
    """Return how many devices have enough together, a power of two."""
    return 1 << max(0, -(-required // available) - 1).bit_length()


def format_gib(size: int) -> str:
    """Return a number of bytes in words; of numbers that no float holds, too."""
    exponent = size.bit_length() - 1 - 30
    if exponent > 60:
        return f"2**{exponent} GiB"
    return f"{math.ldexp(size, -30):.4g} GiB"
