"""The protocols of the circuit that is being traced, as user-facing functions call it.

``bellhop.for_loop``, ``measure``, ``adjoint`` and their like look up the current circuit
(``tracing/state.py``) and let it record the construct.  ``circuits`` defines the classes: this
package is below ``circuits`` and must not import from it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from bellhop.base.source import set_function_name
from bellhop.base.types import Operand, Wire


class Branches(NamedTuple):
    """A conditional: its branch functions, and the index of the branch that runs.

    ``bellhop.cond`` and ``bellhop.switch`` make it, and pass it to ``GateRecorder.branch``.

    Attributes:
        construct: the function that the user called, such as ``cond``; for errors.
        index: index of the branch that runs: an ``int``, or a traced integer scalar.
        names: descriptions of the branches, for errors.
        functions: the branches: functions that take no arguments, or all the same arguments; each
            returns its result.
    """

    construct: str
    index: Any
    names: Sequence[str]
    functions: Sequence[Callable[..., Any]]

    def map_functions(
        self, change: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> "Branches":
        """Return a copy of the conditional in which each branch is replaced.

        Each new branch is named after the old branch, for JAX's errors.

        Args:
            change: takes a branch, a function, and returns the new branch.
        """
        changed = [set_function_name(branch, change(branch)) for branch in self.functions]
        return self._replace(functions=changed)


class GateRecorder(Protocol):
    """Records loops and conditionals whose bodies apply gates.

    Circuits implement it, and also objects that put control flow on PennyLane's queue.
    """

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: Any, /
    ) -> Any:
        """Record a loop with gates and return the carried values after it.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer.
            body: takes the carried values and the index of the iteration; applies gates, and
                returns the carried values of the next iteration.
            carried: pytree of the carried values of the first iteration.
        """

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any, /) -> Any:
        """Record a ``while`` loop with gates and return the carried values after it.

        Args:
            condition: takes the carried values; returns whether another iteration follows.
            body: takes the carried values; applies gates, and returns the carried values of the
                next iteration.
            carried: pytree of the carried values of the first iteration.
        """

    def branch(self, branches: Branches, /) -> Any:
        """Record a conditional, whose branches may apply gates, and return its result.

        Args:
            branches: the branch functions, and the index of the branch that runs.
        """


class CurrentCircuit(Protocol):
    """The circuit of the QNode that is being traced; receives gates and measurements.

    `current_circuit` returns it. ``bellhop.measure``, ``for_loop``, ``adjoint`` and other functions
    pass their gates and measurements to it.
    """

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""

    @property
    def has_users_callbacks(self) -> bool:
        """Whether callbacks that are called now are the user's, which must apply no gates.

        False while PennyLane's transforms are applied to a tape.
        """

    @property
    def has_operation_outcomes(self) -> bool:
        """Whether mid-circuit measurements return PennyLane's ``MeasurementValue``, not tracers."""

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the circuit that are known while it is traced, in order."""

    def is_collecting(self) -> bool:
        """Return whether this circuit's queue is PennyLane's active queue.

        Then it receives operations that are created now.
        """

    def flush_queue(self, construct: str, /) -> "RecordingCircuit":
        """Append the queued operations to the circuit; return the circuit for recording.

        Called before a construct such as a loop is recorded, to keep the order of the operations.

        Args:
            construct: the function that the user called, such as ``for_loop``; for errors.

        Returns:
            the circuit that records the construct.

        Raises:
            CompileError: if another PennyLane queue is active, as inside of ``qml.adjoint`` or a
                tape.
        """

    def get_control_flow_target(self) -> GateRecorder:
        """Return the object that records loops and conditionals that apply gates.

        It is the circuit itself, or, if another PennyLane queue is active, an object that puts the
        control flow on that queue.
        """

    def as_operation(self, record: Callable[[Any], Any], /) -> tuple[Any, Any]:
        """Trace loops and conditionals with gates into one PennyLane operation.

        The caller queues the operation or puts it into a tape; the gates are applied when the
        circuit applies the operation.

        Args:
            record: takes a ``RecordingCircuit``, applies the loops and conditionals to it, and
                returns a pytree of their classical results.

        Returns:
            the operation, and the pytree, which is computed immediately, without the gates.
        """

    def mid_measure(self, label: Wire, /, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire of the circuit before its end.

        Args:
            label: the wire label, or a traced wire index.
            reset: whether to reset the wire to zero afterwards.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site: ``file:line`` of the user's call, for errors.

        Returns:
            the outcome: a boolean tracer, or PennyLane's ``MeasurementValue``.
        """


class RecordingCircuit(CurrentCircuit, GateRecorder, Protocol):
    """A circuit that records gates, and constructs such as loops, in program order.

    ``CurrentCircuit.flush_queue`` returns it.
    """

    def apply(self, operations: Sequence[Any], /) -> None:
        """Record PennyLane operations, in order."""

    def append_adjoint_or_ctrl(self, gates: Any, controls: tuple[Any, Any] | None, /) -> None:
        """Record the adjoint or the controlled form of a quantum function.

        Args:
            gates: the traced quantum function, a ``GateJaxpr``.
            controls: for the controlled form, the control wires and their control values; None for
                the adjoint.
        """

    def mid_measure(
        self, label: Wire, /, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire before the circuit's end, as ``CurrentCircuit.mid_measure``.

        If `is_joint`, gates before it make the outcome the parity of several wires, and `label` is
        one of the wires.
        """
