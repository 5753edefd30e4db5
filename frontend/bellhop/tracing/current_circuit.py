"""The protocols of the circuit that is being traced, as user-facing functions call it.

``bellhop.for_loop``, ``measure``, ``adjoint`` and their like look up the current circuit
(``tracing/state.py``) and let it record the construct.  ``circuits`` defines the classes: this
package is below ``circuits`` and must not import from it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from bellhop.base.types import Operand, Wire


class Branches(NamedTuple):
    """A conditional, of which one branch runs.

    Attributes:
        construct: what the user called, such as ``cond``; for errors.
        index: the number of the branch that runs.
        names: the names of the branches, for errors.
        functions: the branches; each returns its result.
    """

    construct: str
    index: Any
    names: Sequence[str]
    functions: Sequence[Callable[..., Any]]

    def map_functions(
        self, change: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> "Branches":
        """Return the conditional of the changed branches."""
        return self._replace(functions=list(map(change, self.functions)))


class GateRecorder(Protocol):
    """Records control flow whose bodies apply gates."""

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: Any, /
    ) -> Any:
        """Record a loop and return the carried values after it.

        Args:
            n_iterations: the number of iterations: an ``int``, or a tracer.
            body: takes the carried values and the index of the iteration; returns the carried
                values of the next iteration.
            carried: pytree of the carried values of the first iteration.
        """

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any, /) -> Any:
        """Record a loop and return the carried values after it.

        Args:
            condition: takes the carried values; returns whether another iteration follows.
            body: takes the carried values; returns the carried values of the next iteration.
            carried: pytree of the carried values of the first iteration.
        """

    def branch(self, branches: Branches, /) -> Any:
        """Record a conditional and return its result."""


class CurrentCircuit(Protocol):
    """A circuit while functions are called that may apply gates."""

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""

    @property
    def has_users_callbacks(self) -> bool:
        """Whether callbacks that are called now are the user's.

        If they are, they must apply no gates.
        """

    @property
    def has_operation_outcomes(self) -> bool:
        """Whether outcomes of mid-circuit measurements are PennyLane's own ``MeasurementValue``.

        And no tracers.
        """

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the circuit, as far as they are known."""

    def is_collecting(self) -> bool:
        """Return whether this circuit's queue gets the operations that are made now."""

    def flush_queue(self, construct: str, /) -> "RecordingCircuit":
        """Apply the operations that are queued so far, before a construct such as a loop.

        Args:
            construct: the function that the user called, such as ``for_loop``; for errors.

        Returns:
            the circuit that records the construct.

        Raises:
            CompileError: if something else collects the operations that are made now.
        """

    def get_control_flow_target(self) -> GateRecorder:
        """Return the object that records loops and conditionals that apply gates."""

    def as_operation(self, record: Callable[[Any], Any], /) -> tuple[Any, Any]:
        """Trace control flow into one PennyLane operation.

        Args:
            record: takes a ``RecordingCircuit``, applies the control flow to it and returns values.

        Returns:
            the operation, and the values.
        """

    def mid_measure(self, label: Wire, /, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire before the circuit's end.

        Args:
            label: the wire label, or a tracer.
            reset: whether the wire is brought to zero afterwards.
            postselect: the outcome that is kept; -1 if both are.
            site: ``file:line`` of the user's call, for errors.

        Returns:
            the outcome.
        """


class RecordingCircuit(CurrentCircuit, GateRecorder, Protocol):
    """A circuit that records gates and constructs when the user's function makes them."""

    def apply(self, operations: Sequence[Any], /) -> None:
        """Record PennyLane operations, in order."""

    def append_region(self, gates: Any, controls: tuple[Any, Any] | None, /) -> None:
        """Record the adjoint of a function, or the function with controls.

        Args:
            gates: the function, a ``GateJaxpr``.
            controls: the control wires and their values; None for the adjoint.
        """

    def mid_measure(
        self, label: Wire, /, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire before the circuit's end, and return the outcome.

        Args:
            label: the wire label, or a tracer.
            reset: whether the wire is brought to zero afterwards.
            postselect: the outcome that is kept; -1 if both are.
            site: ``file:line`` of the user's call, for errors.
            is_joint: whether gates around it make it a measurement of several wires.
        """
