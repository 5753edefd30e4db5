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

    This base class applies no gates, for ``null.qubit``. Subclasses override `_gate_state`,
    `_apply_gate` and `_measure_wire` to simulate a state. Loops and conditionals become JAX's,
    which carry the *gate state*: all values that gates change.

    Args:
        wires: maps wire labels to qubit indices.
        where: the QNode's name and line, which begin error messages.
        rows: the row of batched gate parameters that the circuit applies (parameter
            broadcasting). The index of the row is traced.
        faults: records invalid traced wires and channel parameters when the program runs.

    Attributes:
        fault: int32 ``[2]``, traced: encodes the first invalid wire or parameter so far, see
            `FaultRecorder`; zeros for none.
        n_outcomes: the largest number of mid-circuit outcomes of one execution, without
            postselected outcomes.
        can_apply_observables: whether an observable among the gates is applied as its matrix.
        count_gates: called with the gates of each `apply`. It does nothing until a backend sets it,
            as ``null.qubit`` does to count the gates.
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
        """Set the gate state after a loop or conditional to ``now``, the state that it returned."""
        self._gate_state = now

    def _apply_gate(self, op: Any, depth: int) -> None:
        """Apply a gate to the state, or queue it to be merged with later gates.

        This base class does nothing; subclasses override the method.

        Args:
            op: a PennyLane operation, with the parameters of the current batch row.
            depth: the number of decompositions that produced the gate, 0 for a user's gate.
        """

    def _flush(self) -> None:
        """Apply the gates that `_apply_gate` queued.

        This base class queues none; subclasses override the method.
        """

    def apply(self, operations: Sequence[Any]) -> None:
        """Check the wires of operations, and apply the operations in order.

        Traced wires and Kraus matrices are checked when the program runs: the first fault is kept
        in ``self.fault``.

        Args:
            operations: PennyLane operations; `ControlFlow` operations are loops or conditionals.

        Raises:
            CompileError: for an invalid static wire, or an operation that is not supported.
        """
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
        """Apply one operation: control flow, or the current batch row of a gate.

        Args:
            op: a PennyLane operation, or a `ControlFlow` operation.
            depth: the number of decompositions that produced the operation, 0 for the user's.

        Raises:
            CompileError: if the operation is not a gate that this circuit supports.
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
        """Check a measurement's wires: static wires now, traced wires at run time.

        The first fault of traced wires is kept in ``self.fault``.

        Args:
            wires: wire labels, static or traced.
            process: PennyLane's measurement process, whose line appears in the error.

        Raises:
            CompileError: if a static wire is unknown to the device.
        """
        site = self.find_site(process) or self.find_site(process.obs)
        self._check_labels(wires, "a measurement", site)

    def _check_labels(self, labels: Sequence[Any], subject: str, site: str) -> None:
        """Check wires: a static label now, traced wires when the program runs.

        The first fault of traced wires is kept in ``self.fault``.

        Args:
            labels: the wires, static or traced.
            subject: the operation or measurement on the wires, for error messages.
            site: the user's ``file:line`` of the operation or measurement; may be empty.

        Raises:
            CompileError: if a static label is unknown to the device.
        """
        for label in labels:
            self.wires.get_qubit(label)
        self.fault = self._faults.record_wires(self.fault, labels, subject, site)

    def for_loop(
        self,
        n_iterations: Any,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Add a for loop to the program, which also carries the circuit's gate state.

        Args:
            n_iterations: the trip count, an ``int``, or a tracer if it is dynamic.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
            can_unroll: not used.

        Returns:
            the carried values after the loop, without the gate state.

        Raises:
            CompileError: if the body measures mid-circuit and the trip count is dynamic; a subclass
                may raise it later.
        """
        step = lambda state, iteration: self._run_on_gate_state(
            state[0], body, state[1:], iteration
        )
        now, *rest = self._run_iterations(n_iterations, step, (self._gate_state, *carried))
        self._resume(now)
        if isinstance(n_iterations, int):
            self.n_outcomes += n_iterations * self._n_part_outcomes
        else:
            self._reject_outcomes("a for_loop with traced bounds")
        return tuple(rest)

    def _run_iterations(
        self, n_iterations: Any, step: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a for loop to the program; subclasses may change its form.

        Args:
            n_iterations: the trip count, an ``int``, or a tracer if it is dynamic.
            step: ``(carried, index) -> carried``.
            carried: the carried values of the first iteration, a tuple; its first element is the
                gate state.

        Returns:
            the carried values after the loop.
        """
        return run_for_loop(n_iterations, step, carried)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop to the program, which also carries the circuit's gate state.

        Args:
            condition: ``carried -> bool scalar``, whether another iteration follows.
            body: ``carried -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.

        Returns:
            the carried values after the loop, without the gate state.

        Raises:
            CompileError: if the body measures mid-circuit; a subclass may raise it later.
        """
        goes_on = lambda state: condition(state[1:])
        step = lambda state: self._run_on_gate_state(state[0], body, state[1:])
        now, *rest = run_while_loop(goes_on, step, (self._gate_state, *carried))
        self._resume(now)
        self._reject_outcomes("a while_loop")
        return tuple(rest)

    def branch(self, branches: Branches) -> Any:
        """Add a conditional to the program, whose branches may apply gates.

        Each branch begins with the current gate state. The result is the chosen branch's result,
        without the gate state after it.
        """
        before, counts = self._gate_state, []

        def make_branch(branch: Callable[[], Any]) -> Callable[[], Any]:
            """Wrap a branch so that it begins with the gate state before the conditional.

            The wrapped branch returns the gate state after it and its result, and appends its
            number of mid-circuit outcomes to ``counts``.
            """

            def run() -> Any:
                results = self._run_on_gate_state(before, lambda: (branch(),))
                counts.append(self._n_part_outcomes)
                return results

            return run

        now, result = run_chosen_branch(branches.map_functions(make_branch))
        self._resume(now)
        self.n_outcomes += max(counts)
        return result

    def _run_on_gate_state(
        self, before: Any, function: Callable[..., Any], *args: Any
    ) -> tuple[Any, ...]:
        """Run a loop's body or a branch on a given gate state; return the state after it.

        The circuit's own gate state and ``n_outcomes`` are restored at the end. The number of
        mid-circuit outcomes in the body or branch is stored in ``self._n_part_outcomes``.

        Args:
            before: the gate state at the beginning: all values that gates change.
            function: applies gates to this circuit, and returns a tuple of results.
            *args: the arguments of ``function``.

        Returns:
            a tuple of the gate state at the end, and the function's results.
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
        """Trace a function with gates to a jaxpr, beginning with the current gate state.

        The function's gates do not change the gate state and ``n_outcomes`` of this circuit.

        Args:
            function: applies gates to this circuit, and returns a tuple of arrays.

        Returns:
            a jaxpr without inputs, whose outputs are the gate state at the end and the function's
            results.
        """
        now = self._gate_state
        return jax.make_jaxpr(lambda: self._run_on_gate_state(now, function))()

    def _reject_outcomes(self, construct: str) -> None:
        """Raise an error if the loop body that was traced last measures mid-circuit.

        The number of outcomes of an execution must be static, for arrays of all outcomes.

        Args:
            construct: describes the loop in the error, such as "a while_loop".

        Raises:
            CompileError: if the body measures mid-circuit. A subclass may raise it later.
        """
        if self._n_part_outcomes:
            self._raise_or_defer(
                CompileError(
                    f"{self.where}: a mid-circuit measurement is in {construct}, expected a static "
                    "trip count, as the number of measurements must be static on this device. Use "
                    "a for_loop with Python integers as bounds, or qml.device('lightning.qubit', "
                    "wires=...)."
                )
            )

    def _raise_or_defer(self, error: CompileError) -> None:
        """Raise an error for an unknown number of outcomes; subclasses may defer it."""
        raise error

    def mid_measure(
        self, label: Any, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Check a wire, measure it mid-circuit and return the outcome, a bool scalar.

        A traced wire is checked when the program runs.

        Args:
            label: the wire label, static or traced.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site: the user's ``file:line``, for errors.
            is_joint: not used.
        """
        self._check_labels([label], "the mid-circuit measurement", site)
        self.has_mid_circuit = True
        return self._measure_wire(label, reset=reset, postselect=postselect)

    def _measure_wire(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Measure a wire that was checked; return the outcome, a bool scalar.

        This base class simulates no state: the outcome is the postselected outcome, or False.
        Subclasses override the method. The arguments are as in `mid_measure`.
        """
        return jnp.asarray(postselect == 1)
