"""Where programs run: on the one device of the host that ``jax.jit`` would choose, if it is one.

Nothing of ours is committed to a device, so JAX takes the device of arguments that are, and its
default otherwise; and results are committed where arguments were.  What JAX would run elsewhere,
on another platform or partitioned over devices, is refused while it is traced or lowered, before
anything runs; then arguments are gathered, and it runs on the host.
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
    as_uncommitted,
    host_by_default,
    mesh_is_set,
    partitioning,
    set_jax_state,
    without_mesh,
)
from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.devices.devices import host_device


class NotOnHostError(Exception):
    """A program would not run on one device of the host."""


# Objects of JAX's state, each followed by a value.
State = tuple[Any, ...]


_states: dict[int, tuple[State, State]] = {}


def compute_host_state() -> tuple[State, State]:
    """Return what JAX's state is, and what to set for a program of ours to run on the host.

    Both are about JAX's default device; they are the same objects each time.
    """
    default = DEFAULT_DEVICE.value
    # By identity: bellhop's own default equals a name that the user may give.
    found = _states.get(id(default))
    if found is None:
        to_set = host_by_default(default) if _is_off_host(default) else ()
        found = _states[id(default)] = (DEFAULT_DEVICE, default), to_set
    return found


def _is_off_host(default: Any) -> bool:
    device = jax.local_devices()[0] if default is None else default
    platform = device.partition(":")[0] if isinstance(device, str) else device.platform
    return platform != "cpu"


def check_context_on_host() -> None:
    """Raise ``NotOnHostError`` where JAX's default device, or a mesh that is set, is no such
    device.

    JAX traces a function anew where one of these is another.
    """
    if mesh_is_set() or _is_off_host(DEFAULT_DEVICE.value):
        raise NotOnHostError


def check_lowering_on_host(context: mlir.ModuleContext) -> None:
    """Raise ``NotOnHostError`` for a module that is not for one such device."""
    if set(context.platforms) != {"cpu"} or partitioning(context)[1] > 1:
        raise NotOnHostError


def default_to_host() -> AbstractContextManager[None]:
    """Let JAX choose a device of the host for what is committed to none."""
    # To JAX's caches, a default that is set is not the same as one that was never set.
    _, to_set = compute_host_state()
    return set_jax_state(to_set) if to_set else nullcontext()


@contextmanager
def use_host() -> Iterator[None]:
    """Trace and run programs whose arguments are not committed on a device of the host."""
    with without_mesh(), default_to_host():
        yield


def committed_devices(tree: PyTree) -> set[jax.Device]:
    """Return the devices that arrays in a pytree are committed to."""
    return {
        device
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array) and leaf.committed
        for device in leaf.sharding.device_set
    }


def has_single_device(tree: PyTree) -> bool:
    """Tell whether arrays are committed to no more than one device, and that of the host."""
    devices = committed_devices(tree)
    return len(devices) <= 1 and all(device.platform == "cpu" for device in devices)


def gather(tree: PyTree, operands: Sequence[int] | None = None) -> Any:
    """Return a pytree whose arrays a program on the host takes, on one device where they were not.

    Copies are committed to none: that a program needs them there is not the user's choice.

    Args:
        tree: the pytree.
        operands: the numbers of the leaves that the program takes; None for all.
    """
    leaves, structure = jax.tree.flatten(tree)
    places = range(len(leaves)) if operands is None else operands
    taken = [leaves[place] for place in places]
    if has_single_device(taken):
        return tree
    for place, leaf in zip(places, move_uncommitted(taken), strict=True):
        leaves[place] = leaf
    return jax.tree.unflatten(structure, leaves)


def move_to_device(tree: PyTree, device: jax.Device) -> Any:
    """Return a pytree with its arrays committed to a device; other leaves stay as they are."""
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, device) if isinstance(leaf, jax.Array) else leaf, tree
    )


def move_uncommitted(tree: PyTree) -> Any:
    """Return a pytree with its arrays on the host, committed to no device."""
    return jax.tree.map(
        lambda leaf: as_uncommitted(leaf) if isinstance(leaf, jax.Array) else leaf,
        move_to_device(tree, host_device()),
    )


def prepare_arguments(
    args: Args, kwargs: Kwargs, device: jax.Device | None = None
) -> tuple[Any, Any]:
    """Return arguments whose arrays a program finds where it begins, which it may so at once.

    XLA copies large NumPy arrays later, and runs what waits for an array on a thread of its own.
    There are few of these: callbacks that wait for one another there might wait for ever.  Nor do
    signals get there.

    Args:
        args: the arguments with a position.
        kwargs: those with a name.
        device: where it begins; by default the host's first.
    """
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
