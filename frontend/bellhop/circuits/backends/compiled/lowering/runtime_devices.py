"""Circuits that the runtime runs: of devices with a compiled plugin, and of ``default.qubit``.

Those of ``default.qubit`` are in the engine where they are differentiable to any order there.  The
device itself has no interface for the runtime.  What it computes is defined by the gates, so
the engine may run them, some hundred times faster than the same circuit as a part of the program.
A circuit stays in the program where the engine cannot do all that the program does with it: run
inside of a region, give the derivatives of a state or by a matrix, ...  Nothing is tried: what the
trace for the engine refuses, the program would refuse too, and whether the engine has all
derivatives is read in the jaxpr.
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

# All of them are exact here, and have the same values; with shots, by the likelihood of samples.
_METHODS = (BEST, ADJOINT, PARAMETER_SHIFT, HADAMARD)
_CHOICE = DifferentiationChoice(BEST, by_likelihood=True)


def run_default_qubit(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit on ``default.qubit``, for the engine or as a part of the program.

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
    """Return why the engine does not run a circuit, whatever that is; empty where it may."""
    method = call.config.diff_method
    if method not in _METHODS or (method == ADJOINT and call.shots.total):
        return f"its diff_method is '{method}'"
    if not call.config.engine:
        return "it has engine='plugin'"
    return "it is called in a region" if trace_state().in_region else ""


@functools.cache
def _get_lightning_device() -> Any:
    """Return the device whose gates are the engine's, and whose library stands behind it."""
    return qml.device("lightning.qubit")


def run_on_plugin(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit whose device has a compiled plugin, and bind it.

    Args:
        call: the circuit.
        device: its device.
        wires: its wires.
    """
    check_options(device, call.where)
    spec = make_device_spec(device, len(wires))
    # Samples are drawn of what has the norm one.
    whole = GateSet(device, keeps_matrices=not call.shots.total)
    return run_differentiable(trace_for_runtime(call, device, wires, whole, spec), device, wires)
