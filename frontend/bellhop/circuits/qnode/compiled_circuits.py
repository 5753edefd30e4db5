"""Calls of QNodes whose circuits the runtime runs: in its engine, or by the device's plugin."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pennylane as qml
from jax.extend.core import ClosedJaxpr

from bellhop._jax.private import convert_constvars_jaxpr
from bellhop.base.config import engine_of_environment
from bellhop.base.source import definition_site, function_name
from bellhop.circuits.circuit import linearization
from bellhop.circuits.circuit.circuit_primitive import CircuitBody
from bellhop.circuits.circuit.traced_circuit import QNodeCall, TracedCircuit, trace_circuit
from bellhop.circuits.derivatives.diff_method import DifferentiationChoice, chosen_differentiation
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.gates.device import DeviceSpec, GateSet
from bellhop.circuits.gates.rewrites import passes_by_transforms, rewriting
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.recording.deferral import deferring_if_possible
from bellhop.circuits.recording.gate_replay import Player
from bellhop.circuits.recording.recording import Circuit
from bellhop.passes import passes_of
from bellhop.tracing.state import current_options


@dataclass(frozen=True)
class CompiledCircuit:
    """A QNode's circuit as the runtime gets it.

    Attributes:
        call: the call of the QNode.
        rows: the batches of parameters of its gates.
        traced: the circuit, with all of its runs.
    """

    call: QNodeCall
    rows: Rows
    traced: TracedCircuit

    def run(self, consts: Sequence[Any] | None = None, inputs: Sequence[Any] | None = None) -> Any:
        """Bind the circuit; return the values in the structure of the quantum function.

        Args:
            consts: in place of those that it was traced with.
            inputs: in place of those of the call.
        """
        traced, qnode = self.traced, self.call.qnode
        consts = traced.closed.consts if consts is None else consts
        inputs = self.call.inputs if inputs is None else inputs
        jaxpr = convert_constvars_jaxpr(traced.closed)
        # Constants come first now; the handle must, for the circuit primitive.
        has_rows = self.rows.size is not None
        order = _handle_first(jaxpr, len(consts), has_rows=has_rows)
        body = CircuitBody(
            order,
            function_name(qnode.func),
            self.call.where,
            definition_site(qnode.func),
            traced.device,
            traced.randomness,
        )

        def run(row: Any) -> list[Any]:
            return linearization.bind(body, [*consts, *([row] if has_rows else []), *inputs])

        return self.rows.run(lambda row: traced.finish(run(row)), traced.together)


def trace_for_runtime(
    call: QNodeCall,
    wires: WireMap,
    gates: GateSet,
    spec: DeviceSpec,
    differentiation: DifferentiationChoice | None = None,
) -> CompiledCircuit:
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
    traced = trace_circuit(call, record, chosen, [ROW_STRUCT, *call.inputs], asked)
    return CompiledCircuit(call, rows, traced)


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


def _handle_first(jaxpr: Any, n_consts: int, *, has_rows: bool) -> ClosedJaxpr:
    consts, (handle, row, *inputs) = jaxpr.invars[:n_consts], jaxpr.invars[n_consts:]
    reordered = jaxpr.replace(
        invars=[handle, *consts, *([row] if has_rows else []), *inputs],
        debug_info=jaxpr.debug_info._replace(arg_names=None),
    )
    return ClosedJaxpr(reordered, ())
