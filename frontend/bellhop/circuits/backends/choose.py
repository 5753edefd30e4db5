"""Choice of the backend that runs a QNode's circuits.

A backend's modules are imported on first use: circuits on the engine do not need the modules of
other backends, which are half of ``circuits``.
"""

from typing import Any

from bellhop.circuits.backends.compiled.lowering.plugin_devices import has_engine
from bellhop.circuits.ir.backend_registry import Runner, find_backend
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.diff_method import HADAMARD
from bellhop.circuits.ir.precision import Precision
from bellhop.tracing.state import trace_state

_SIMULATED = ("DefaultQubit", "DefaultMixed")


def choose_backend(device: Any, config: CircuitConfig) -> Runner | None:
    """Return the backend for a device; None to call the device through Python.

    The program calls every device through Python that is neither a compiled plugin nor simulated
    with arrays. It also does so for a plugin in single precision without the engine, since plugins
    have double-precision states only, and for ``diff_method="hadamard"``, since PennyLane expands
    Hadamard tests from tapes.

    Args:
        device: the PennyLane device.
        config: the execution settings of its circuits.
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
        # Without shots, only PennyLane's device computes the exact values, from tapes.
        from bellhop.circuits.backends.stim.run_clifford import run_clifford

        return run_clifford
    if device.name == "null.qubit":
        from bellhop.circuits.backends.null.null_qubit import run_null

        return run_null
    is_compiled = hasattr(device, "get_c_interface") and config.diff_method != HADAMARD
    # A plugin has double-precision states, which do not suit a single-precision device.
    is_too_precise = Precision.is_single_device(device) and not (
        has_engine(device) and config.engine
    )
    if not is_compiled or is_too_precise:
        return None
    from bellhop.circuits.backends.compiled.lowering.runtime_devices import run_on_plugin

    return run_on_plugin


def _is_class_of_pennylane(device: Any, *names: str) -> bool:
    """Return whether a device's class is a PennyLane class with one of these names.

    Subclasses do not count, since they may behave differently.
    """
    kind = type(device)
    return kind.__name__ in names and kind.__module__.startswith("pennylane.devices.")


def run_python_device(circuit: Circuit, device: Any) -> Any:
    """Trace a circuit whose device is called through Python.

    Args:
        circuit: the circuit.
        device: the PennyLane device, which maps wire labels itself.
    """
    from bellhop.circuits.backends.tapes.run_on_python_device import run_on_python_device

    return run_on_python_device(circuit, device)


def is_simulated_in_program(device: Any) -> bool:
    """Return whether a device's circuits are simulated with arrays.

    True for ``default.qubit`` and ``default.mixed``, without subclasses, and for
    ``lightning.qubit`` if the state is sharded, which Lightning does not support.
    """
    if _is_class_of_pennylane(device, *_SIMULATED):
        return True
    return device.name == "lightning.qubit" and trace_state().partitions_states
