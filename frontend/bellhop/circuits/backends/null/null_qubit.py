"""Circuits on ``null.qubit``: traced and checked, and nothing of them is left in the program.

Results are the constants that PennyLane's device gives: zeros, and for states, probabilities and
counts all weight on the first outcome.  So it tells what everything around a circuit costs.

Gates are counted where that is asked for, when the program gets to them: as often as its loops run,
and in the branches that are taken.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Operand
from bellhop.callbacks.io_callback import io_callback
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.statistics import unsupported_error
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.measurement_registry import find_outcomes
from bellhop.circuits.measure.result_types import find_result
from bellhop.circuits.passes.program_circuit import ProgramCircuit
from bellhop.errors import CompileError

mp = qml.measurements

# What has a number for each outcome of its wires, of which the first is certain.
_OUTCOME_MEASUREMENTS = (mp.ProbabilityMP, mp.StateMP, mp.CountsMP)
# More wires are a mistake rather than a wish.
_MAX_QUBITS = 30


class ResourceTracker:
    """Counts the gates of one run of a circuit, and writes them to a file at its end.

    Args:
        filename: of the file; without, one of its own for each run, by the time.
        wires: how many the device has.
    """

    def __init__(self, filename: str | None, wires: int) -> None:
        self._filename = filename
        self._wires = wires
        self._types: Counter[str] = Counter()
        self._sizes: Counter[int] = Counter()

    def emit_begin(self) -> None:
        """Let the program begin to count."""

        def begin() -> None:
            self._types.clear()
            self._sizes.clear()

        io_callback(begin, ordered=True)()

    def emit_count(self, operations: Sequence[Any]) -> None:
        """Let the program count operations where it gets to them."""
        names = [op.name for op in operations]
        sizes = [len(op.wires) for op in operations]

        def count() -> None:
            self._types.update(names)
            self._sizes.update(sizes)

        io_callback(count, ordered=True)()

    def emit_end(self, processes: Sequence[Any]) -> None:
        """Let the program write what it counted, and what it measures."""
        tape = qml.tape.QuantumScript([], processes)
        measured = dict(qml.resource.resources_from_tape(tape, compute_depth=False).measurements)

        def end() -> None:
            name = self._filename or f"__pennylane_resources_data_{time.time_ns()}.json"
            resources = {
                "num_wires": self._wires,
                "num_gates": self._types.total(),
                "total_allocations": self._wires,
                "gate_types": dict(self._types),
                "gate_sizes": {str(size): n for size, n in self._sizes.items()},
                "measurements": measured,
                "depth": None,
            }
            Path(name).write_text(json.dumps(resources, indent=2))

        io_callback(end, ordered=True)()


def run_null(call: Circuit, device: qml.devices.Device, wires: WireMap) -> Any:
    """Trace a circuit on ``null.qubit``.

    Args:
        call: the circuit.
        device: its device.
        wires: its wires.

    Returns:
        constants in place of the measurements, in the structure that the quantum function
        returned.

    Raises:
        CompileError: for what other devices would refuse too, and for an option of the device.
    """
    where, shots = call.where, call.shots
    options = device.device_kwargs
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
        faults = FaultRecorder(wires, where)
        circuit = ProgramCircuit(wires, where, rows, faults)
        if tracker is not None:
            circuit.count_gates = tracker.emit_count
            tracker.emit_begin()
        leaves, tree = call.function.apply_to_circuit(circuit, inputs)
        circuit.method = call.choose_mcm_method(circuit, leaves)
        for leaf in leaves:
            if is_measurement(leaf) and leaf.mv is None:
                circuit.check_wires(leaf.wires, leaf)
        if tracker is not None:
            tracker.emit_end(list(filter(is_measurement, leaves)))

        def copy(of_copy: int | None) -> Any:
            constants = [_make_constant_result(leaf, circuit, device, of_copy) for leaf in leaves]
            return jax.tree.unflatten(tree, constants)

        results = tuple(map(copy, shots.copies)) if shots.is_vector else copy(shots.total or None)
        return faults.raise_faults(results, circuit.fault), leaves, tree

    return call.trace_rows(run_row)


def _make_constant_result(
    leaf: Any, circuit: ProgramCircuit, device: Any, shots: int | None
) -> Any:
    """Return what the device gives for a measurement; another value is as it is, for each shot."""
    if not is_measurement(leaf):
        value = jnp.asarray(leaf)
        return jnp.broadcast_to(value, (shots, *value.shape)) if circuit.is_one_shot else value
    with circuit.error_location(leaf), qml.QueuingManager.stop_recording():
        if leaf.mv is not None:
            leaf = _map_to_outcome_wires(leaf, len(find_outcomes(leaf, circuit)))
        n_wires = len(leaf.wires) or len(circuit.wires)
        if isinstance(leaf, _OUTCOME_MEASUREMENTS) and n_wires > _MAX_QUBITS:
            what = f"{leaf} with a result of 2**{n_wires} numbers"
            raise unsupported_error(circuit.where, what, "Measure fewer wires.")
        result = find_result(leaf, device, n_wires, shots, circuit.where)
    array = jnp.zeros(result.shape, result.dtype)
    if isinstance(leaf, _OUTCOME_MEASUREMENTS) and type(leaf) is not mp.DensityMatrixMP:
        # The amplitudes of a state too are real numbers there.
        array = jnp.real(array).at[0].set(shots if isinstance(leaf, mp.CountsMP) else 1)
    return circuit.precision.cast_result(result.finish(array))


def _map_to_outcome_wires(process: Any, n_outcomes: int) -> Any:
    """Return a measurement of as many wires as there are outcomes that it was of."""
    if isinstance(process, mp.ExpectationMP | mp.VarianceMP):
        return type(process)(obs=qml.Z(0))
    if isinstance(process, mp.SampleMP) and not isinstance(process.mv, list):
        return type(process)(obs=qml.Z(0), dtype=int)
    return type(process)(wires=qml.wires.Wires(range(n_outcomes)))
