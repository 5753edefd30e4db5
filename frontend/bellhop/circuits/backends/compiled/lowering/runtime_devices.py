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
from bellhop.circuits.ir.execution_plan import Declined
from bellhop.circuits.ir.wires import WireMap


def run_in_runtime(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit into the program, to be run by Bellhop's engine or a device's plugin.

    Args:
        call: the QNode call, with its inputs and settings.
        device: the QNode's PennyLane device: with a compiled interface, or ``default.qubit``.
        wires: maps wire labels to qubits.

    Returns:
        the measurements' values, in the structure that the quantum function returned; ``Declined``
        for a circuit of ``default.qubit`` if the engine lacks one of its derivatives.
    """
    if hasattr(device, "get_c_interface"):
        return _run_on_plugin(call, device, wires)
    return _run_default_qubit(call, device, wires)


def _run_default_qubit(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit of ``default.qubit`` into the program, to be run by Bellhop's engine.

    Returns:
        the measurements' values, in the structure that the quantum function returned; ``Declined``
        if the engine lacks a derivative of the circuit.
    """
    # Validates the options, which change none of the exact derivatives.
    call.config.read_diff_options()
    gates = GateSet(_get_lightning_device(), keeps_matrices=True, can_apply_matrices=True)
    spec = replace(make_device_spec(_get_lightning_device(), len(wires)), name="default.qubit")
    circuit = trace_for_runtime(call, device, wires, gates, spec)
    missing = find_missing_derivative(circuit)
    return Declined(missing) if missing else circuit.run()


@functools.cache
def _get_lightning_device() -> Any:
    """Return the Lightning device whose gate set and library the engine uses."""
    return qml.device("lightning.qubit")


def _run_on_plugin(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit of a device with a compiled plugin into the program.

    If the runtime lacks some of the circuit's derivatives, JAX differentiates an array simulation.

    Returns:
        the measurements' values, in the structure that the quantum function returned.

    Raises:
        CompileError: for options or versions of the plugin that are not supported.
    """
    check_options(device, call.where)
    spec = make_device_spec(device, len(wires))
    # Samples need normalized states.  So with shots, a matrix on one wire becomes angles of gates,
    # which are unitary.
    whole = GateSet(device, keeps_matrices=not call.shots.total)
    options = tuple(call.config.read_diff_options().items())
    call = replace(call, plan=replace(call.plan, diff_options=options))
    return run_differentiable(trace_for_runtime(call, device, wires, whole, spec), device, wires)
