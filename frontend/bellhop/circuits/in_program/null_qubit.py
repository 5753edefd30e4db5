"""Circuits on ``null.qubit``: traced and checked, and nothing of them is left in the program.

Results are the constants that PennyLane's device gives: zeros, and for states, probabilities and
counts all weight on the first outcome.  So it tells what everything around a circuit costs.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand, Wire
from bellhop.circuits.circuit.rows_in_program import results_of_rows
from bellhop.circuits.circuit.traced_circuit import ONE_SHOT, QNodeCall
from bellhop.circuits.gates.broadcasting import TracedRow
from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.rewrites import rewriting
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.in_program.program_circuit import ProgramCircuit
from bellhop.circuits.in_program.resource_tracking import ResourceTracker
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.measure.processes import as_process
from bellhop.circuits.operations.wire_faults import WireFaults
from bellhop.circuits.recording.gate_replay import Player
from bellhop.errors import CompileError


def is_null_device(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are left out of the program."""
    return isinstance(device, qml.devices.NullQubit)


def run_null(call: QNodeCall, wires: WireMap) -> Any:
    """Trace a call of a QNode on ``null.qubit``.

    Returns:
        constants in place of the measurements, in the structure that the quantum function
        returned.

    Raises:
        CompileError: for what other devices would refuse too, and for an option of the device.
    """
    qnode, where, shots = call.qnode, call.where, call.shots
    options = qnode.device.device_kwargs
    for option, value in options.items():
        if value and option not in ("track_resources", "resources_filename"):
            raise CompileError(
                f"{where}: the option {option} of null.qubit is not supported by bellhop. "
                "Use qml.specs of the QNode, uncompiled, to count gates."
            )
    tracker = None
    if options.get("track_resources"):
        tracker = ResourceTracker(options.get("resources_filename"), len(wires))

    def run_row(rows: TracedRow, _: Any, *inputs: Operand) -> tuple[Any, list[Any], Any]:
        faults = WireFaults(wires, where)
        circuit = _NullCircuit(wires, where, rows, faults)
        circuit.tracker = tracker
        if tracker is not None:
            tracker.begin()
        leaves, tree = call.function.play(circuit, inputs, Player(rewriting(qnode)))
        circuit.is_one_shot = call.chosen_method(circuit, leaves) == ONE_SHOT
        processes = [as_process(leaf, circuit) for leaf in leaves]
        for process in processes:
            process.check_wires()
        if tracker is not None:
            tracker.end(list(filter(is_measurement, leaves)))

        def copy(of_copy: int | None) -> Any:
            return jax.tree.unflatten(tree, [process.null(of_copy) for process in processes])

        results = tuple(map(copy, shots.copies)) if shots.is_vector else copy(shots.total or None)
        return faults.checked(results, circuit.fault), leaves, tree

    return results_of_rows(call, run_row)


class _NullCircuit(ProgramCircuit):
    """A circuit whose gates are looked at, and nothing more."""

    tracker: ResourceTracker | None = None

    def apply(self, operations: Sequence[Any]) -> None:
        gates = [op for op in operations if not is_control_flow(op)]
        if self.tracker is not None and gates:
            self.tracker.count(gates)
        super().apply(operations)

    def _apply_gate(self, op: qml.operation.Operator, depth: int) -> None:
        pass

    def _measured(self, label: Wire, *, reset: bool, postselect: int) -> Any:
        """Return the outcome zero, or the one that is asked for."""
        return jnp.asarray(postselect == 1)
