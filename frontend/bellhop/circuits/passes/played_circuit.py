"""Circuits that a jaxpr with gates is played on: what ``gate_replay`` asks of them, and what of it
is the same for all.

With ``a, = qml.allocate(1)`` on a device with 4 wires, of which the circuit uses 0 and 1, it
applies ``qml.X(a)`` to wire 2 of the device.
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
from bellhop.circuits.ir.circuit import ONE_SHOT, SHARED
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.passes.tracing_circuit import (
    ControlFlowQueue,
    as_operation,
    foreign_queue_error,
)
from bellhop.tracing.current_circuit import Branches, GateRecorder


class PlayedCircuit(ABC):
    """A circuit that gets operations, loops, branches and measurements.

    Args:
        wires: gives the qubit of a wire label.
        where: the QNode and its line, for errors.
        rows: the row of the batches of parameters.

    Attributes:
        has_mid_circuit: whether a wire was measured in the middle so far.
        precision: finds the precision of the results, by the numbers in the circuit.
        method: how it is run, where it measures in the middle, see ``Circuit.choose_mcm_method``.
        has_operation_outcomes: whether outcomes of measurements are PennyLane's own objects.
        drops_shots: whether a run may drop shots, so that frequencies do not give counts.
        has_users_callbacks: whether callbacks that are called now are the user's; PennyLane's
            transforms execute tapes in theirs.
    """

    method: str | None = None
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
        # By their numbers, which others get when they are gone: they may hold what is traced.
        self._sites: dict[int, tuple[weakref.ref[Any], str]] = {}

    @property
    def is_one_shot(self) -> bool:
        """Whether it is meant to be run for each shot."""
        return self.method in (ONE_SHOT, SHARED)

    @property
    def has_run_per_shot(self) -> bool:
        """Whether the runtime runs it for each shot."""
        return False

    @property
    def can_flatten_nests(self) -> bool:
        """Whether the gates of loops of loops may be given to ``apply_straight``."""
        return False

    def apply_straight(self, operations: list[Any]) -> bool:
        """Apply the gates of a loop of loops without loops, if the circuit can and they are few.

        Args:
            operations: all operations, in order.

        Returns:
            whether they were applied.
        """
        return False

    def labels(self) -> Sequence[Any]:
        """Return the wires of the circuit, as far as they are known."""
        return self.wires.labels

    @abstractmethod
    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations, in order."""

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires."""

        def reset(wire: Any) -> None:
            self.mid_measure(wire, reset=True, postselect=-1, site=user_site())

        self.allocations.apply(op, reset)

    @abstractmethod
    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values after it.

        Args:
            n_iterations: the number of iterations: an ``int``, or a tracer if the program computes
                it.
            body: takes the carried values and the number of the iteration; returns the carried
                values of the next iteration.
            carried: the carried values of the first iteration.
        """

    def unroll_iterations(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Go through a loop of known length; what follows from an iteration's number is known."""
        for number in range(n_iterations):
            with self.allocations.enter_part():
                carried = body(carried, np.asarray(number))
        return carried

    @abstractmethod
    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates while a condition holds; return the carried values.

        Args:
            condition: takes the carried values; returns whether another iteration follows.
            body: takes the carried values; returns those of the next iteration.
            carried: the carried values of the first iteration.
        """

    @abstractmethod
    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result."""

    @abstractmethod
    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""

    def find_site(self, operation: Any) -> str:
        """Return the ``file:line`` of an operation; an empty text where the user made none."""
        made, site = self._sites.get(id(operation), (None, ""))
        return site if made is not None and made() is operation else ""

    def record_site(self, operation: Any, site: str) -> None:
        """Take note of where the user made an operation or measurement, if that is known."""
        if site:
            self._sites[id(operation)] = weakref.ref(operation), site

    @contextmanager
    def error_location(self, operation: Any) -> Iterator[None]:
        """Name the line of an operation or measurement in errors inside of the ``with`` block."""
        try:
            yield
        except Exception as error:
            note = f"raised at {self.find_site(operation)}"
            if self.find_site(operation) and note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise

    def check_wires(self, wires: Any, process: Any) -> None:
        """Let the running program check the computed wires of a measurement process."""
        check = Identity(wires=wires)
        # With this text the runtime's error speaks of a measurement instead of an Identity.
        site = self.find_site(process) or self.find_site(process.obs)
        self.record_site(check, f"measurement at {site}")
        self.apply([check])

    # What users' functions ask of the current circuit, in decompositions that are played.

    def is_collecting(self) -> bool:
        """Return false: it has no queue."""
        return False

    def flush_queue(self, construct: str) -> NoReturn:
        """Raise an error for a construct of the user's, whose gates are no part of the jaxpr.

        Args:
            construct: the function that the user called, for errors.

        Raises:
            CompileError: always.
        """
        raise foreign_queue_error(self.where, construct)

    def get_control_flow_target(self) -> GateRecorder:
        """Return an object that puts control flow on PennyLane's queue of operations."""
        return ControlFlowQueue(self)

    def as_operation(self, play: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Return what ``as_operation`` does."""
        return as_operation(self, play)
