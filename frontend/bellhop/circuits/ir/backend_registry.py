"""Backends that are registered for classes of PennyLane devices.

A backend is a function that runs circuits. It is looked up by the class of the device, before
Bellhop's own backends::

    register_backend(MyDevice, run_my_circuits)
"""

from collections.abc import Callable
from typing import Any

from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.wires import WireMap

# Takes a circuit, its PennyLane device and its wires, and returns the values of the measurements in
# the structure that the quantum function returned. None means that only a device which Python
# calls can run the circuit.
Runner = Callable[[Circuit, Any, WireMap], Any]

_RUNNERS: dict[type, Runner] = {}


def register_backend(device_type: type, run: Runner) -> None:
    """Let a function run the circuits of all devices of a class.

    Args:
        device_type: the class of the devices; devices of derived classes are not included.
        run: runs a circuit.
    """
    _RUNNERS[device_type] = run


def find_backend(device_type: type) -> Runner | None:
    """Return the function that is registered for a class of devices, if there is one."""
    return _RUNNERS.get(device_type)
