"""What all circuits share while their quantum functions are traced: PennyLane's queue.

PennyLane queues operations when they are made.  The queue is flushed before anything that is no
operation: control flow, a mid-circuit measurement, and the end of the circuit.  For ::

    qml.RX(x, 0)                                          queued
    qml.RY(y, 1)                                          queued
    bellhop.for_loop(0, 3)(lambda i: qml.RZ(z, 0))()      apply([RX, RY]), then for_loop(3, ...)
    return qml.expval(qml.Z(0))

the circuit's methods ``apply`` and ``for_loop`` are called as it says on the right.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, get_opaque_trace_state
from pennylane import BasisState, Identity
from pennylane.operation import Operator
from pennylane.queuing import AnnotatedQueue, QueuingManager, process_queue
from pennylane.tape import QuantumScript

from bellhop.base.source import site_of_error, user_site
from bellhop.circuits.gates.broadcasting import TracedRow
from bellhop.circuits.gates.rewrites import Rewrite
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.precision import Precision
from bellhop.circuits.recording.allocation import is_allocation
from bellhop.circuits.recording.returned_measurements import hand_on
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope


class _Queue(AnnotatedQueue):
    """The queue of a circuit, of a loop's body or of a branch; it refuses gates of other traces.

    A JAX transformation inside the quantum function traces its body separately.  A gate in such a
    body would be applied once, although ``jax.lax.scan`` runs the body many times.
    """

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where
        self._trace = get_opaque_trace_state(convention="bellhop")
        self.sites: dict[int, str] = {}

    def append(self, obj: Any, **kwargs: Any) -> None:
        """Take an operation or measurement."""
        if get_opaque_trace_state(convention="bellhop") != self._trace:
            raise CompileError(
                f"{self._where}: {getattr(obj, 'name', type(obj).__name__)} stands inside a JAX "
                "transformation (jax.lax.scan, jax.jit, jax.vmap, ...) within the quantum "
                "function, which cannot hold gates. Use bellhop.for_loop, while_loop or cond, or "
                "call the QNode inside the transformation instead."
            )
        may_fail = is_measurement(obj) or isinstance(obj, BasisState)
        if may_fail or any(map(is_dynamic, getattr(obj, "wires", ()))):
            # Only these may raise an error later which names their line; finding it takes time.
            self.sites[id(obj)] = user_site()
        super().append(obj, **kwargs)


class QueuedCircuit:
    """A circuit whose operations come out of PennyLane's queue.

    Args:
        where: the QNode and its line, for errors.
        rows: the row of the batches of parameters.
        precision: finds the precision of the results, by the numbers in the circuit; that of the
            circuit which this one is a part of, if it is a part.

    Attributes:
        is_one_shot: whether it is meant to be run for each shot.
        runs_alone: whether the runtime runs it for each shot.
        needs_measurements: whether a measurement that is not returned is an error.
        outcomes_are_operations: whether outcomes of measurements are PennyLane's own objects.
    """

    is_one_shot = runs_alone = False
    outcomes_are_operations: bool = False
    needs_measurements: bool = True

    def __init__(self, where: str, rows: TracedRow, precision: Precision | None = None) -> None:
        self.where = self._where = where
        self.rows = rows
        self.precision = Precision() if precision is None else precision
        self._queue: _Queue | None = None
        self._sites: dict[int, str] = {}
        # With the operations, lest another one gets the number of one that is gone.
        self._placed: dict[int, tuple[Any, str]] = {}
        self._flushed: list[Any] = []
        # Functions that change the operations before they are applied, in this order.
        self.rewrites: list[Rewrite] = []

    def labels(self) -> Sequence[Any]:
        """Return the wires of the circuit, as far as they are known."""
        return ()

    def apply(self, operations: list[Any]) -> None:
        """Apply operations to the state, in order."""
        raise NotImplementedError

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires; here like any operation, for devices that can."""
        self.apply([op])

    def site_of(self, operation: Any) -> str:
        """Return the ``file:line`` of an operation that may fail; of others, an empty text."""
        sites = self._sites if self._queue is None else self._queue.sites
        _, placed = self._placed.get(id(operation), (None, ""))
        return sites.get(id(operation), placed)

    def place(self, operation: Any, site: str) -> None:
        """Take note of where the user made an operation or measurement, if that is known."""
        if site:
            self._placed[id(operation)] = operation, site

    def check_wires(self, wires: Any, process: Any) -> None:
        """Let the running program check the computed wires of a measurement process."""
        check = Identity(wires=wires)
        # With this text the runtime's error speaks of a measurement instead of an Identity.
        site = self.site_of(process) or self.site_of(process.obs)
        self._sites[id(check)] = f"measurement at {site}"
        self.apply([check])

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        raise NotImplementedError

    def expect(self, jaxpr: Jaxpr) -> None:
        """Take note of the jaxpr with gates that is going to be played."""

    def joint_measure(self, site: str) -> None:
        """Take note of a joint measurement of wires, before the gates that it is made of."""

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Queue the operations that are made inside of the ``with`` block, and apply them."""
        outer = self._queue
        try:
            with _Queue(self._where) as queue:
                self._queue = queue
                yield
                self._flush(queue)
                if self.needs_measurements:
                    self._check_all_returned(queue)
                self._sites = queue.sites
        finally:
            self._queue = outer

    def traced(self, function: Callable[..., Any], *args: Any) -> tuple[list[Any], Any]:
        """Run a quantum function; return the leaves and the structure of its result."""
        with circuit_scope(self), self.queue():
            with self._named_in_errors():
                result = function(*args)
            hand_on(result)
        # PennyLane registers its operators as pytrees, so they must be leaves explicitly.
        leaves, tree = jax.tree.flatten(
            result, is_leaf=lambda value: is_measurement(value) or isinstance(value, Operator)
        )
        self._check_result(leaves)
        self.check_observables(filter(is_measurement, leaves))
        leaves = [self._on_own_wires(leaf) if is_measurement(leaf) else leaf for leaf in leaves]
        self._take_observables(filter(is_measurement, leaves))
        return leaves, tree

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        """Add a note that names the QNode to exceptions which do not."""
        try:
            yield
        except Exception as error:
            note = f"raised in {self._where}, at {site_of_error(error)}"
            if self._where not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
                error.add_note(note)
            raise

    def _on_own_wires(self, process: Any) -> Any:
        """Return a measurement process with the device's wires for allocated ones."""
        return process

    def _check_result(self, leaves: Sequence[Any]) -> None:
        """Refuse a result that is neither measurements nor numbers."""
        if not leaves:
            raise CompileError(
                f"{self._where}: a quantum function must return something: measurements (a pytree "
                "of qml.expval, qml.probs, ...), numbers or arrays."
            )
        numbers = jax.Array | bool | int | float | complex
        for leaf in leaves:
            is_number = isinstance(leaf, numbers) or hasattr(leaf, "__array__")
            if not is_measurement(leaf) and not is_number:
                raise CompileError(
                    f"{self._where}: a quantum function returns measurements and numbers; it "
                    f"returned a {type(leaf).__name__}."
                    f"{' Measure it: qml.expval(...).' if isinstance(leaf, Operator) else ''}"
                )

    def _check_measured_last(self, queue: _Queue) -> None:
        """Raise an error for a measurement that gates follow."""
        measured = None
        for obj, info in queue.items():
            if "owner" in info:
                continue
            if is_measurement(obj):
                measured = measured or obj
            elif measured is not None and isinstance(obj, Operator):
                raise CompileError(
                    f"{self._where}: {measured} ({queue.sites[id(measured)]}) is measured, and "
                    f"{obj.name} follows. Measure after all gates and return that, or use "
                    "bellhop.measure for an outcome in the middle."
                )

    def _flush(self, queue: _Queue) -> list[Any]:
        self._check_measured_last(queue)
        operations, *_ = process_queue(queue)
        if any(isinstance(op, QuantumScript) for op in operations):
            raise CompileError(
                f"{self._where}: a QuantumTape stands in the quantum function, and is no "
                "operation. Make it under qml.QueuingManager.stop_recording(), and call "
                "qml.apply of each of its operations."
            )
        self._check_numbers(operations)
        self.take(operations)
        for op in operations:
            queue.remove(op)
        return operations

    def take(self, operations: list[Any]) -> None:
        """Apply operations as the user wrote them."""
        for rewrite in self.rewrites:
            operations = rewrite(operations)
        for are_allocations, group in itertools.groupby(operations, is_allocation):
            if are_allocations:
                for op in group:
                    self.allocate(op)
            else:
                self.apply(list(group))

    def take_nest(self, n_iterations: int, body: Callable[..., Any]) -> bool:
        """Apply the gates of a loop of loops as a straight run; tell whether that was possible."""
        return False

    def _check_numbers(self, operations: Sequence[Any]) -> None:
        """Raise an error for parameters that are not numbers."""
        for op in operations:
            for value in op.data:
                if value is None or isinstance(value, str):
                    raise CompileError(
                        f"{self._where}: a parameter of {op.name} is {value}, which is no number. "
                        "Give a number, or an array of numbers."
                    )

    def _check_all_returned(self, queue: _Queue) -> None:
        """Raise an error for a measurement that is not returned."""
        for obj, info in queue.items():
            if is_measurement(obj) and "is_returned" not in info:
                raise CompileError(
                    f"{self._where}: {obj} ({queue.sites[id(obj)]}) is measured and not returned "
                    "by the quantum function, so its value would be lost. Return it, or take it "
                    "out."
                )

    def is_collecting(self) -> bool:
        """Tell whether this circuit's queue gets the operations that are made now."""
        return self._queue is not None and QueuingManager.active_context() is self._queue

    def flush_active(self, construct: str) -> None:
        """Apply the operations that are queued so far, before a construct such as a loop."""
        queue = QueuingManager.active_context()
        if self._queue is None or queue is not self._queue:
            raise CompileError(
                f"{self._where}: a {construct} stands where gates are collected by something else "
                "than the circuit (qml.adjoint, qml.ctrl or a tape), which is not supported yet "
                f"by bellhop. Put these into the body of the {construct}."
            )
        self._flushed += self._flush(self._queue)

    def evaluate_condition(self, condition: Callable[..., Any], carried: Any) -> Any:
        """Return whether a ``while`` loop goes on; raise an error if its condition has gates."""
        with AnnotatedQueue() as queue:
            holds = condition(carried)
        if queue.queue:
            raise CompileError(
                f"{self._where}: the condition of a while_loop applies gates. Apply them in "
                "the body."
            )
        return jnp.asarray(holds)

    def _take_observables(self, processes: Iterable[Any]) -> None:
        """Take observables into account for the precision of results."""
        for process in processes:
            if process.obs is not None:
                self.precision.take(process.obs.data)

    def check_observables(self, processes: Iterable[Any]) -> None:
        """Raise an error for an observable that was applied as a gate.

        One that was made before a loop or a conditional was, there.
        """
        for process in processes:
            if process.obs is not None:
                self._check_observable(process.obs)

    def _check_observable(self, observable: Any) -> None:
        if any(observable is op for op in self._flushed):
            raise CompileError(
                f"{self._where}: the observable {observable} was made before a loop or a "
                "conditional, where it is a gate. Make it where it is measured, or outside the "
                "QNode."
            )
        for part in getattr(observable, "operands", ()):
            self._check_observable(part)
