"""What runs the circuits of a QNode, by its device.

The modules of a runner are imported when a circuit first needs it: a circuit that the engine runs
needs none of the others, which are half of ``circuits``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop.circuits.backends.compiled.lowering.plugin_devices import has_engine
from bellhop.circuits.ir.device_spec import engine_may_run
from bellhop.circuits.ir.diff_method import HADAMARD, method_of
from bellhop.circuits.ir.precision import is_in_single_precision
from bellhop.circuits.ir.qnode_call import QNodeCall
from bellhop.circuits.ir.wires import WireMap
from bellhop.tracing.state import trace_state

# Takes a call and the wires of its circuit; returns the measurements' values, in the structure that
# the quantum function returned; None where only a device that Python calls can run the circuit.
Runner = Callable[[QNodeCall, WireMap], Any]


def runner_of(qnode: qml.QNode) -> Runner | None:
    """Return what traces the calls of a QNode; None where its device is called by the program.

    That is a device that is neither compiled nor part of programs.  So it is called for states in
    single precision that the engine does not run, since compiled interfaces have states in double
    precision alone, and for Hadamard tests, which are other circuits, that PennyLane makes of
    tapes.
    """
    device = qnode.device
    if type(device) is qml.devices.DefaultQubit:
        from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_default_qubit

        return run_default_qubit
    if is_in_program(device):
        from bellhop.circuits.backends.arrays.run_qnode import run_traced

        return run_traced
    if type(device) is qml.devices.DefaultClifford and qnode.shots.total_shots:
        # Its exact values are PennyLane's own, of tapes; a class of one's own that is derived from
        # it may do otherwise.
        from bellhop.circuits.backends.stim.run_clifford import run_clifford

        return run_clifford
    if isinstance(device, qml.devices.NullQubit):
        from bellhop.circuits.backends.null.null_qubit import run_null

        return run_null
    is_compiled = hasattr(device, "get_c_interface") and method_of(qnode) != HADAMARD
    is_too_precise = is_in_single_precision(device) and not (
        has_engine(device) and engine_may_run()
    )
    if not is_compiled or is_too_precise:
        return None
    from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_on_plugin

    return run_on_plugin


def run_by_python(call: QNodeCall) -> Any:
    """Trace a call of a QNode whose device Python calls, which knows its wires itself."""
    from bellhop.circuits.backends.tapes.run_on_python_device import run_on_python_device

    return run_on_python_device(call)


def is_in_program(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program.

    A class of one's own that is derived from such a device may do otherwise, and is called.
    Lightning has no states over several devices of ours, so these are the program's.
    """
    if type(device) in (qml.devices.DefaultQubit, qml.devices.DefaultMixed):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
