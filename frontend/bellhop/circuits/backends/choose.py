"""What runs the circuits of a QNode, by its device.

The modules of a runner are imported when a circuit first needs it: a circuit that the engine runs
needs none of the others, which are half of ``circuits``.
"""

from typing import Any

from bellhop.circuits.backends.compiled.lowering.plugin_devices import has_engine
from bellhop.circuits.ir.backend_registry import Runner, find_backend
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.diff_method import HADAMARD
from bellhop.circuits.ir.precision import has_single_precision
from bellhop.tracing.state import trace_state

_SIMULATED = ("DefaultQubit", "DefaultMixed")


def choose_backend(device: Any, config: CircuitConfig) -> Runner | None:
    """Return the function that runs circuits on a device; None where the program calls the device.

    The program calls a device that is neither compiled nor simulated in programs. It also calls a
    compiled device for states in single precision that the engine does not run, since compiled
    interfaces have states in double precision alone, and for Hadamard tests, which are other
    circuits that PennyLane makes of tapes.

    Args:
        device: the PennyLane device.
        config: how its circuits are to be run.
    """
    registered = find_backend(type(device))
    if registered is not None:
        return registered
    if _is_class_of_pennylane(device, "DefaultQubit"):
        from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_default_qubit

        return run_default_qubit
    if is_simulated_in_program(device):
        from bellhop.circuits.backends.arrays.run_qnode import run_on_arrays

        return run_on_arrays
    if _is_class_of_pennylane(device, "DefaultClifford") and config.shots.total:
        # Without shots the device has exact values that only PennyLane computes, of tapes.
        from bellhop.circuits.backends.stim.run_clifford import run_clifford

        return run_clifford
    if device.name == "null.qubit":
        from bellhop.circuits.backends.null.null_qubit import run_null

        return run_null
    is_compiled = hasattr(device, "get_c_interface") and config.diff_method != HADAMARD
    is_too_precise = has_single_precision(device) and not (has_engine(device) and config.engine)
    if not is_compiled or is_too_precise:
        return None
    from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_on_plugin

    return run_on_plugin


def _is_class_of_pennylane(device: Any, *names: str) -> bool:
    """Return whether the class of a device is PennyLane's own; a derived class may differ."""
    kind = type(device)
    return kind.__name__ in names and kind.__module__.startswith("pennylane.devices.")


def run_python_device(circuit: Circuit, device: Any) -> Any:
    """Trace a circuit whose device Python calls, which knows its wires itself."""
    from bellhop.circuits.backends.tapes.run_on_python_device import run_on_python_device

    return run_on_python_device(circuit, device)


def is_simulated_in_program(device: Any) -> bool:
    """Return whether circuits on a PennyLane device are traced into the program.

    A class of one's own that is derived from such a device may do otherwise, and is called.
    Lightning has no states over several devices of ours, so these are the program's.
    """
    if _is_class_of_pennylane(device, *_SIMULATED):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
