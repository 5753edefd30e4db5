"""Circuits that are traced into the program, while their quantum functions are: control flow.

What gates change is carried by the program's own loops and conditionals.  On ``default.qubit``,
``for_loop(0, n)(lambda i: qml.RX(x * i, 0))()`` becomes::

    (state, place, fault) = fori_loop(0, n, body=RX applied to state, (state, place, fault))

and on ``null.qubit`` the same of ``fault`` alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.gates.concretization_errors import explain_concretization
from bellhop.circuits.gates.gate_check import check_is_gate
from bellhop.circuits.gates.tape_control_flow import is_control_flow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.gate_replay import Player
from bellhop.circuits.passes.played_circuit import PlayedCircuit
from bellhop.control_flow.for_loop import run_for_loop
from bellhop.control_flow.trace_body import run_chosen_branch
from bellhop.control_flow.while_loop import run_while_loop
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches


class ProgramCircuit(PlayedCircuit):
    """A circuit whose gates are operations of the program; as it is, nothing, as on null.qubit.

    Args:
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
        rows: the row of the batches of parameters.
        faults: finds what is wrong with wires that the program computes.

    Attributes:
        fault: the first fault of such wires so far.
        n_outcomes: how many mid-circuit outcomes a run has at most, without those that are
            postselected.
        can_apply_observables: whether the matrices of observables among the gates are applied.
        count_gates: is given the gates.
    """

    can_apply_observables = True
    # A postselection may drop shots, and counts are made of the samples that are kept.
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
        """What gates change."""
        return self.fault

    @_gate_state.setter
    def _gate_state(self, now: Any) -> None:
        self.fault = now

    def _resume(self, now: Any) -> None:
        """Go on after a part of the circuit that changed this."""
        self._gate_state = now

    def _apply_gate(self, op: Any, depth: int) -> None:
        """Apply a gate that comes of a decomposition of some depth, or let it wait for others."""

    def _flush(self) -> None:
        """Apply the gates that wait."""

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations, in order."""
        gates = [op for op in operations if not is_control_flow(op)]
        if gates:
            self.count_gates(gates)
        with qml.QueuingManager.stop_recording():
            for op in operations:
                with self.error_location(op):
                    if not is_control_flow(op):
                        what, site = f"'{op.name}'", self.find_site(op)
                        self._check_labels(op.wires, what, site)
                        if isinstance(op, qml.QubitChannel):
                            fault, faults = self.fault, self._faults
                            self.fault = faults.record_channel(fault, op.data, what, site)
                    self._apply(op)
            self._flush()

    def _apply(self, op: Any, depth: int = 0) -> None:
        if is_control_flow(op):
            self._flush()
            Player().play_operation(op)
        else:
            applies_matrices = self.can_apply_observables
            check_is_gate(op, self.where, is_part=depth > 0, can_apply_matrices=applies_matrices)
            with explain_concretization(op, self.where):
                self._apply_gate(self.rows.select_row(op), depth)

    def check_wires(self, wires: Any, process: Any) -> None:
        """Check the wires of a measurement process, which the program computes, when it runs."""
        site = self.find_site(process) or self.find_site(process.obs)
        self._check_labels(wires, "a measurement", site)

    def _check_labels(self, labels: Sequence[Any], subject: str, site: str) -> None:
        for label in labels:
            self.wires.get_qubit(label)
        self.fault = self._faults.record_wires(self.fault, labels, subject, site)

    def for_loop(
        self, n_iterations: Any, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates; return the carried values."""
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
        """Run iterations; the first carried value is what gates change."""
        return run_for_loop(n_iterations, step, carried)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates while a condition on the carried values holds."""
        goes_on = lambda state: condition(state[1:])
        step = lambda state: self._run_part(state[0], body, state[1:])
        now, *rest = run_while_loop(goes_on, step, (self._gate_state, *carried))
        self._resume(now)
        self._reject_outcomes("a while_loop")
        return tuple(rest)

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result."""
        before, counts = self._gate_state, []

        def make_branch(branch: Callable[[], Any]) -> Callable[[], Any]:
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
        """Run a part of the circuit; return what gates changed after it, and its results."""
        outer = self._gate_state, self.n_outcomes
        self._gate_state, self.n_outcomes = before, 0
        try:
            with self.allocations.enter_part():
                results = function(*args)
            self._n_part_outcomes = self.n_outcomes
            return (self._gate_state, *results)
        finally:
            self._gate_state, self.n_outcomes = outer

    def trace_part(self, function: Callable[[], tuple[Any, ...]]) -> ClosedJaxpr:
        """Trace a part of the circuit that is not applied."""
        now = self._gate_state
        return jax.make_jaxpr(lambda: self._run_part(now, function))()

    def _reject_outcomes(self, construct: str) -> None:
        if self._n_part_outcomes:
            self._raise_or_defer(
                CompileError(
                    f"{self.where}: a mid-circuit measurement stands in {construct}, and on "
                    "devices in the program their number must be known. Use bounds that are Python "
                    "numbers, or qml.device('lightning.qubit', wires=...)."
                )
            )

    def _raise_or_defer(self, error: CompileError) -> None:
        """Refuse outcomes whose number is not known."""
        raise error

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        self._check_labels([label], "the mid-circuit measurement", site)
        self.has_mid_circuit = True
        return self._measure_wire(label, reset=reset, postselect=postselect)

    def _measure_wire(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Return the outcome of a wire that is measured: zero, or the one that is asked for."""
        return jnp.asarray(postselect == 1)
