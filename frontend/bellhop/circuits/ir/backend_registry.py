"""Registry of backends for classes of PennyLane devices.

A backend is a function that runs circuits. A registered backend has precedence over Bellhop's own
backends::

    register_backend(MyDevice, run_my_circuits)
"""

from collections.abc import Callable
from typing import Any

from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.wires import WireMap

# Traces a circuit on a PennyLane device into the program, and returns the measurements' values in
# the structure of the quantum function's result, or a ``Declined`` (``execution_plan.py``) for a
# circuit that the backend does not support.
Runner = Callable[[Circuit, Any, WireMap], Any]

_RUNNERS: dict[type, Runner] = {}


def register_backend(device_type: type, run: Runner) -> None:
    """Register the function that runs circuits on PennyLane devices of a class.

    The function replaces Bellhop's own backends for these devices, and a function that was
    registered for them before.

    Args:
        device_type: the class of the devices; subclasses are not included.
        run: ``(circuit, device, wires) -> results``, called in the trace of the program with a
            ``Circuit``, the PennyLane device and a ``WireMap``.  It returns the measurements'
            values in the structure of the quantum function's result, or a ``Declined`` for a
            circuit that it does not support.
    """
    _RUNNERS[device_type] = run


def find_backend(device_type: type) -> Runner | None:
    """Return the backend registered for a device class, or None."""
    return _RUNNERS.get(device_type)
