"""Trace a function with gates: from PennyLane's queue of operations to a jaxpr with gates.

PennyLane queues operations when they are created.  `TracingCircuit` turns the queue into equations
before everything that is not an operation: control flow, mid-circuit measurements, and the end of
the circuit.  For example, ::

    qml.RX(x, 0)                                          queued
    qml.RY(y, 1)                                          queued
    bellhop.for_loop(0, 3)(lambda i: qml.RZ(z, 0))()      an equation of RX and RY, then the loop's
    return qml.expval(qml.Z(0))

gives the equations on the right.  Only this circuit has a queue: all other circuits are
interpreters of the jaxpr.
"""

import itertools
import numbers
import reprlib
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state
from pennylane.operation import Operator
from pennylane.ops import MeasurementValue
from pennylane.queuing import AnnotatedQueue, QueuingManager, process_queue
from pennylane.tape import QuantumScript

from bellhop.base.source import user_site
from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.half_precision import promote_half_precision
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.gates.traced_operators import TracedOperator
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    GateJaxpr,
)
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.passes.regions.inverse import evaluate_gates
from bellhop.circuits.passes.regions.region_errors import allocation_error, measurement_error
from bellhop.circuits.passes.used_wires import UsedWires
from bellhop.control_flow.trace_body import trace_branches, trace_step
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches, CurrentCircuit, GateRecorder
from bellhop.tracing.state import circuit_scope


class _OperationQueue(AnnotatedQueue):
    """PennyLane's queue of the operations in a circuit, a loop's body or a branch.

    A gate or measurement inside of a JAX transformation raises an error: JAX traces the
    transformation's body separately, so a gate in the body of ``jax.lax.scan`` would be applied
    once instead of once per iteration.

    Args:
        where: the QNode's name and line, which begin error messages.
        flushed: the operations that already became an equation, by the ``id`` of the object.

    Attributes:
        sites: the user's ``file:line`` of each queued object, by the ``id`` of the object.
    """

    def __init__(self, where: str, flushed: Mapping[int, Operator]) -> None:
        super().__init__()
        self._where = where
        self._flushed = flushed
        self._trace = get_opaque_trace_state(convention="bellhop")
        self.sites: dict[int, str] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        """Raise an error, because only PennyLane's debugger copies an active queue.

        The debugger would run the copy on PennyLane's device while the circuit is traced.

        Raises:
            CompileError: always.
        """
        raise CompileError(
            f"{self._where}: qml.debug_state, debug_expval and debug_probs run the "
            "gates so far on PennyLane's device, and a program runs its gates later. Use "
            "qml.Snapshot and qml.snapshots, or call the QNode without qjit."
        )

    def append(self, obj: Any, **kwargs: Any) -> None:
        """Append an operation or measurement process, and record the user's line.

        Raises:
            CompileError: inside of a JAX transformation in the quantum function, such as
                ``jax.lax.scan``. A ``jax.numpy`` function of a measurement is one too.
        """
        if get_opaque_trace_state(convention="bellhop") != self._trace:
            if is_measurement(obj):
                raise CompileError(
                    f"{self._where}: the measurement {type(obj).__name__} is passed to a JAX "
                    "function (jnp.sum, jax.jit, ...) or created in it, and JAX functions take "
                    "arrays only. Return the measurement, and compute with the QNode's result "
                    "outside of the QNode."
                )
            raise CompileError(
                f"{self._where}: {getattr(obj, 'name', type(obj).__name__)} is applied inside a "
                "JAX transformation (jax.lax.scan, jax.jit, jax.vmap, ...) in the quantum "
                "function; JAX transformations do not support gates. Use bellhop.for_loop, "
                "while_loop or cond, or call the QNode inside the transformation instead."
            )
        self.sites[id(obj)] = user_site()
        super().append(obj, **kwargs)

    def remove(self, obj: Any) -> None:
        """Remove an operation that is measured or becomes a component of another operator.

        Raises:
            CompileError: if it was already applied as a gate, before a loop, a conditional, a
                mid-circuit measurement, or an adjoint or controlled function.
        """
        if id(obj) in self._flushed:
            raise CompileError(
                f"{self._where}: {obj} is used in a measurement or in another operator, but is "
                "already applied as a gate: a loop, a conditional, a measure, or an adjoint or "
                f"controlled function follows its creation. Create {obj} where it is used, or "
                "outside the QNode."
            )
        super().remove(obj)

    def remove_applied(self, operations: Sequence[Operator]) -> None:
        """Remove operations from the queue, without an error, after their equation was appended."""
        for op in operations:
            super().remove(op)


class TracingCircuit:
    """The circuit that records a function with gates while it is traced into a jaxpr.

    As the current circuit, it is called by ``bellhop.for_loop``, ``measure``, ``adjoint`` and
    ``ctrl``. PennyLane queues operations, which become an equation when the queue is flushed.

    Args:
        where: the QNode's name and line, which begin error messages.
        circuit: the circuit in which the function is called; None if there is none yet.
        is_whole: whether the function is a QNode's quantum function, which may measure mid-circuit
            and allocate wires; False for the argument of ``adjoint`` or ``ctrl``.
        is_inverted: whether the function is traced for an adjoint or for `as_operation`, in which
            final measurements need not be returned.
    """

    has_users_callbacks = True
    has_operation_outcomes = False

    def __init__(
        self,
        where: str,
        circuit: CurrentCircuit | None,
        *,
        is_whole: bool = False,
        is_inverted: bool = False,
    ) -> None:
        self.where = where
        self._circuit = circuit
        self._is_whole = is_whole
        # PennyLane's adjoint ignores measurements in the function.
        self._needs_measurements = not is_inverted
        self._queue: _OperationQueue | None = None
        self._sites: dict[int, str] = {}
        # Operations with an equation, by the ``id`` of the object. The innermost map is dropped at
        # the end of a loop body or branch.
        self._flushed: ChainMap[int, Operator] = ChainMap()

    def labels(self) -> Sequence[Any]:
        """Return the wire labels of the enclosing circuit, or ``()`` if there is none yet."""
        return () if self._circuit is None else self._circuit.labels()

    def trace_gates(self, function: Callable[..., Any], *args: Any) -> GateJaxpr:
        """Trace a function to a jaxpr with gates, with this circuit as the current one.

        No gate is added to the enclosing circuit.

        Args:
            function: a Python function that applies gates and returns a pytree of arrays.
            *args: its arguments, pytrees of arrays.
        """

        def run(*args: Any) -> Any:
            with circuit_scope(self), self.open_queue():
                return function(*args)

        return GateJaxpr.trace(run, *args)

    @contextmanager
    def open_queue(self) -> Iterator[None]:
        """Queue the operations created in the ``with`` block; append their equation at its end.

        Raises:
            CompileError: for an invalid queue, such as a measurement that is not returned.
        """
        outer, flushed = self._queue, self._flushed
        self._flushed = flushed.new_child()
        try:
            with _OperationQueue(self.where, self._flushed) as queue:
                self._queue = queue
                yield
                self._apply_queued(queue)
                if self._needs_measurements:
                    self._check_all_returned(queue)
                self._sites = queue.sites
        finally:
            self._queue, self._flushed = outer, flushed

    def find_site(self, operation: Any) -> str:
        """Return the ``file:line`` where the user created a queued operation, or ``""``."""
        sites = self._sites if self._queue is None else self._queue.sites
        return sites.get(id(operation), "")

    def is_collecting(self) -> bool:
        """Return whether this circuit's queue is PennyLane's active queue."""
        return self._queue is not None and QueuingManager.active_context() is self._queue

    def flush_queue(self, construct: str) -> "TracingCircuit":
        """Append an equation for the queued operations, and remove them from the queue.

        Called before the equation of a loop, conditional or mid-circuit measurement.

        Args:
            construct: the name of the function that the user called, for errors.

        Returns:
            this circuit, on which the caller records the construct.

        Raises:
            CompileError: if another queue is active, as inside ``qml.adjoint`` or a tape; or if a
                queued operation is invalid, such as a gate after a final measurement.
        """
        if self._queue is None or not self.is_collecting():
            raise foreign_queue_error(self.where, construct)
        operations = self._apply_queued(self._queue)
        self._queue.remove_applied(operations)
        self._flushed.update({id(op): op for op in operations})
        return self

    def apply(self, operations: Sequence[Any]) -> None:
        """Append a ``quantum_operations`` equation; promote half-precision parameters.

        An operation that holds a Python function which refers to tracers is decomposed first, while
        these tracers are valid.
        """
        sites = tuple(map(self.find_site, operations))
        operations = list(map(promote_half_precision, operations))
        operator, operands = TracedOperator.partition(operations)
        if not operator.is_closed:
            parts = [list(TracedOperator.decompose_functions(op, self.where)) for op in operations]
            operator, operands = TracedOperator.partition(list(itertools.chain(*parts)))
            sites = tuple(site for site, each in zip(sites, parts, strict=True) for _ in each)
        allocates = any(map(Allocations.is_allocation, operations))
        GateJaxpr.bind_operations(operator, operands, sites=sites, allocates=allocates)

    def append_adjoint_or_ctrl(self, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        """Append an equation for the adjoint of a function, or for a controlled function.

        Args:
            gates: the function, traced by `trace_gates`.
            controls: the control wires and the control values, two lists; None for the adjoint.
        """
        operator, operands = None, list[Any]()
        if controls is not None:
            operator, operands = TracedOperator.partition(controls)
        gates.bind_region(operator, operands)

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: PyTree
    ) -> Any:
        """Append an equation for a for loop; return the carried values after it.

        Args:
            n_iterations: the trip count, an ``int``, or a tracer if it is dynamic.
            body: ``(carried, index) -> carried``, the user's body, which applies gates.
            carried: pytree of the carried values of the first iteration.
        """
        self.flush_queue("for_loop")
        first, step = trace_step(
            "for_loop", self._wrap_in_own_queue(body), carried, jnp.asarray(0), body=body
        )
        leaves, tree = jax.tree.flatten(first)

        def iteration(number: Any, *leaves: Operand) -> Any:
            return step(jax.tree.unflatten(tree, leaves), number)[0]

        gates = GateJaxpr.trace(iteration, jnp.asarray(0), *leaves)
        return jax.tree.unflatten(tree, ForLoop.bind(gates, leaves, n_iterations))

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: PyTree) -> Any:
        """Append an equation for a while loop; return the carried values after it.

        Args:
            condition: maps the carried values to whether another iteration follows.
            body: maps the carried values to the next carried values.
            carried: the carried values of the first iteration.
        """
        self.flush_queue("while_loop")
        first, step = trace_step("while_loop", self._wrap_in_own_queue(body), carried, body=body)
        return jax.lax.while_loop(
            lambda carried: self._evaluate_condition(condition, carried),
            lambda carried: step(carried)[0],
            first,
        )

    def branch(self, branches: Branches) -> Any:
        """Append an equation for a conditional; return the result of the chosen branch."""
        self.flush_queue(branches.construct)
        runners, _ = trace_branches(branches.map_functions(self._wrap_in_own_queue))
        return jax.lax.switch(branches.index, runners)[0]

    def _wrap_in_own_queue(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a loop's body or a branch so that its operations have a queue of their own.

        Returns:
            a function ``*args -> (function(*args), ())``, as `trace_step` and `trace_branches`
            expect.
        """

        def run(*args: Any) -> Any:
            with self.open_queue():
                return function(*args), ()

        return run

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Record a mid-circuit measurement, and return its outcome.

        An equation is appended to the jaxpr. If the enclosing circuit becomes a tape, its
        ``mid_measure`` is called instead, and the outcome is PennyLane's ``MeasurementValue``.

        Args:
            label: the wire label, static or traced.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site: the user's ``file:line``, for errors.
            is_joint: whether the measurement is a part of a ``pauli_measure``.

        Raises:
            CompileError: inside an adjoint or a controlled function.
        """
        if not self._is_whole:
            raise measurement_error(self.where, site)
        if self._circuit is not None and self._circuit.has_operation_outcomes:
            return self._circuit.mid_measure(label, reset=reset, postselect=postselect, site=site)
        wire, operands = TracedOperator.partition([label])
        options = {"reset": reset, "postselect": postselect, "site": site, "is_joint": is_joint}
        return GateJaxpr.bind_outcome(wire, operands, **options)

    def get_control_flow_target(self) -> GateRecorder:
        """Return the object whose methods record a loop or conditional at this point.

        Returns:
            this circuit while its queue is active. While another PennyLane queue is active, as in
            the function of a ``qml.adjoint`` in a tape, a `ControlFlowQueue` for that queue.
        """
        return self if self.is_collecting() else ControlFlowQueue(self)

    def as_operation(self, record: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Trace loops and conditionals into one operation; compute their results now.

        The gates are applied when the circuit applies the operation.

        Args:
            record: ``TracingCircuit -> results``, applies loops and conditionals to its argument.

        Returns:
            the `ControlFlow` operation, and the results, a pytree of arrays.
        """
        return as_operation(self, record)

    def _apply_queued(self, queue: _OperationQueue) -> list[Any]:
        """Check the queued operations, append an equation for them and return them.

        Raises:
            CompileError: for gates after a final measurement, a tape, an allocation in an adjoint
                or controlled function, or a parameter that is not a number.
        """
        self._check_measured_last(queue)
        operations, *_ = process_queue(queue)
        if any(isinstance(op, QuantumScript) for op in operations):
            raise CompileError(
                f"{self.where}: a QuantumTape in a quantum function is not supported, since a tape "
                "is not an operation. Create the tape under qml.QueuingManager.stop_recording(), "
                "and call qml.apply for each of its operations."
            )
        self._check_numbers(operations)
        allocating = next(filter(Allocations.is_allocation, operations), None)
        if allocating is not None and not self._is_whole:
            raise allocation_error(self.where, allocating)
        if operations:
            self.apply(operations)
        return operations

    def _check_measured_last(self, queue: _OperationQueue) -> None:
        """Raise a ``CompileError`` if a gate follows a final measurement in the queue."""
        measured = None
        for obj, info in queue.items():
            if "owner" in info:
                continue
            if is_measurement(obj):
                measured = measured or obj
            elif measured is not None and isinstance(obj, Operator):
                raise CompileError(
                    f"{self.where}: the gate {obj.name} follows the measurement {measured} "
                    f"({queue.sites[id(measured)]}), expected no gate after it. Measure after all "
                    "gates and return the measurement, or use bellhop.measure for a mid-circuit "
                    "outcome."
                )

    def _check_numbers(self, operations: Sequence[Any]) -> None:
        """Raise a ``CompileError`` if a parameter of an operation is not a number or an array."""
        for op in operations:
            for value in op.data:
                if not _is_numeric(value):
                    site = self.find_site(op)
                    named = f"{op.name} ({site})" if site else op.name
                    raise CompileError(
                        f"{self.where}: a parameter of {named} is {reprlib.repr(value)}, expected "
                        "a number or an array. Pass a number, or an array of numbers."
                    )

    def _check_all_returned(self, queue: _OperationQueue) -> None:
        """Raise a ``CompileError`` if a queued measurement was not marked as returned."""
        for obj, info in queue.items():
            if is_measurement(obj) and "is_returned" not in info:
                raise CompileError(
                    f"{self.where}: {obj} ({queue.sites[id(obj)]}) is measured and not returned "
                    "by the quantum function, so its value would be lost. Return or remove the "
                    "measurement."
                )

    def _evaluate_condition(self, condition: Callable[..., Any], carried: PyTree) -> Any:
        """Evaluate the user's condition of a while loop, and return it as an array.

        Args:
            condition: maps the carried values to whether another iteration follows.
            carried: the carried values.

        Raises:
            CompileError: if the condition queues gates.
        """
        with AnnotatedQueue() as queue:
            holds = condition(carried)
        if queue.queue:
            raise CompileError(
                f"{self.where}: the condition of a while_loop applies gates. Apply the gates in "
                "the body of the loop."
            )
        return jnp.asarray(holds)


def _is_numeric(value: object) -> bool:
    """Return whether an operation accepts a parameter: a number, an array or a sequence of these.

    Outcomes of mid-circuit measurements on a tape are accepted too.
    """
    if hasattr(value, "dtype") or hasattr(value, "__array__"):
        return True
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return all(map(_is_numeric, value))
    return isinstance(value, numbers.Number | MeasurementValue)


def foreign_queue_error(where: str, construct: str) -> CompileError:
    """Return the error for a construct while another PennyLane queue is active."""
    return CompileError(
        f"{where}: {construct} is not supported in a decomposition, in a tape, or where "
        f"qml.adjoint or qml.ctrl collects gates. Call {construct} in the quantum function itself."
    )


def as_operation(
    circuit: CurrentCircuit, record: Callable[[TracingCircuit], Any]
) -> tuple[ControlFlow, Any]:
    """Trace loops and conditionals into one operation; compute their results now.

    Used where operations are collected, as in a tape or a decomposition. The gates are applied
    when the circuit applies the operation.

    Args:
        circuit: the circuit that will apply the operation.
        record: ``TracingCircuit -> results``, applies loops and conditionals to its argument.

    Returns:
        the `ControlFlow` operation, and the results, a pytree of arrays.
    """
    tracing = TracingCircuit(circuit.where, circuit, is_inverted=True)
    gates = tracing.trace_gates(lambda: record(tracing))
    evaluated = evaluate_gates(gates.closed, gates.operands, circuit.where)
    wires = UsedWires(gates.closed).list_wires_or(circuit.labels())
    operation = ControlFlow(gates.closed, gates.operands, evaluated.saved, wires)
    return operation, jax.tree.unflatten(gates.tree, evaluated.results)


class ControlFlowQueue:
    """Puts loops and conditionals on PennyLane's active queue, each as one operation.

    It replaces the current circuit while operations are collected, as in a tape. Carried values and
    results are computed immediately; the circuit applies the gates later. Each method raises a
    ``CompileError`` if no queue is active.

    Args:
        circuit: the circuit that will apply the operations.
    """

    def __init__(self, circuit: CurrentCircuit) -> None:
        self._circuit = circuit

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: PyTree
    ) -> Any:
        """Put a for loop on PennyLane's queue as one operation; return its carried values.

        The arguments are as in `TracingCircuit.for_loop`.
        """
        record = lambda circuit: circuit.for_loop(n_iterations, body, carried)
        return self._defer("for_loop", record)

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: PyTree) -> Any:
        """Put a while loop on PennyLane's queue as one operation; return its carried values."""
        record = lambda circuit: circuit.while_loop(condition, body, carried)
        return self._defer("while_loop", record)

    def branch(self, branches: Branches) -> Any:
        """Put a conditional on PennyLane's queue as one operation; return its result."""
        return self._defer(branches.construct, lambda circuit: circuit.branch(branches))

    def _defer(self, construct: str, record: Callable[[Any], Any]) -> Any:
        """Put a loop or conditional on PennyLane's active queue; return its results.

        Args:
            construct: the function that the user called, such as ``"for_loop"``, for errors.
            record: applies the construct to the `TracingCircuit` that it gets, and returns the
                results.

        Raises:
            CompileError: if no queue is active.
        """
        if not QueuingManager.recording():
            raise foreign_queue_error(self._circuit.where, construct)
        return as_operation(self._circuit, record)[1]
