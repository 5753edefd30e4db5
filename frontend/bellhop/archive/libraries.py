"""Quantum devices in files: by entry point name, never by library path."""

import importlib.metadata
import inspect
import sys
from typing import Any

from bellhop.errors import CompileError

_DEVICES = "pennylane.plugins"
# Devices with a compiled plugin that ``load`` imports because a file names them.
_IMPORTED = ("lightning.qubit", "lightning.kokkos", "lightning.gpu", "lightning.amdgpu")


def find_device_name(library: str) -> str:
    """Find the installed PennyLane device whose plugin is the given library.

    Saved files contain the name, since paths differ between machines. Only devices whose modules
    this process has imported are searched: a device that was used is imported.

    Args:
        library: path of the shared library, as the device class reports it.

    Returns:
        the entry point name, such as ``"lightning.qubit"``.

    Raises:
        CompileError: if no imported device has the library.
    """
    for device in importlib.metadata.entry_points(group=_DEVICES):
        # A device that was used is imported.
        class_ = getattr(sys.modules.get(device.module), device.attr, None)
        if _interface(class_)[1] == library:
            return device.name
    raise CompileError(
        f"a program that runs circuits by {library} cannot be saved, since no installed device "
        "has this library. Register the class of "
        f"the device as an entry point '{_DEVICES}' of its package."
    )


def find_plugin(name: str, *, import_any: bool = False) -> tuple[str, str]:
    """Find the compiled plugin of a PennyLane device on this machine.

    Only Lightning devices are imported here; any other device must be imported already, so that no
    module runs because a file names it.

    Args:
        name: entry point name of the device, such as ``"lightning.qubit"``.
        import_any: whether to import any installed device.

    Returns:
        the name of the factory function in the library, and the path of the library.

    Raises:
        CompileError: if no such device is installed, it has no compiled plugin, or its version is
            not supported.
    """
    for device in importlib.metadata.entry_points(group=_DEVICES, name=name):
        if not import_any and name not in _IMPORTED:
            class_ = getattr(sys.modules.get(device.module), device.attr, None)
        else:
            class_ = device.load()
        factory, library = _interface(class_)
        if library is not None:
            from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_version

            check_version(name)
            return factory, library
    raise CompileError(
        f"the saved program runs circuits on the device '{name}', but no such device with a "
        "compiled plugin is installed and imported here. Install its package, and import its "
        "module before you load the file."
    )


def _interface(class_: Any) -> tuple[Any, Any]:
    """Return factory function and library of a PennyLane device's plugin.

    Calls the static method ``get_c_interface`` of the device class.

    Args:
        class_: a class, or any other object.

    Returns:
        the name of the factory function, and the path of the library; None for both if `class_` is
        not a device class with a plugin.
    """
    if not isinstance(inspect.getattr_static(class_, "get_c_interface", None), staticmethod):
        return None, None
    factory, library = class_.get_c_interface()
    return factory, str(library)
