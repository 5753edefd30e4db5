"""Circuits on ``null.qubit``: traced and checked, and nothing of them is left in the program.

Results are the constants that PennyLane's device gives: zeros, and for states, probabilities and
counts all weight on the first outcome.  So it tells what everything around a circuit costs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.circuit.execution import (
    ONE_SHOT,
    check_result,
    chosen_method,
    is_measurement,
    shots_of,
)
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.gates import check_is_gate
from bellhop.circuits.gates.rewrites import rewrites_of
from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.in_program.resource_tracking import ResourceTracker
from bellhop.circuits.measure.outcome_statistics import values_of
from bellhop.circuits.measure.statistics import unsupported
from bellhop.circuits.operations.wire_faults import WireFaults
from bellhop.circuits.recording.nested import NestingCircuit, apply_control_flow
from bellhop.control_flow.branches import choose
from bellhop.control_flow.for_loop import repeat
from bellhop.control_flow.while_loop import repeat_while
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope

mp = qml.measurements

# A result of more numbers than these is a mistake rather than a wish.
_MOST_QUBITS = 30


def is_null_device(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are left out of the program."""
    return isinstance(device, qml.devices.NullQubit)


def run_null(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    qnode: qml.QNode,
    wires: WireMap,
    where: str,
) -> Any:
    """Trace a call of a QNode on ``null.qubit``.

    Args:
        function: the quantum function, of the inputs.
        inputs: arrays.
        qnode: the QNode, for its options.
        wires: of its device.
        where: the QNode and its line, for errors.

    Returns:
        constants in place of the measurements, in the structure that the quantum function
        returned.

    Raises:
        CompileError: for what other devices would refuse too, and for an option of the device.
    """
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
    shots = shots_of(qnode)
    rows = Rows(None, where)

    def run(row: Any, *inputs: Any) -> Any:
        nonlocal rows
        rows = Rows(row, where)
        faults = WireFaults(wires, where)
        circuit = _NullCircuit(wires, where, rows, faults, tracker)
        circuit.rewrites = rewrites_of(qnode)
        if tracker is not None:
            tracker.begin()
        with circuit_scope(circuit), circuit.queue():
            result = function(*inputs)
        leaves, tree = jax.tree.flatten(result, is_leaf=is_measurement)
        check_result(leaves, where)
        processes = list(filter(is_measurement, leaves))
        circuit.take_observables(processes)
        for process in processes:
            if process.mv is None and any(map(is_dynamic, process.wires)):
                circuit.check_wires(process.wires, process)
        if tracker is not None:
            tracker.end(processes)
        method = None
        if circuit.has_mid_circuit:
            is_classical = not all(map(is_measurement, leaves))
            method = chosen_method(qnode, shots, is_classical=is_classical, where=where)
        is_of_shots = method == ONE_SHOT

        def value_of(leaf: Any, of_copy: int | None) -> Any:
            if is_measurement(leaf):
                return circuit.precision.of(_Result(leaf, of_copy, wires, where).value())
            leaf = jnp.asarray(leaf)
            return jnp.broadcast_to(leaf, (of_copy, *leaf.shape)) if is_of_shots else leaf

        def copy(of_copy: int | None) -> Any:
            return jax.tree.unflatten(tree, [value_of(leaf, of_copy) for leaf in leaves])

        results = tuple(map(copy, shots.copies)) if shots.is_vector else copy(shots.total or None)
        return faults.checked(results, circuit.fault)

    jax.eval_shape(run, ROW_STRUCT, *inputs)
    return rows.run(lambda row: run(row, *inputs))


class _NullCircuit(NestingCircuit):
    """A circuit whose gates are looked at, and nothing more.

    Attributes:
        fault: the first with wires that the program computes.
    """

    def __init__(
        self,
        wires: WireMap,
        where: str,
        rows: Rows,
        faults: WireFaults,
        tracker: ResourceTracker | None,
    ) -> None:
        super().__init__(where, rows)
        self.wires = wires
        self._faults = faults
        self._tracker = tracker
        self.fault = faults.none()
        self.has_mid_circuit = False

    def apply(self, operations: Sequence[Any]) -> None:
        gates = [op for op in operations if not is_control_flow(op)]
        if self._tracker is not None and gates:
            self._tracker.count(gates)
        for op in operations:
            if is_control_flow(op):
                apply_control_flow(self, op)
                continue
            check_is_gate(op, self._where)
            self.rows.of(op)
            self._check(op.wires, f"'{op.name}'", self.site_of(op))

    def check_wires(self, wires: Any, process: Any) -> None:
        """Check the wires of a measurement process, which the program computes, when it runs."""
        site = self.site_of(process) or self.site_of(process.obs)
        self._check(wires, "a measurement", site)

    def _check(self, labels: Sequence[Any], what: str, site: str) -> None:
        for label in labels:
            self.wires.of(label)
        self.fault = self._faults.after(self.fault, labels, what, site)

    def for_loop(
        self, n_iterations: Any, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates; return the carried values."""
        self.flush_active("for_loop")
        step = lambda state, iteration: self._after(state[0], body, state[1:], iteration)
        self.fault, *carried_after = repeat(n_iterations, step, (self.fault, *carried))
        return tuple(carried_after)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates while a condition on the carried values holds."""
        self.flush_active("while_loop")
        goes_on = lambda state: self.evaluate_condition(condition, state[1:])
        step = lambda state: self._after(state[0], body, state[1:])
        self.fault, *carried_after = repeat_while(goes_on, step, (self.fault, *carried))
        return tuple(carried_after)

    def branch(
        self,
        construct: str,
        index: Any,
        names: Sequence[str],
        branches: Sequence[Callable[[], Any]],
    ) -> Any:
        """Run the branch with a number, which may have gates; return its result."""
        self.flush_active(construct)
        before = self.fault

        def part(branch: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: self._after(before, lambda: (branch(),))

        self.fault, result = choose(construct, index, names, list(map(part, branches)))
        return result

    def _after(self, fault: Any, function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        """Run a part of the circuit; return the fault after it, and its results."""
        outer, self.fault = self.fault, fault
        try:
            with self.queue():
                results = function(*args)
            return (self.fault, *results)
        finally:
            self.fault = outer

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Return the outcome zero, or the one that is asked for."""
        del reset
        self.flush_active("measure")
        self._check([label], "the mid-circuit measurement", site)
        self.has_mid_circuit = True
        return jnp.asarray(postselect == 1)


class _Result:
    """What one measurement gives."""

    def __init__(self, process: Any, shots: int | None, wires: WireMap, where: str) -> None:
        self._process = process
        self._shots = shots
        self.wires = wires
        self._where = where

    def value(self) -> Any:
        process = self._process
        if process.mv is not None:
            return self._of_outcomes(len(values_of(process, self._where)))
        for wire in process.wires:
            check = self.wires.dynamic if is_dynamic(wire) else self.wires
            check(wire)
        n = len(process.wires) or len(self.wires)
        match process:
            case mp.StateMP() if not isinstance(process, mp.DensityMatrixMP):
                return self._first(n)
            case mp.ProbabilityMP():
                return self._first(n)
            case mp.CountsMP():
                if process.obs is None:
                    return self._counts(np.arange(2 ** self._checked(n)))
                return self._counts(np.unique(np.round(process.eigvals(), 12)))
            case mp.SampleMP() if self._shots is None:
                raise unsupported(
                    self._where, "sample without shots", "Set them: qml.set_shots(circuit, 100)."
                )
            case mp.ClassicalShadowMP():
                dtype: Any = np.int8
            case _:
                dtype = process.numeric_type
        return jnp.zeros(process.shape(self._shots, len(self.wires)), dtype)

    def _of_outcomes(self, n: int) -> Any:
        match self._process:
            case mp.ProbabilityMP():
                return self._first(n)
            case mp.CountsMP():
                return self._counts(np.arange(2 ** self._checked(n)))
            case mp.SampleMP():
                several = isinstance(self._process.mv, list)
                return jnp.zeros((self._shots, n) if several else self._shots, int)
        return jnp.zeros(())

    def _first(self, qubits: int) -> Any:
        return jnp.zeros(2 ** self._checked(qubits)).at[0].set(1.0)

    def _counts(self, values: np.ndarray) -> Any:
        if self._shots is None:
            raise unsupported(
                self._where, "counts without shots", "Set them: qml.set_shots(circuit, 100)."
            )
        return jnp.asarray(values), jnp.zeros(len(values), int).at[0].set(self._shots)

    def _checked(self, qubits: int) -> int:
        if qubits > _MOST_QUBITS:
            raise unsupported(
                self._where, f"a result of 2**{qubits} numbers", "Measure fewer wires."
            )
        return qubits
