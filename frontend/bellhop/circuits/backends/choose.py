"""What runs the circuits of a QNode, by its device.

The modules of a runner are imported when a circuit first needs it: a circuit that the engine runs
needs none of the others, which are half of ``circuits``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop.circuits.backends.compiled.lowering.plugin_devices import has_engine
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.config import CircuitConfig
from bellhop.circuits.ir.diff_method import HADAMARD
from bellhop.circuits.ir.precision import is_in_single_precision
from bellhop.circuits.ir.wires import WireMap
from bellhop.tracing.state import trace_state

# Takes a circuit, its PennyLane device and its wires; returns the measurements' values, in the
# structure that the quantum function returned; None where only a device that Python calls can run
# the circuit.
Runner = Callable[[Circuit, Any, WireMap], Any]


def runner_of(device: qml.devices.Device, config: CircuitConfig) -> Runner | None:
    """Return what traces the circuits of a device; None where the program calls the device.

    That is a device that is neither compiled nor part of programs.  So it is called for states in
    single precision that the engine does not run, since compiled interfaces have states in double
    precision alone, and for Hadamard tests, which are other circuits, that PennyLane makes of
    tapes.

    Args:
        device: the device.
        config: how the circuits are to be run.
    """
    if type(device) is qml.devices.DefaultQubit:
        from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_default_qubit

        return run_default_qubit
    if is_in_program(device):
        from bellhop.circuits.backends.arrays.run_qnode import run_traced

        return run_traced
    if type(device) is qml.devices.DefaultClifford and config.shots.total:
        # Its exact values are PennyLane's own, of tapes; a class of one's own that is derived from
        # it may do otherwise.
        from bellhop.circuits.backends.stim.run_clifford import run_clifford

        return run_clifford
    if isinstance(device, qml.devices.NullQubit):
        from bellhop.circuits.backends.null.null_qubit import run_null

        return run_null
    is_compiled = hasattr(device, "get_c_interface") and config.diff_method != HADAMARD
    is_too_precise = is_in_single_precision(device) and not (has_engine(device) and config.engine)
    if not is_compiled or is_too_precise:
        return None
    from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_on_plugin

    return run_on_plugin


def run_by_python(circuit: Circuit, device: qml.devices.Device) -> Any:
    """Trace a circuit whose device Python calls, which knows its wires itself."""
    from bellhop.circuits.backends.tapes.run_on_python_device import run_on_python_device

    return run_on_python_device(circuit, device)


def is_in_program(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program.

    A class of one's own that is derived from such a device may do otherwise, and is called.
    Lightning has no states over several devices of ours, so these are the program's.
    """
    if type(device) in (qml.devices.DefaultQubit, qml.devices.DefaultMixed):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
