"""Run circuits of plugin devices and of ``default.qubit`` in the runtime.

``default.qubit`` has no interface for the runtime.  But its results are defined by the gates, so
the engine may run its circuits, some hundred times faster than the same circuit as a part of the
program.  A circuit stays in the program if the engine does not support it: in a region, or if it
lacks a derivative, such as a derivative of a state or by a matrix.  Tracing for the engine needs no
fallback: an error in it would be an error in the program too, and the missing derivatives are read
in the traced jaxpr.
"""

import functools
from dataclasses import replace
from typing import Any

import pennylane as qml

from bellhop.circuits.backends.compiled.differentiable.differentiation_choice import (
    DifferentiationChoice,
)
from bellhop.circuits.backends.compiled.lowering.derivatives_in_program import (
    find_missing_derivative,
    run_differentiable,
)
from bellhop.circuits.backends.compiled.lowering.plugin_devices import (
    check_options,
    make_device_spec,
)
from bellhop.circuits.backends.compiled.lowering.traced_call import trace_for_runtime
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.device_spec import GateSet
from bellhop.circuits.ir.diff_method import (
    ADJOINT,
    BEST,
    HADAMARD,
    PARAMETER_SHIFT,
)
from bellhop.circuits.ir.wires import WireMap
from bellhop.tracing.state import trace_state

# These methods are all exact on ``default.qubit`` and give equal derivatives.  With shots,
# derivatives use the likelihood ratio of samples.
_METHODS = (BEST, ADJOINT, PARAMETER_SHIFT, HADAMARD)
_CHOICE = DifferentiationChoice(BEST, by_likelihood=True)


def run_default_qubit(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Run a circuit on ``default.qubit``, in the engine or as a part of the program.

    Args:
        call: the circuit.
        device: its device.
        wires: its wires.

    Returns:
        the measurements' values, in the structure that the quantum function returned.
    """
    obstacle = _find_engine_obstacle(call)
    if not obstacle:
        call.config.read_diff_options()
        gates = GateSet(_get_lightning_device(), keeps_matrices=True, can_apply_matrices=True)
        spec = replace(make_device_spec(_get_lightning_device(), len(wires)), name="default.qubit")
        circuit = trace_for_runtime(call, device, wires, gates, spec, _CHOICE)
        obstacle = find_missing_derivative(circuit)
        if not obstacle:
            return circuit.run()
    from bellhop.circuits.backends.arrays.run_qnode import run_on_arrays

    return run_on_arrays(replace(call, obstacle=obstacle), device, wires)


def _find_engine_obstacle(call: Circuit) -> str:
    """Return why a call's options exclude the engine; empty if they do not."""
    method = call.config.diff_method
    if method not in _METHODS or (method == ADJOINT and call.shots.total):
        return f"its diff_method is '{method}'"
    if not call.config.engine:
        return "it has engine='plugin'"
    return "it is called in a region" if trace_state().in_region else ""


@functools.cache
def _get_lightning_device() -> Any:
    """Return the Lightning device whose gate set and library the engine uses."""
    return qml.device("lightning.qubit")


def run_on_plugin(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Run a circuit on a device with a compiled plugin.

    Args:
        call: the circuit.
        device: its device.
        wires: its wires.

    Returns:
        the measurements' values, in the structure that the quantum function returned.
    """
    check_options(device, call.where)
    spec = make_device_spec(device, len(wires))
    # Samples need normalized states.  So with shots, a matrix on one wire becomes angles of gates,
    # which are unitary.
    whole = GateSet(device, keeps_matrices=not call.shots.total)
    return run_differentiable(trace_for_runtime(call, device, wires, whole, spec), device, wires)
