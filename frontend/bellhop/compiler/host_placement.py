"""Placement of programs on the CPU device that ``jax.jit`` would choose.

Programs are not committed to a device, so JAX uses the device of committed arguments, or its
default; results are committed if arguments are. If JAX would run a program on another platform, or
partition it, `NotOnHostError` is raised during tracing or lowering. Then the arguments are copied
to the host, and the program runs there.
"""

import operator
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from bellhop._jax.fast_dispatch import copy_to_device
from bellhop._jax.private import (
    DEFAULT_DEVICE,
    get_partitioning,
    host_device_state,
    mesh_is_set,
    set_jax_state,
    to_uncommitted,
    without_mesh,
)
from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.devices.devices import host_device


class NotOnHostError(Exception):
    """JAX would run a program elsewhere than on one CPU device."""


# JAX state objects, each followed by a value.
State = tuple[Any, ...]


_states: dict[int, tuple[State, State]] = {}


def compute_host_state() -> tuple[State, State]:
    """Return JAX's current default device, and the setting that would make it a CPU.

    Both are states of JAX: a tuple of a JAX context variable and its value, or an empty tuple.

    Returns:
        the default device; and the setting, empty if the default device is a CPU already. Both are
        the same objects at each call with the same default device.
    """
    default = DEFAULT_DEVICE.value
    # Keyed by identity: Bellhop's default equals a platform name that users may set.
    states = _states.get(id(default))
    if states is None:
        to_set = host_device_state(default) if _is_off_host(default) else ()
        states = _states[id(default)] = (DEFAULT_DEVICE, default), to_set
    return states


def _is_off_host(default: Any) -> bool:
    """Return whether a default device is not a CPU."""
    device = jax.local_devices()[0] if default is None else default
    platform = device.partition(":")[0] if isinstance(device, str) else device.platform
    return platform != "cpu"


def check_context_on_host() -> None:
    """Raise ``NotOnHostError`` if JAX's default device is not a CPU, or a mesh is set.

    Called while JAX traces a program: it would run elsewhere. JAX retraces a function if either
    changes.
    """
    if mesh_is_set() or _is_off_host(DEFAULT_DEVICE.value):
        raise NotOnHostError


def check_lowering_on_host(context: mlir.ModuleContext) -> None:
    """Raise ``NotOnHostError`` if a module is for another platform than the CPU, or partitioned."""
    if set(context.platforms) != {"cpu"} or get_partitioning(context)[1] > 1:
        raise NotOnHostError


def default_to_host() -> AbstractContextManager[None]:
    """Return a context in which JAX's default device is a CPU."""
    # JAX's cache keys distinguish a default that is set from no default.
    _, to_set = compute_host_state()
    return set_jax_state(to_set) if to_set else nullcontext()


@contextmanager
def use_host() -> Iterator[None]:
    """Trace and run programs on a CPU, without a mesh, inside of a ``with`` block."""
    with without_mesh(), default_to_host():
        yield


def committed_devices(tree: PyTree) -> set[jax.Device]:
    """Return the devices to which the arrays of a pytree are committed.

    Uncommitted arrays, NumPy arrays and numbers do not count.
    """
    return {
        device
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array) and leaf.committed
        for device in leaf.sharding.device_set
    }


def has_single_device(tree: PyTree) -> bool:
    """Return whether the arrays of a pytree are committed to one CPU device, or to no device."""
    devices = committed_devices(tree)
    return len(devices) <= 1 and all(device.platform == "cpu" for device in devices)


def gather(tree: PyTree, operands: Sequence[int] | None = None) -> Any:
    """Copy arrays to the host if JAX would run a program on them elsewhere.

    That is, if arrays are committed to several devices, or to a device that is not a CPU. Then all
    JAX arrays are copied; the copies are uncommitted, as the user did not choose their device.

    Args:
        tree: pytree of arrays and numbers.
        operands: indices of the leaves that the program uses; other leaves are neither considered
            nor copied. None for all.

    Returns:
        the pytree with copies; `tree` itself if nothing has to be copied.
    """
    leaves, structure = jax.tree.flatten(tree)
    indices = range(len(leaves)) if operands is None else operands
    used = [leaves[index] for index in indices]
    if has_single_device(used):
        return tree
    for index, leaf in zip(indices, move_uncommitted(used), strict=True):
        leaves[index] = leaf
    return jax.tree.unflatten(structure, leaves)


def move_to_device(tree: PyTree, device: jax.Device) -> Any:
    """Commit the arrays of a pytree to a device, copying them; keep other leaves."""
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, device) if isinstance(leaf, jax.Array) else leaf, tree
    )


def move_uncommitted(tree: PyTree) -> Any:
    """Copy a pytree's JAX arrays to the first CPU device, as uncommitted arrays.

    JAX may run a computation of uncommitted arrays on any device. Other leaves stay as they are.
    """
    return jax.tree.map(
        lambda leaf: to_uncommitted(leaf) if isinstance(leaf, jax.Array) else leaf,
        move_to_device(tree, host_device()),
    )


def prepare_arguments(
    args: Args, kwargs: Kwargs, device: jax.Device | None = None
) -> tuple[Any, Any]:
    """Copy NumPy arguments to the device and wait until all arguments are ready.

    ``args`` and ``kwargs`` are pytrees. ``device`` is the program's device; by default the first
    CPU device.

    Returns:
        ``(args, kwargs)`` with JAX arrays in place of NumPy arrays.
    """
    # XLA would copy large NumPy arrays later, and run dependent computations on one of its few
    # threads: callbacks there that wait for each other could deadlock, and signals are not handled
    # there.
    here = device or host_device()
    leaves, tree = jax.tree.flatten((args, kwargs))
    arrays = [copy_to_device(leaf, here) if type(leaf) is np.ndarray else leaf for leaf in leaves]
    for array in arrays:
        if isinstance(array, jax.Array):
            array.block_until_ready()
    if all(map(operator.is_, leaves, arrays)):
        return args, kwargs
    args, kwargs = jax.tree.unflatten(tree, arrays)
    return args, kwargs
