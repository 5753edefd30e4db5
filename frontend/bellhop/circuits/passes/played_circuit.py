"""The base class of circuits that receive the operations of a jaxpr with gates.

`Player` in ``gate_replay`` interprets the jaxpr and calls the methods defined here.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from pennylane import Identity

from bellhop.base.source import user_site
from bellhop.base.types import Operand, Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.tracing_circuit import (
    ControlFlowQueue,
    as_operation,
    foreign_queue_error,
)
from bellhop.tracing.current_circuit import Branches, GateRecorder


class PlayedCircuit(ABC):
    """A circuit that receives operations and control flow from a `Player`.

    Args:
        wires: maps wire labels to qubits.
        where: the QNode and its line, for errors.
        rows: selects the current row of batched parameters.

    Attributes:
        has_mid_circuit: whether the circuit has measured a wire mid-circuit so far.
        precision: derives the precision of the results from the parameters' dtypes.
        treatment: how random outcomes are treated, see ``choose_outcomes``.
        has_operation_outcomes: whether mid-circuit outcomes are PennyLane objects, not arrays.
        drops_shots: whether a run may drop shots, so that frequencies do not give counts.
        has_users_callbacks: whether callbacks that are called now are the user's; PennyLane's
            transforms execute tapes in theirs.
    """

    treatment: Outcomes = Outcomes.NONE
    has_operation_outcomes: bool = False
    drops_shots: bool = False
    has_users_callbacks: bool = True

    def __init__(self, wires: WireMap, where: str, rows: TracedRow) -> None:
        self.wires = wires
        self.where = where
        self.rows = rows
        self.has_mid_circuit = False
        self.precision = Precision()
        self.allocations = Allocations(wires, where)
        # Lines by ``id`` of the operation. References are weak, because operations may hold
        # tracers; `find_site` checks them, because Python reuses an ``id``.
        self._sites: dict[int, tuple[weakref.ref[Any], str]] = {}

    @property
    def is_one_shot(self) -> bool:
        """Whether the method executes the circuit once per shot."""
        return self.treatment.is_for_shots

    @property
    def has_run_per_shot(self) -> bool:
        """Whether the runtime executes the circuit once per shot."""
        return False

    @property
    def can_flatten_nests(self) -> bool:
        """Whether ``apply_straight`` may apply the gates of nested loops."""
        return False

    def apply_straight(self, operations: list[Any]) -> bool:
        """Apply the unrolled gates of nested loops, if the circuit can and they are few.

        Args:
            operations: the gates of all iterations, in order.

        Returns:
            whether they were applied.
        """
        return False

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the circuit, as far as they are known."""
        return self.wires.labels

    @abstractmethod
    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations, in order."""

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate the wires of an ``Allocate`` or ``Deallocate`` operation."""

        def reset(wire: Any) -> None:
            self.mid_measure(wire, reset=True, postselect=-1, site=user_site())

        self.allocations.apply(op, reset)

    @abstractmethod
    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a for loop whose body applies gates; return the carried values after it.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer.
            body: maps the carried values and the iteration's index to the next carried values.
            carried: the carried values of the first iteration.
        """

    def unroll_iterations(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Unroll a loop with a static trip count; the body gets its index as a constant."""
        for number in range(n_iterations):
            with self.allocations.enter_part():
                carried = body(carried, np.asarray(number))
        return carried

    @abstractmethod
    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop whose body applies gates; return the carried values after it.

        Args:
            condition: maps the carried values to whether another iteration follows.
            body: maps the carried values to the next carried values.
            carried: the carried values of the first iteration.
        """

    @abstractmethod
    def branch(self, branches: Branches) -> Any:
        """Add a conditional whose branches may apply gates; return its result."""

    @abstractmethod
    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire mid-circuit, collapse the state, and return the outcome.

        Args:
            label: the wire.
            reset: whether to reset the wire to zero afterwards.
            postselect: the outcome to postselect on, or -1.
            site: the user's ``file:line``.
        """

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        reference, site = self._sites.get(id(operation), (None, ""))
        return site if reference is not None and reference() is operation else ""

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation or measurement.

        An empty ``site`` means that the line is unknown, and records nothing.
        """
        if site:
            self._sites[id(operation)] = weakref.ref(operation), site

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

    def is_collecting(self) -> bool:
        """Return False, because this circuit has no queue."""
        return False

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

    def as_operation(self, play: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Trace control flow into one operation; see the function `as_operation`."""
        return as_operation(self, play)
