"""What runs the circuits of a QNode, by its device.

The modules of a runner are imported when a circuit first needs it: a circuit that the engine runs
needs none of the others, which are half of ``circuits``.
"""

import enum
from typing import Any

import pennylane as qml

from bellhop.circuits.circuit.backend import engine_may_run
from bellhop.circuits.circuit.qnode_call import QNodeCall
from bellhop.circuits.derivatives.diff_method import HADAMARD, method_of
from bellhop.circuits.gates.device import has_engine, is_in_single_precision
from bellhop.circuits.gates.wires import WireMap
from bellhop.tracing.state import trace_state


class CircuitRunner(enum.Enum):
    """What runs circuits."""

    PLUGIN = enum.auto()
    DEFAULT_QUBIT = enum.auto()
    PROGRAM = enum.auto()
    STIM = enum.auto()
    NOTHING = enum.auto()
    PYTHON = enum.auto()

    def __call__(self, call: QNodeCall, wires: WireMap) -> Any:
        """Trace a call of a QNode.

        Returns:
            the measurements' values, in the structure that the quantum function returned; None
            where only a device that Python calls can run the circuit.
        """
        match self:
            case CircuitRunner.PLUGIN:
                from bellhop.circuits.qnode.runtime_devices import run_on_plugin

                return run_on_plugin(call, wires)
            case CircuitRunner.DEFAULT_QUBIT:
                from bellhop.circuits.qnode.runtime_devices import run_default_qubit

                return run_default_qubit(call, wires)
            case CircuitRunner.PROGRAM:
                from bellhop.circuits.in_program.simulate import run_traced

                return run_traced(call, wires)
            case CircuitRunner.STIM:
                from bellhop.circuits.clifford.run_clifford import run_clifford

                return run_clifford(call, wires)
            case CircuitRunner.NOTHING:
                from bellhop.circuits.in_program.null_qubit import run_null

                return run_null(call, wires)
            case CircuitRunner.PYTHON:
                return run_by_python(call)


def run_by_python(call: QNodeCall) -> Any:
    """Trace a call of a QNode whose device Python calls, which knows its wires itself."""
    from bellhop.circuits.python_devices.run_on_python_device import run_on_python_device

    return run_on_python_device(call)


def runner_of(qnode: qml.QNode) -> CircuitRunner:
    """Return what runs the circuits of a QNode.

    A program calls a device that is neither compiled nor part of programs.  So it does for states
    in single precision that the engine does not run, since compiled interfaces have states in
    double precision alone, and for Hadamard tests, which are other circuits, that PennyLane makes
    of tapes.
    """
    device = qnode.device
    if type(device) is qml.devices.DefaultQubit:
        return CircuitRunner.DEFAULT_QUBIT
    if is_in_program(device):
        return CircuitRunner.PROGRAM
    if type(device) is qml.devices.DefaultClifford and qnode.shots.total_shots:
        # Its exact values are PennyLane's own, of tapes.
        return CircuitRunner.STIM
    if isinstance(device, qml.devices.NullQubit):
        return CircuitRunner.NOTHING
    is_compiled = hasattr(device, "get_c_interface") and method_of(qnode) != HADAMARD
    is_too_precise = is_in_single_precision(device) and not (
        has_engine(device) and engine_may_run()
    )
    return CircuitRunner.PLUGIN if is_compiled and not is_too_precise else CircuitRunner.PYTHON


def is_in_program(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program.

    A class of one's own that is derived from such a device may do otherwise, and is called.
    Lightning has no states over several devices of ours, so these are the program's.
    """
    if type(device) in (qml.devices.DefaultQubit, qml.devices.DefaultMixed):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
