"""Quantum devices in files: by entry point name, never by library path."""

import importlib.metadata
import inspect
import sys
from typing import Any

from bellhop.errors import CompileError

_DEVICES = "pennylane.plugins"


def find_device_name(library: str) -> str:
    """Return the entry point name of the device with a plugin library.

    Raises:
        CompileError: if no installed device has the library.
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


def find_plugin(name: str) -> tuple[str, str]:
    """Return the factory name and library of a device's plugin.

    Args:
        name: entry point name of the device.

    Raises:
        CompileError: if it is not installed, or its version is not supported.
    """
    for device in importlib.metadata.entry_points(group=_DEVICES, name=name):
        factory, library = _interface(device.load())
        if library is not None:
            from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_version

            check_version(name)
            return factory, library
    raise CompileError(
        f"the saved program runs circuits on the device '{name}', but no such device with a "
        "compiled plugin is installed here. Install its package."
    )


def _interface(class_: Any) -> tuple[Any, Any]:
    """Return the factory name and library of a device class, or None for both."""
    if not isinstance(inspect.getattr_static(class_, "get_c_interface", None), staticmethod):
        return None, None
    factory, library = class_.get_c_interface()
    return factory, str(library)
