"""What a user's ``dev`` means, and how programs name it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax.extend
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from bellhop._jax.private import raw_platform, user_default_device

# Where a region runs: one device, or several under a sharding.
Target: TypeAlias = jax.Device | Sharding

# A program names a sharding by a number made from what it is, so that it is the same
# number in every process; this is what the number stands for.
_shardings: dict[int, Sharding] = {}
# Devices that JAX has not under their names: those of another client, whose platform says that it
# is the same.
_unnamed: list[jax.Device] = []

# What to install for devices of a platform: an extra of the package jax.
_JAX_EXTRAS = {"gpu": "cuda12", "cuda": "cuda12", "tpu": "tpu"}


@dataclass(frozen=True)
class StateAxes:
    """Axes of a mesh over which the states of circuits are partitioned.

    Attributes:
        mesh: the mesh.
        axes: their names.
    """

    mesh: Mesh
    axes: tuple[str, ...]


def find_state_axes(dev: Any) -> StateAxes | None:
    """Return the axes over which a region on a user's ``dev`` partitions states; None for none.

    Of a mesh these are all, and of a sharding those over which it does not spread arguments.
    """
    if isinstance(dev, Mesh):
        return StateAxes(dev, dev.axis_names)
    if not isinstance(dev, NamedSharding) or not isinstance(dev.mesh, Mesh):
        return None
    taken = {
        name for names in dev.spec for name in (names if isinstance(names, tuple) else [names])
    }
    free = tuple(name for name in dev.mesh.axis_names if name not in taken)
    return StateAxes(dev.mesh, free) if free else None


def resolve_target(dev: Any, where: str = "accelerate", several: str = "a list of them") -> Target:
    """Return what a user's ``dev`` means now.

    Args:
        dev: None, a device, the name of a platform or of a device, a sharding, a mesh, or a
            sequence of devices.
        where: what takes it, for errors.
        several: what it takes for several devices, likewise.

    Raises:
        ValueError: naming the devices that there are, where there is no such device, and memory
            of one that is not its default.
        TypeError: where ``dev`` is no device at all.
    """
    if dev is None:
        default = user_default_device()
        dev = jax.local_devices()[0] if default is None else default
    if isinstance(dev, jax.Device):
        if dev.process_index != jax.process_index():
            raise ValueError(
                f"{where}: {dev} is a device of process {dev.process_index}, and this is "
                f"process {jax.process_index()}; here there are {available_devices()}."
            )
        return dev
    if isinstance(dev, Sharding):
        if len(dev.device_set) > 1:
            return dev
        (device,) = dev.device_set
        if dev.memory_kind not in (None, device.default_memory().kind):
            raise ValueError(
                f"{where}: values on one device are in its default memory, and not in "
                f"'{dev.memory_kind}', as {dev} asks. Put them there by jax.device_put."
            )
        return device
    if isinstance(dev, Mesh):
        return resolve_target(NamedSharding(dev, PartitionSpec(dev.axis_names)), where)
    if isinstance(dev, str):
        return _parse_device_name(dev, where)
    if (
        isinstance(dev, Sequence | np.ndarray)
        and len(dev)
        and all(isinstance(device, jax.Device | str) for device in dev)
    ):
        devices = [
            _parse_device_name(each, where) if isinstance(each, str) else each for each in dev
        ]
        if len(set(devices)) != len(devices):
            raise ValueError(f"{where}: {dev!r} names a device twice. Name each once.")
        if len(devices) == 1:
            return devices[0]
        return NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec("devices"))
    raise TypeError(
        f"{where} takes None, a jax.Device or the name of one, {several}, or a "
        f"jax.sharding.Sharding or Mesh, got {dev!r}."
    )


def _parse_device_name(name: str, where: str) -> jax.Device:
    platform, has_number, number = name.partition(":")
    try:
        # JAX takes the empty name for its default.
        devices = {str(each.id): each for each in jax.local_devices(backend=platform or "''")}
        return devices[number] if has_number else next(iter(devices.values()))
    except (RuntimeError, KeyError):
        raise ValueError(
            f"{where}: there is no device '{name}'; there are {available_devices()}."
            f"{_installation_hint(platform)}"
        ) from None


def _installation_hint(platform: str) -> str:
    """Return how to install JAX for a platform that this process does not have, or nothing."""
    extra = _JAX_EXTRAS.get(platform)
    if extra is None or platform in _platforms():
        return ""
    return f' Install JAX for it: pip install "jax[{extra}]".'


def _platforms() -> set[str]:
    """Return the names of the platforms that JAX has, with its name for GPUs of all vendors."""
    platforms = set(jax.extend.backend.backends())
    return platforms | {"gpu"} if platforms & {"cuda", "rocm"} else platforms


def all_devices() -> list[jax.Device]:
    """Return the devices of this process: those of JAX's default backend, then of the others."""
    devices = list(jax.local_devices())
    for platform in jax.extend.backend.backends():
        devices += [each for each in jax.local_devices(backend=platform) if each not in devices]
    return devices


def available_devices() -> str:
    """Return the names of the devices of this process, for errors."""
    return ", ".join(map(device_name, all_devices()))


def device_name(device: jax.Device) -> str:
    """Return ``platform:id``."""
    return f"{device.platform}:{device.id}"


def target_name(target: Target) -> str:
    """Return how programs name a target: ``platform:id``, ``device:0`` or ``sharding:number``."""
    if isinstance(target, jax.Device):
        name = device_name(target)
        if _find_device(name) is target:
            return name
        if target not in _unnamed:
            _unnamed.append(target)
        return f"device:{_unnamed.index(target)}"
    mesh = getattr(target, "mesh", None)
    devices = sorted(target.device_set, key=lambda d: d.id) if mesh is None else mesh.devices.flat
    text = f"{target!r} {[device_name(device) for device in devices]}"
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    while _shardings.setdefault(number, target) != target:
        number += 1
    return f"sharding:{number}"


def find_target(name: str) -> Target:
    """Return the target that ``target_name`` named."""
    kind, _, number = name.partition(":")
    if kind == "sharding":
        return _shardings[int(number)]
    if kind == "device":
        return _unnamed[int(number)]
    device = _find_device(name)
    assert device is not None, f"{name} was named when there was such a device"
    return device


def _find_device(name: str) -> jax.Device | None:
    kind, _, number = name.partition(":")
    try:
        devices = jax.devices(kind)
    except RuntimeError:
        return None
    return next((device for device in devices if device.id == int(number)), None)


def target_platform(target: Target) -> str:
    """Return the platform that regions for a target are lowered for, e.g. ``cuda``."""
    device = target if isinstance(target, jax.Device) else next(iter(target.device_set))
    return raw_platform(device)


def count_devices(target: Target) -> int:
    """Return how many devices a target has."""
    return 1 if isinstance(target, jax.Device) else len(target.device_set)


def describe_target(target: Target) -> str:
    """Return the names of the devices of a target, for people."""
    if isinstance(target, jax.Device):
        return device_name(target)
    return ", ".join(map(device_name, sorted(target.device_set, key=lambda d: d.id)))


def find_sharding(target: Target, shape: tuple[int, ...]) -> Sharding:
    """Return how an argument of a region is laid out on its target.

    A sharding holds for the arguments that it fits, which are those of enough axes, each of
    a size that it divides; every device has a whole copy of the others.
    """
    if isinstance(target, jax.Device):
        return SingleDeviceSharding(target)
    try:
        target.shard_shape(shape)
    except (ValueError, IndexError):
        if isinstance(target, NamedSharding):
            return NamedSharding(target.mesh, PartitionSpec())
        devices = sorted(target.device_set, key=lambda d: d.id)
        return NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec())
    return target


def host_device() -> jax.Device:
    """Return the device that programs themselves run on, whatever JAX's default is."""
    return jax.local_devices(backend="cpu")[0]
