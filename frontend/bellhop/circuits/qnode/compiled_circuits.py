"""Calls of QNodes whose circuits the runtime runs: in its engine, or by the device's plugin."""

import functools
from dataclasses import replace
from typing import Any

import pennylane as qml

from bellhop.base.config import engine_of_environment
from bellhop.circuits.circuit.traced_circuit import QNodeCall, TracedCircuit, trace_circuit
from bellhop.circuits.derivatives.diff_method import DifferentiationChoice, chosen_differentiation
from bellhop.circuits.gates.broadcasting import Rows
from bellhop.circuits.gates.device import DeviceSpec, GateSet
from bellhop.circuits.gates.rewrites import passes_by_transforms, rewriting
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.recording.deferral import deferring_if_possible
from bellhop.circuits.recording.gate_replay import Player
from bellhop.circuits.recording.recording import Circuit
from bellhop.passes import passes_of
from bellhop.tracing.state import current_options


def trace_for_runtime(
    call: QNodeCall,
    wires: WireMap,
    gates: GateSet,
    spec: DeviceSpec,
    differentiation: DifferentiationChoice | None = None,
) -> TracedCircuit:
    """Trace the circuit of a QNode.

    Args:
        call: the call of the QNode.
        wires: those of the circuit.
        gates: those of the device.
        spec: the device, as the runtime opens it.
        differentiation: how it is differentiated, if not as the QNode says.
    """
    qnode, where = call.qnode, call.where
    by = differentiation or chosen_differentiation(qnode, where, has_adjoint=gates.has_adjoint)
    in_engine = spec.engine and engine_may_run()
    precision = spec.precision if in_engine else 64
    asked = replace(spec, passes=_passes(qnode), engine=in_engine, precision=precision)
    rows = Rows(where)

    def record(
        player: Player, handle: Any, row: Any, *inputs: Any
    ) -> tuple[Circuit, list[Any], Any]:
        circuit = Circuit(handle, asked, gates, wires, where, by, rows.at(row))
        return circuit, *call.function.play(circuit, inputs, player)

    player = Player(rewriting(qnode))
    chosen: Any = lambda trace: trace(lambda: player)
    if qnode.execute_kwargs.get("mcm_method") in (None, "deferred"):
        chosen = functools.partial(deferring_if_possible, player)
    return trace_circuit(call, rows, record, chosen, asked)


def engine_may_run() -> bool:
    """Tell whether the engine may run circuits, by the program or else the environment."""
    options = current_options()
    return ((options and options.engine) or engine_of_environment()) != "plugin"


def _passes(qnode: qml.QNode) -> tuple[str, ...]:
    """Return the passes over the circuits of a QNode: its own, or the program's."""
    passes, options = passes_of(qnode), current_options()
    if passes is None:
        passes = () if options is None else options.circuit_passes
    return (*passes, *passes_by_transforms(qnode))
