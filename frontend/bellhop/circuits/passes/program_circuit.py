"""Circuits simulated by operations of the JAX program itself: control flow and checks.

Loops and conditionals carry the *gate state*, everything that gates change.  On ``default.qubit``,
``for_loop(0, n)(lambda i: qml.RX(x * i, 0))()`` becomes::

    (state, place, fault) = fori_loop(0, n, body=RX applied to state, (state, place, fault))

On ``null.qubit`` the gate state is ``fault`` alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.gates.concretization_errors import explain_concretization
from bellhop.circuits.gates.gate_check import check_is_gate
from bellhop.circuits.gates.operator_data import select_row
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.control_flow.for_loop import run_for_loop
from bellhop.control_flow.trace_body import run_chosen_branch
from bellhop.control_flow.while_loop import run_while_loop
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches


class ProgramCircuit(BackendCircuit):
    """A circuit whose gates become operations of the JAX program.

    This base class applies no gates, as ``null.qubit``; subclasses override `_gate_state`,
    `_apply_gate` and `_measure_wire` to simulate a state.

    Args:
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        rows: selects the current row of batched parameters.
        faults: records invalid traced wires and channel parameters when the program runs.

    Attributes:
        fault: the first fault so far, a traced value.
        n_outcomes: the maximal number of mid-circuit outcomes of an execution, without
            postselected outcomes.
        can_apply_observables: whether an observable among the gates is applied as its matrix.
        count_gates: called with the gates of each `apply`, for statistics.
    """

    can_apply_observables = True
    # A postselection may drop shots, and counts are computed from the remaining samples.
    drops_shots = True

    def __init__(self, wires: WireMap, where: str, rows: TracedRow, faults: FaultRecorder) -> None:
        super().__init__(wires, where, rows)
        self._faults = faults
        self.fault = faults.make_no_fault()
        self.n_outcomes = 0
        self._n_part_outcomes = 0
        self.count_gates: Callable[[Sequence[Any]], None] = lambda gates: None

    @property
    def _gate_state(self) -> Any:
        """The values that gates change, a pytree of traced arrays."""
        return self.fault

    @_gate_state.setter
    def _gate_state(self, now: Any) -> None:
        self.fault = now

    def _resume(self, now: Any) -> None:
        """Continue with the gate state after a loop or a conditional."""
        self._gate_state = now

    def _apply_gate(self, op: Any, depth: int) -> None:
        """Apply a gate, or queue it to be merged with later gates.

        Args:
            op: the gate.
            depth: how many decompositions the gate results from; 0 for a user's gate.
        """

    def _flush(self) -> None:
        """Apply the queued gates."""

    def apply(self, operations: Sequence[Any]) -> None:
        """Check the wires of operations and apply the operations in order."""
        gates = [op for op in operations if not ControlFlow.is_instance(op)]
        if gates:
            self.count_gates(gates)
        with qml.QueuingManager.stop_recording():
            for op in operations:
                with self.error_location(op):
                    if not ControlFlow.is_instance(op):
                        what, site = f"'{op.name}'", self.find_site(op)
                        self._check_labels(op.wires, what, site)
                        if isinstance(op, qml.QubitChannel):
                            fault, faults = self.fault, self._faults
                            self.fault = faults.record_channel(fault, op.data, what, site)
                    self._apply(op)
            self._flush()

    def _apply(self, op: Any, depth: int = 0) -> None:
        """Apply control flow, or check and apply the current row of a gate.

        Args:
            op: the operation.
            depth: how many decompositions the operation results from.
        """
        if ControlFlow.is_instance(op):
            self._flush()
            self.apply_control_flow(op)
        else:
            applies_matrices = self.can_apply_observables
            check_is_gate(op, self.where, is_part=depth > 0, can_apply_matrices=applies_matrices)
            with explain_concretization(op, self.where):
                self._apply_gate(select_row(op, self.rows), depth)

    def check_wires(self, wires: Any, process: Any) -> None:
        """Check traced wires of a measurement process when the program runs."""
        site = self.find_site(process) or self.find_site(process.obs)
        self._check_labels(wires, "a measurement", site)

    def _check_labels(self, labels: Sequence[Any], subject: str, site: str) -> None:
        for label in labels:
            self.wires.get_qubit(label)
        self.fault = self._faults.record_wires(self.fault, labels, subject, site)

    def for_loop(
        self,
        n_iterations: Any,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        is_nest: bool = False,
    ) -> tuple[Any, ...]:
        """Add a for loop that also carries the gate state; return its carried values.

        Raises:
            CompileError: if the loop has mid-circuit measurements and a traced trip count.
        """
        step = lambda state, iteration: self._run_part(state[0], body, state[1:], iteration)
        now, *rest = self._run_iterations(n_iterations, step, (self._gate_state, *carried))
        self._resume(now)
        if isinstance(n_iterations, int):
            self.n_outcomes += n_iterations * self._n_part_outcomes
        else:
            self._reject_outcomes("a for_loop whose bounds are computed in the program")
        return tuple(rest)

    def _run_iterations(
        self, n_iterations: Any, step: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add the program's for loop; the first of the carried values is the gate state.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer.
            step: maps the carried values and the iteration's index to the next carried values.
            carried: the carried values of the first iteration.
        """
        return run_for_loop(n_iterations, step, carried)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop that also carries the gate state; return its carried values.

        Raises:
            CompileError: if the loop has mid-circuit measurements.
        """
        goes_on = lambda state: condition(state[1:])
        step = lambda state: self._run_part(state[0], body, state[1:])
        now, *rest = run_while_loop(goes_on, step, (self._gate_state, *carried))
        self._resume(now)
        self._reject_outcomes("a while_loop")
        return tuple(rest)

    def branch(self, branches: Branches) -> Any:
        """Add a conditional whose branches change the gate state; return its result."""
        before, counts = self._gate_state, []

        def make_branch(branch: Callable[[], Any]) -> Callable[[], Any]:
            """Return a function that also returns the gate state after a branch."""

            def run() -> Any:
                results = self._run_part(before, lambda: (branch(),))
                counts.append(self._n_part_outcomes)
                return results

            return run

        now, result = run_chosen_branch(branches.map_functions(make_branch))
        self._resume(now)
        self.n_outcomes += max(counts)
        return result

    def _run_part(self, before: Any, function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        """Trace a loop's body or a branch, starting from the gate state ``before``.

        Args:
            before: the gate state at the beginning.
            function: applies gates, and returns a tuple of results.
            *args: the arguments of the function.

        Returns:
            the gate state at the end, and the function's results. The circuit's own gate state and
            number of outcomes are unchanged.
        """
        outer = self._gate_state, self.n_outcomes
        self._gate_state, self.n_outcomes = before, 0
        try:
            results = function(*args)
            self._n_part_outcomes = self.n_outcomes
            return (self._gate_state, *results)
        finally:
            self._gate_state, self.n_outcomes = outer

    def trace_part(self, function: Callable[[], tuple[Any, ...]]) -> ClosedJaxpr:
        """Trace a function with gates to a jaxpr, without changing this circuit."""
        now = self._gate_state
        return jax.make_jaxpr(lambda: self._run_part(now, function))()

    def _reject_outcomes(self, construct: str) -> None:
        """Raise or defer an error if the last loop body has mid-circuit measurements."""
        if self._n_part_outcomes:
            self._raise_or_defer(
                CompileError(
                    f"{self.where}: a mid-circuit measurement stands in {construct}, and on "
                    "devices in the program their number must be known. Use bounds that are Python "
                    "numbers, or qml.device('lightning.qubit', wires=...)."
                )
            )

    def _raise_or_defer(self, error: CompileError) -> None:
        """Raise an error for an unknown number of outcomes; subclasses may defer it."""
        raise error

    def mid_measure(
        self, label: Any, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Check a wire and measure it mid-circuit; return the outcome."""
        self._check_labels([label], "the mid-circuit measurement", site)
        self.has_mid_circuit = True
        return self._measure_wire(label, reset=reset, postselect=postselect)

    def _measure_wire(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Return the outcome of a measurement: the postselected outcome, or zero."""
        return jnp.asarray(postselect == 1)
