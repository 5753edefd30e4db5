"""Circuits on ``null.qubit``: traced and checked, but not simulated.

Results are constants, as in PennyLane: zeros, except that states, probabilities and counts
have all weight on the first outcome.  So the run time is the overhead outside the circuit.

With ``track_resources``, gates are counted when the program runs: in each iteration of a loop, and
only in branches that are taken.
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
from bellhop.circuits.backends.choose.choose_outcomes import choose_outcomes
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

# Measurements with a number for each outcome of their wires, the first of which is certain.
_OUTCOME_MEASUREMENTS = (mp.ProbabilityMP, mp.StateMP, mp.CountsMP)
# Results for more wires are presumably a mistake.
_MAX_QUBITS = 30


class ResourceTracker:
    """Adds callbacks to a program that count a circuit's gates in each execution.

    For ``track_resources`` of ``null.qubit``: the last callback writes the counts to a file. The
    counts are kept in the instance, which all callbacks share; each execution begins by resetting
    them.

    Args:
        filename: name of the file; None for a new name with a time stamp in each execution.
        wires: the number of wires of the device, which is written to the file.
    """

    def __init__(self, filename: str | None, wires: int) -> None:
        self._filename = filename
        self._wires = wires
        self._types: Counter[str] = Counter()
        self._sizes: Counter[int] = Counter()

    def emit_begin(self) -> None:
        """Add a callback to the program that resets the counts."""

        def begin() -> None:
            """Reset the counts."""
            self._types.clear()
            self._sizes.clear()

        io_callback(begin, ordered=True)()

    def emit_count(self, operations: Sequence[Any]) -> None:
        """Add a callback to the program that adds operations to the counts when it runs.

        The names and the numbers of wires of the operations are counted.
        """
        names = [op.name for op in operations]
        sizes = [len(op.wires) for op in operations]

        def count() -> None:
            """Add the operations to the counts."""
            self._types.update(names)
            self._sizes.update(sizes)

        io_callback(count, ordered=True)()

    def emit_end(self, processes: Sequence[Any]) -> None:
        """Add a callback to the program that writes the counts to the file.

        The circuit's final measurement processes are written to the file too.
        """
        tape = qml.tape.QuantumScript([], processes)
        measured = dict(qml.resource.resources_from_tape(tape, compute_depth=False).measurements)

        def end() -> None:
            """Write the counts and the measurements to the file, as JSON."""
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
    """Trace and check a circuit on ``null.qubit`` without simulating it.

    Returns:
        constants in place of the measurements, in the structure of the quantum function's result.

    Raises:
        CompileError: for an invalid circuit, and for an unsupported option of the device.
    """
    where, shots = call.where, call.shots
    options = device.device_kwargs
    for option, value in options.items():
        if value and option not in ("track_resources", "resources_filename"):
            raise CompileError(
                f"{where}: the option {option} of null.qubit is not supported by bellhop. Leave "
                f"{option} out; to count gates, use qml.specs of the QNode without qjit."
            )
    tracker = None
    if options.get("track_resources"):
        tracker = ResourceTracker(options.get("resources_filename"), len(wires))

    def run_row(rows: TracedRow, _: Any, *inputs: Operand) -> tuple[Any, list[Any], Any]:
        """Trace and check one batch row of the circuit.

        Args:
            rows: selects the row of batched gate parameters.
            _: the traced index of the row.
            *inputs: the quantum function's arguments that are arrays.

        Returns:
            the constant results, and the leaves and the tree structure of the quantum function's
            result.
        """
        faults = FaultRecorder(wires, where)
        circuit = ProgramCircuit(wires, where, rows, faults)
        if tracker is not None:
            circuit.count_gates = tracker.emit_count
            tracker.emit_begin()
        leaves, tree = call.function.apply_to_circuit(circuit, inputs)
        circuit.treatment = choose_outcomes(call.config, circuit, leaves)
        for leaf in leaves:
            if is_measurement(leaf) and leaf.mv is None:
                circuit.check_wires(leaf.wires, leaf)
        if tracker is not None:
            tracker.emit_end(list(filter(is_measurement, leaves)))

        def build_entry_result(n_shots: int | None) -> Any:
            """Return the result for one entry of the shot vector."""
            constants = [_make_constant_result(leaf, circuit, device, n_shots) for leaf in leaves]
            return jax.tree.unflatten(tree, constants)

        results = (
            tuple(map(build_entry_result, shots.shot_vector))
            if shots.is_vector
            else build_entry_result(shots.total or None)
        )
        return faults.raise_faults(results, circuit.fault), leaves, tree

    return call.trace_rows(run_row)


def _make_constant_result(
    leaf: Any, circuit: ProgramCircuit, device: Any, shots: int | None
) -> Any:
    """Return the constant result for one leaf of the quantum function's result.

    Args:
        leaf: a measurement process, which becomes zeros (state vectors, probabilities and counts:
            the first outcome with certainty); or another value, which is kept. If each shot is an
            execution, this value is repeated along a leading axis of shots.
        circuit: the circuit after its last gate.
        device: the PennyLane device.
        shots: the number of shots of this entry of the shot vector; None without shots.

    Raises:
        CompileError: for a state, probabilities or counts of more than 30 wires.
    """
    if not is_measurement(leaf):
        value = jnp.asarray(leaf)
        return jnp.broadcast_to(value, (shots, *value.shape)) if circuit.is_one_shot else value
    with circuit.error_location(leaf), qml.QueuingManager.stop_recording():
        if leaf.mv is not None:
            leaf = _map_to_outcome_wires(leaf, len(find_outcomes(leaf, circuit)))
        n_wires = len(leaf.wires) or len(circuit.wires)
        if isinstance(leaf, _OUTCOME_MEASUREMENTS) and n_wires > _MAX_QUBITS:
            label = f"{leaf} of {n_wires} wires on null.qubit, only of up to {_MAX_QUBITS} wires"
            raise unsupported_error(circuit.where, label, "Measure fewer wires.")
        result = find_result(leaf, device, n_wires, shots, circuit.where)
    array = jnp.zeros(result.shape, result.dtype)
    if isinstance(leaf, _OUTCOME_MEASUREMENTS) and type(leaf) is not mp.DensityMatrixMP:
        # PennyLane's device returns real amplitudes too.
        array = jnp.real(array).at[0].set(shots if isinstance(leaf, mp.CountsMP) else 1)
    return circuit.precision.cast_result(result.finish(array))


def _map_to_outcome_wires(process: Any, n_outcomes: int) -> Any:
    """Replace a measurement of mid-circuit outcomes by a measurement of wires.

    The results have the same shape: ``qml.probs`` of two outcomes becomes ``qml.probs`` of two
    wires.

    Args:
        process: measurement process of outcomes, such as ``qml.sample(m)``.
        n_outcomes: the number of outcomes that it reads.

    Returns:
        a measurement process on `n_outcomes` wires, or of an observable on one wire.
    """
    if isinstance(process, mp.ExpectationMP | mp.VarianceMP):
        return type(process)(obs=qml.Z(0))
    if isinstance(process, mp.SampleMP) and not isinstance(process.mv, list):
        return type(process)(obs=qml.Z(0), dtype=int)
    return type(process)(wires=qml.wires.Wires(range(n_outcomes)))
