"""Memory of devices, and memory that a compiled program needs."""

import math
import sys
from collections.abc import Sequence

import jax

from bellhop_runtime import memory_for_process


def min_device_memory(devices: Sequence[jax.Device]) -> int:
    """Return the memory in bytes of the device with the least memory.

    CPU devices of one process share the process's memory equally.

    Args:
        devices: devices of any process; at least one.

    Returns:
        the bytes; ``sys.maxsize`` if no device's memory is known.
    """
    return min(_single_device_memory(device, devices) for device in devices)


def _single_device_memory(device: jax.Device, devices: Sequence[jax.Device]) -> int:
    """Return the memory in bytes that one device may use.

    Args:
        device: the device.
        devices: all devices in use; CPU devices of one process among them share its memory.

    Returns:
        the bytes; ``sys.maxsize`` if they are unknown, as for GPUs of other processes.
    """
    stats = device.memory_stats() if device.process_index == jax.process_index() else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    if device.platform != "cpu":
        # The device does not report its memory.
        return sys.maxsize
    together = sum(each.process_index == device.process_index for each in devices)
    return memory_of_process() // together


def memory_of_process() -> int:
    """Return the memory in bytes that this process may use.

    It is the machine's memory, or a lower limit that the operating system sets for the process;
    ``sys.maxsize`` if unknown.
    """
    memory = memory_for_process()
    return sys.maxsize if math.isinf(memory) else int(memory)


def required_memory(compiled: jax.stages.Compiled) -> int:
    """Return the memory in bytes that a compiled program needs on each device.

    It is XLA's estimate for arguments, results and temporary arrays, where memory that an argument
    and a result share counts once; 0 if XLA gives none.
    """
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
    """Return the smallest power of two of devices that together have enough memory.

    Args:
        required: needed memory in bytes, of all devices together.
        available: memory of each device in bytes.
    """
    return 1 << max(0, -(-required // available) - 1).bit_length()


def format_gib(size: int) -> str:
    """Format a number of bytes, such as ``1.5 GiB``; huge numbers as ``2**70 GiB``."""
    exponent = size.bit_length() - 1 - 30
    if exponent > 60:
        return f"2**{exponent} GiB"
    return f"{math.ldexp(size, -30):.4g} GiB"
