"""``BackendCircuit``: what the circuits of Bellhop's backends have in common.

It allocates wires, applies loops and conditionals in decompositions, and checks measurements.
"""

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from pennylane import Identity

from bellhop.base.source import user_site
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.circuit import ONE_SHOT, SHARED
from bellhop.circuits.ir.interpreter import GateReceiver
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.regions import apply_control_flow
from bellhop.circuits.passes.tracing_circuit import (
    ControlFlowQueue,
    as_operation,
    foreign_queue_error,
)
from bellhop.tracing.current_circuit import GateRecorder


class BackendCircuit(GateReceiver):
    """A circuit of one of Bellhop's backends.

    Args:
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        rows: selects the current row of batched parameters.

    Attributes:
        has_mid_circuit: whether the circuit has measured a wire mid-circuit so far.
        method: the method for mid-circuit measurements, see ``Circuit.choose_mcm_method``.
        drops_shots: whether a run may drop shots, so that frequencies do not give counts.
    """

    method: str | None = None
    drops_shots: bool = False

    def __init__(self, wires: WireMap, where: str, rows: TracedRow) -> None:
        super().__init__(wires, where)
        self.rows = rows
        self.has_mid_circuit = False
        self.allocations = Allocations(wires, where)

    @property
    def is_one_shot(self) -> bool:
        """Whether the method executes the circuit once per shot."""
        return self.method in (ONE_SHOT, SHARED)

    @property
    def has_run_per_shot(self) -> bool:
        """Whether the runtime executes the circuit once per shot."""
        return False

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations in order; allocate or deallocate wires for allocations."""
        for are_allocations, group in itertools.groupby(operations, Allocations.is_allocation):
            if are_allocations:
                for op in group:
                    self.allocate(op)
            else:
                self.apply_gates(list(group))

    @abstractmethod
    def apply_gates(self, operations: Sequence[Any]) -> None:
        """Apply operations that are not allocations, in order."""

    def apply_control_flow(self, op: Any) -> None:
        """Apply a `ControlFlow` operation, which may be inside of adjoints and controls."""
        apply_control_flow(self, op)

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate the wires of an ``Allocate`` or ``Deallocate`` operation."""

        def reset(wire: Any) -> None:
            self.mid_measure(wire, reset=True, postselect=-1, site=user_site())

        self.allocations.apply(op, reset)

    def unroll_iterations(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Unroll a loop with a static trip count; the body gets its index as a constant."""
        for number in range(n_iterations):
            with self.allocations.enter_part():
                carried = body(carried, np.asarray(number))
        return carried

    @contextmanager
    def error_location(self, operation: Any) -> Iterator[None]:
        """Add the operation's line as a note to exceptions raised in the ``with`` block."""
        try:
            yield
        except Exception as error:
            note = f"raised at {self.find_site(operation)}"
            if self.find_site(operation) and note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise

    def check_wires(self, wires: Any, process: Any) -> None:
        """Add a runtime check of the traced wires of a measurement process.

        The check is an identity gate on the wires: the runtime checks the wires of all gates.

        Args:
            wires: the wires to check.
            process: the measurement process, for the line in the error.
        """
        check = Identity(wires=wires)
        # With this site, the runtime's error names a measurement and not an Identity.
        site = self.find_site(process) or self.find_site(process.obs)
        self.record_site(check, f"measurement at {site}")
        self.apply([check])

    # Methods of `CurrentCircuit`, for control flow inside decompositions applied to this circuit.

    def flush_queue(self, construct: str) -> NoReturn:
        """Raise an error for a construct, because the jaxpr has been traced already.

        Args:
            construct: the name of the function that the user called.

        Raises:
            CompileError: always.
        """
        raise foreign_queue_error(self.where, construct)

    def get_control_flow_target(self) -> GateRecorder:
        """Return an object that appends control flow to PennyLane's active queue."""
        return ControlFlowQueue(self)

    def as_operation(self, record: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Trace control flow into one operation; see the function `as_operation`."""
        return as_operation(self, record)
