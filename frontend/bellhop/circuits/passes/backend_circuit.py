"""``BackendCircuit``: the base class of the circuits of Bellhop's backends.

It applies loops and conditionals in decompositions, and checks measurements.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from jax.extend.core import ClosedJaxpr
from pennylane import Identity

from bellhop.base.exception_attributes import add_note
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.interpreter import GateReceiver, Interpreter
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.regions.region_pass import apply_control_flow
from bellhop.circuits.passes.tracing_circuit import (
    ControlFlowQueue,
    as_operation,
    foreign_queue_error,
)
from bellhop.circuits.passes.unroll import UnrollPass
from bellhop.tracing.current_circuit import GateRecorder


class BackendCircuit(GateReceiver):
    """Base class of the circuits to which Bellhop's own backends apply gates.

    An instance receives one circuit, after all passes, while the circuit is traced into the
    program. This class applies control flow that decompositions contain, and checks traced wires of
    measurements. A subclass defines the methods for gates, loops and conditionals.

    Args:
        wires: maps wire labels to qubit indices.
        where: the QNode's name and line, which begin error messages.
        rows: the row of batched gate parameters that the circuit applies (parameter
            broadcasting). The index of the row is traced.

    Attributes:
        has_mid_circuit: whether a wire was measured mid-circuit so far.
        treatment: how random outcomes are treated, for instance sampled or summed over. The backend
            sets it after the last gate, by ``choose_outcomes``.
        drops_shots: whether an execution may drop shots, so that counts cannot be computed from
            relative frequencies.
    """

    treatment: Outcomes = Outcomes.NONE
    drops_shots: bool = False

    def __init__(self, wires: WireMap, where: str, rows: TracedRow) -> None:
        super().__init__(wires, where)
        self.rows = rows
        self.has_mid_circuit = False

    @property
    def is_one_shot(self) -> bool:
        """Whether each shot has its own mid-circuit outcomes, as ``treatment`` says.

        Each shot is then a separate run, or shots with equal outcomes share a run. Returned values
        that are not measurements then get an axis of shots.
        """
        return self.treatment.is_for_shots

    @property
    def unrolls_nests(self) -> bool:
        """Whether nested loops that apply few gates are unrolled, by an `UnrollPass`.

        False in this base class. A subclass that returns True also defines `try_apply_gates`, which
        the pass calls.
        """
        return False

    def try_apply_gates(self, operations: Sequence[Any]) -> bool:
        """Apply operations if they are few gates without control flow.

        This base class does not implement it; it is called only if `unrolls_nests` is True.

        Returns:
            whether the operations were applied; if not, none was.
        """
        raise NotImplementedError

    def add_own_passes(self, closed: ClosedJaxpr) -> Interpreter:
        """Return the first of the backend's own passes; they end in this circuit.

        An `UnrollPass` is added if `unrolls_nests` is True and the circuit has a for loop inside of
        another for loop.

        Args:
            closed: the circuit's jaxpr with gates.

        Returns:
            the `UnrollPass`; this circuit itself if the pass is not needed.
        """
        is_needed = self.unrolls_nests and UnrollPass.is_needed(closed)
        return UnrollPass(self, self.try_apply_gates) if is_needed else self

    @property
    def has_run_per_shot(self) -> bool:
        """Whether each shot is a separate execution of the circuit by the runtime.

        False in this base class; subclasses that the runtime executes override it.
        """
        return False

    def apply_control_flow(self, op: Any) -> None:
        """Apply a loop or conditional that a decomposition contains as one operation.

        The gates in the loop or conditional go through this backend's own passes.

        Args:
            op: a `ControlFlow` operation, or PennyLane's ``Adjoint`` or ``Controlled`` of one.
        """
        base, _ = Modifiers.strip(op)
        apply_control_flow(self.add_own_passes(base.hyperparameters["gates"]), op)

    def unroll_iterations(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop's body once per iteration while tracing, instead of adding a loop.

        Args:
            n_iterations: the static trip count.
            body: ``(carried, index) -> carried``, which applies gates. The index is a NumPy array
                of shape ``()``, so that wires and angles computed from it are static.
            carried: the carried values of the first iteration, a tuple of arrays.

        Returns:
            the carried values after the last iteration.
        """
        for number in range(n_iterations):
            carried = body(carried, np.asarray(number))
        return carried

    @contextmanager
    def error_location(self, operation: Any) -> Iterator[None]:
        """Add the user's line as a note to exceptions raised in the ``with`` block.

        No note is added if the line that created ``operation`` is unknown.
        """
        try:
            yield
        except Exception as error:
            note = f"raised at {self.find_site(operation)}"
            if self.find_site(operation) and note not in getattr(error, "__notes__", ()):
                add_note(error, note)
            raise

    def check_wires(self, wires: Any, process: Any) -> None:
        """Apply an identity gate that makes the runtime check the wires of a measurement.

        The runtime checks the traced wires of gates when the program runs, and so of this gate; its
        error message names the measurement.

        Args:
            wires: wire labels, static or traced.
            process: the final measurement process on these wires. Its line in the user's code, or
                the line of its observable, appears in the error.
        """
        check = Identity(wires=wires)
        # With this site, the runtime's error names a measurement and not an Identity.
        site = self.find_site(process) or self.find_site(process.obs)
        self.record_site(check, f"measurement at {site}")
        self.apply([check])

    # Methods of `CurrentCircuit`, for control flow inside decompositions applied to this circuit.

    def flush_queue(self, construct: str) -> NoReturn:
        """Raise the error for a ``measure``, ``adjoint`` or ``ctrl`` in a decomposition.

        These functions first call ``flush_queue`` of the current circuit. While an operation is
        decomposed, this circuit is current, and cannot record them. Loops and conditionals are
        supported in decompositions, see `get_control_flow_target`.

        Args:
            construct: the function that the user called: ``"measure"``, ``"adjoint"`` or
                ``"ctrl"``.

        Raises:
            CompileError: always.
        """
        raise foreign_queue_error(self.where, construct)

    def get_control_flow_target(self) -> GateRecorder:
        """Return the object that records loops and conditionals in a decomposition.

        Its methods append each loop or conditional to PennyLane's active queue, as one operation.
        """
        return ControlFlowQueue(self)

    def as_operation(self, record: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Trace loops and conditionals into one operation; compute their results now.

        The gates are applied when the circuit applies the operation.

        Args:
            record: ``TracingCircuit -> results``, applies loops and conditionals to its argument.

        Returns:
            the `ControlFlow` operation, and the results, a pytree of arrays.
        """
        return as_operation(self, record)
