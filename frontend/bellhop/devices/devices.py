"""Conversion of ``dev`` options to devices and shardings, and names of both."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax.extend
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from bellhop._jax.private import raw_platform, user_default_device

# Target of a region: one device, or several devices with a sharding.
Target: TypeAlias = jax.Device | Sharding

# Shardings by the id that names them in programs. The id is a hash of the sharding, so it is equal
# in all processes.
_shardings: dict[int, Sharding] = {}
# Devices that cannot be found by name: devices of a second client with the same platform name.
_unnamed: list[jax.Device] = []

# What to install for devices of a platform: an extra of the package jax.
_JAX_EXTRAS = {"gpu": "cuda12", "cuda": "cuda12", "tpu": "tpu"}


@dataclass(frozen=True)
class StateAxes:
    """Mesh axes over which an ``accelerate`` function splits state vectors.

    Attributes:
        mesh: the mesh of the function's option ``dev``.
        axes: names of the axes; each device along them has a part of the state.
    """

    mesh: Mesh
    axes: tuple[str, ...]


def find_state_axes(dev: Any) -> StateAxes | None:
    """Find the mesh axes over which an ``accelerate`` function splits state vectors.

    Args:
        dev: option ``dev`` of `accelerate`. A mesh splits state vectors over all its axes, and a
            `NamedSharding` over the axes that its spec does not use.

    Returns:
        the axes; None if there are none, and for all other options.
    """
    if isinstance(dev, Mesh):
        return StateAxes(dev, dev.axis_names)
    if not isinstance(dev, NamedSharding) or not isinstance(dev.mesh, Mesh):
        return None
    used = {name for names in dev.spec for name in (names if isinstance(names, tuple) else [names])}
    free = tuple(name for name in dev.mesh.axis_names if name not in used)
    return StateAxes(dev.mesh, free) if free else None


def resolve_target(
    dev: Any,
    where: str = "accelerate",
    expected: str = "a list of devices",
    option: str = "dev",
) -> Target:
    """Convert a user's ``dev`` option to a device or a sharding.

    Args:
        dev: None for JAX's default device, a device, the name of a platform or of a device, a
            sharding, a mesh, or a sequence of devices or their names.
        where: name of the function that takes ``dev``, for errors.
        expected: description of the accepted values for several devices, for errors.
        option: name of the option, for errors.

    Returns:
        a device; for several devices a sharding. The sharding of a mesh or a sequence splits the
        first axis of an array over all devices.

    Raises:
        ValueError: if the device does not exist (the error lists all devices) or `dev` is a device
            of another process, if a sequence names a device twice, or if the sharding of a single
            device names memory other than the device's default memory.
        TypeError: if ``dev`` has another type.
    """
    if dev is None:
        default = user_default_device()
        dev = jax.local_devices()[0] if default is None else default
    if isinstance(dev, jax.Device):
        if dev.process_index != jax.process_index():
            raise ValueError(
                f"{where}: {dev} is a device of process {dev.process_index}, and this is "
                f"process {jax.process_index()}, which has {available_devices()}. Choose a device "
                "of this process."
            )
        return dev
    if isinstance(dev, Sharding):
        if len(dev.device_set) > 1:
            return dev
        (device,) = dev.device_set
        if dev.memory_kind not in (None, device.default_memory().kind):
            raise ValueError(
                f"{where}: {dev} has the memory kind '{dev.memory_kind}', expected the device's "
                "default memory. Leave memory_kind out, and move values to other memory by "
                "jax.device_put."
            )
        return device
    if isinstance(dev, Mesh):
        return resolve_target(NamedSharding(dev, PartitionSpec(dev.axis_names)), where)
    if isinstance(dev, str):
        return _parse_device_name(dev, where, option)
    if (
        isinstance(dev, Sequence | np.ndarray)
        and len(dev)
        and all(isinstance(device, jax.Device | str) for device in dev)
    ):
        devices = [
            _parse_device_name(each, where, option) if isinstance(each, str) else each
            for each in dev
        ]
        if len(set(devices)) != len(devices):
            raise ValueError(f"{where}: {dev!r} names a device twice. Name each device once.")
        if len(devices) == 1:
            return devices[0]
        return NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec("devices"))
    raise TypeError(
        f"{where} takes None, a jax.Device, a device name such as 'cpu:0', a "
        f"jax.sharding.Sharding or Mesh, or {expected}, got {dev!r}."
    )


def _parse_device_name(name: str, where: str, option: str) -> jax.Device:
    """Find the device of this process that is named ``platform`` or ``platform:id``.

    Args:
        name: for instance ``"gpu"``, for the first GPU, or ``"gpu:1"``.
        where: name of the function that takes the name, for the error.
        option: name of its option, for the error.

    Raises:
        ValueError: if the device does not exist; lists the devices.
    """
    platform, has_number, number = name.partition(":")
    try:
        # An empty backend name would mean JAX's default backend.
        devices = {str(each.id): each for each in jax.local_devices(backend=platform or "''")}
        return devices[number] if has_number else next(iter(devices.values()))
    except (RuntimeError, KeyError):
        if "." in platform:
            # JAX's platforms have no dot in their names, and PennyLane's devices have.
            raise ValueError(
                f"{where}: there is no JAX device '{name}'; there are {available_devices()}. If it "
                f"names a PennyLane device, put it into the QNode: qml.device('{name}', wires=n)."
            ) from None
        raise ValueError(
            f"{where}: there is no device '{name}'; there are {available_devices()}."
            f"{_installation_hint(platform)} Leave out {option}= to use JAX's default device, "
            f"{target_name(resolve_target(None))}."
        ) from None


def _installation_hint(platform: str) -> str:
    """Return a sentence on how to install JAX for a platform such as ``"gpu"``.

    It is the end of an error, and begins with a space. It is empty if JAX already supports the
    platform here, or if no extra of the package ``jax`` adds the platform.
    """
    extra = _JAX_EXTRAS.get(platform)
    if extra is None or platform in _platforms():
        return ""
    return f' Install JAX for it: pip install "jax[{extra}]".'


def _platforms() -> set[str]:
    """Return the platforms that JAX has here, and ``gpu`` if one of them is for GPUs."""
    platforms = set(jax.extend.backend.backends())
    return platforms | {"gpu"} if platforms & {"cuda", "rocm"} else platforms


def all_devices() -> list[jax.Device]:
    """Return this process's devices: first JAX's default backend, then other backends."""
    devices = list(jax.local_devices())
    for platform in jax.extend.backend.backends():
        devices += [each for each in jax.local_devices(backend=platform) if each not in devices]
    return devices


def available_devices() -> str:
    """Return the names of this process's devices as text: ``"cuda:0, cpu:0"``."""
    return ", ".join(map(device_name, all_devices()))


def device_name(device: jax.Device) -> str:
    """Return the device's name, ``platform:id``."""
    return f"{device.platform}:{device.id}"


def target_name(target: Target) -> str:
    """Return a name for a device or sharding, for use in the MLIR of a program.

    The device or sharding is recorded, so that `find_target` finds it by this name for the rest of
    the process.

    Args:
        target: a device or a sharding, on which an ``accelerate`` function runs.

    Returns:
        ``platform:id``; ``sharding:id`` with a hash of the sharding; ``device:index`` for a device
        that JAX does not find by its platform and id.
    """
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
    id_ = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    while _shardings.setdefault(id_, target) != target:
        id_ += 1
    return f"sharding:{id_}"


def find_target(name: str) -> Target:
    """Return the device or sharding with a name from `target_name`.

    Args:
        name: ``platform:id``; or another name that `target_name` has returned in this process.
    """
    kind, _, number = name.partition(":")
    if kind == "sharding":
        return _shardings[int(number)]
    if kind == "device":
        return _unnamed[int(number)]
    device = _find_device(name)
    assert device is not None, f"target_name found the device {name}"
    return device


def _find_device(name: str) -> jax.Device | None:
    """Return the device of any process that is named ``platform:id``, or None."""
    kind, _, number = name.partition(":")
    try:
        devices = jax.devices(kind)
    except RuntimeError:
        return None
    return next((device for device in devices if device.id == int(number)), None)


def target_platform(target: Target) -> str:
    """Return the lowering platform of a device or sharding, such as ``cuda``."""
    device = target if isinstance(target, jax.Device) else next(iter(target.device_set))
    return raw_platform(device)


def count_devices(target: Target) -> int:
    """Return the number of devices of a device or sharding."""
    return 1 if isinstance(target, jax.Device) else len(target.device_set)


def describe_target(target: Target) -> str:
    """Return the names of the devices of a device or sharding: ``"cuda:0, cuda:1"``."""
    if isinstance(target, jax.Device):
        return device_name(target)
    return ", ".join(map(device_name, sorted(target.device_set, key=lambda d: d.id)))


def find_sharding(target: Target, shape: tuple[int, ...]) -> Sharding:
    """Return the sharding of an argument or result of an ``accelerate`` function.

    The function's sharding is used for arrays with enough axes, whose sizes are divisible; all
    other arrays are replicated on the function's devices.

    Args:
        target: device or sharding of the function.
        shape: shape of the argument or result.
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
    """Return the CPU device that runs programs, independent of jax_default_device."""
    return jax.local_devices(backend="cpu")[0]
