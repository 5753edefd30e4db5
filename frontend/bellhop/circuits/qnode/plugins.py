"""Circuits of devices that have a compiled plugin, Lightning's among them."""

import functools
from typing import Any

from bellhop.circuits.circuit.traced_circuit import QNodeCall
from bellhop.circuits.gates.device import GateSet, check_options, device_spec
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.qnode.compiled_circuits import trace_for_runtime
from bellhop.circuits.qnode.derivatives_in_program import run_differentiable


def run_on_plugin(call: QNodeCall, wires: WireMap) -> Any:
    """Trace a call of a QNode whose device has a compiled plugin, and bind its circuit."""
    device = call.qnode.device
    check_options(device, call.where)
    spec = device_spec(device, len(wires))
    # Samples are drawn of what has the norm one.
    whole = GateSet(device, keeps_matrices=not call.shots.total)
    of_angles = functools.partial(trace_for_runtime, wires=wires, gates=GateSet(device), spec=spec)
    return run_differentiable(of_angles(call, gates=whole), wires, of_angles)
