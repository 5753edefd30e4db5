"""Quantum devices in saved programs: by the name that they are installed under, never by a path."""

import importlib.metadata
import inspect
import sys
from typing import Any

from bellhop.errors import CompileError

_DEVICES = "pennylane.plugins"


def device_of(library: str) -> str:
    """Return the name that the device of a library is installed under.

    Raises:
        CompileError: where it is installed under none.
    """
    for device in importlib.metadata.entry_points(group=_DEVICES):
        # One that was used is imported.
        class_ = getattr(sys.modules.get(device.module), device.attr, None)
        if _interface(class_)[1] == library:
            return device.name
    raise CompileError(
        f"a program that runs circuits by {library} cannot be saved, since no device is installed "
        "that has this library, and none is loaded because a file names it. Register the class of "
        f"the device as an entry point '{_DEVICES}' of its package."
    )


def plugin_of(name: str) -> tuple[str, str]:
    """Return what the device of a name calls its plugin, and the library that it is in.

    Raises:
        CompileError: where it is not installed, or in a version that is not supported.
    """
    for device in importlib.metadata.entry_points(group=_DEVICES, name=name):
        factory, library = _interface(device.load())
        if library is not None:
            from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_version

            check_version(name)
            return factory, library
    raise CompileError(
        f"the saved program runs circuits on the device '{name}', and no such device with a "
        "compiled plugin is installed here. Install its package."
    )


def _interface(class_: Any) -> tuple[Any, Any]:
    """Return the name of a device's plugin and its library, or None for both."""
    if not isinstance(inspect.getattr_static(class_, "get_c_interface", None), staticmethod):
        return None, None
    factory, library = class_.get_c_interface()
    return factory, str(library)
