"""What all circuits share while their quantum functions are traced: PennyLane's queue.

Operations are queued by PennyLane, and flushed before anything other than an operation: control
flow, a mid-circuit measurement, or the end of the circuit.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state
from pennylane import Identity
from pennylane.operation import Operator
from pennylane.queuing import AnnotatedQueue, QueuingManager, process_queue
from pennylane.tape import QuantumScript

from bellhop.base.source import site_of_error, user_site
from bellhop.circuits.gates.broadcasting import Rows
from bellhop.circuits.gates.rewrites import Rewrite
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.precision import Precision
from bellhop.circuits.recording.allocation import is_allocation
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope


def hand_on(result: Any) -> None:
    """Note that the measurements in a result, as far as they were made here, are not lost."""
    for process in _measurements(result):
        QueuingManager.update_info(process, is_returned=True)


def measure_instead(before: Any, after: Any) -> None:
    """Let the measurements in a result stand in the queue in the place of others."""
    processes = {id(process): process for process in _measurements(after)}
    for process in _measurements(before):
        if id(process) not in processes:
            QueuingManager.update_info(process, is_returned=True)
    for process in processes.values():
        if QueuingManager.recording() and process not in QueuingManager.active_context():
            QueuingManager.append(process)


def _measurements(result: Any) -> list[Any]:
    return list(filter(is_measurement, jax.tree.leaves(result, is_leaf=is_measurement)))


class _Queue(AnnotatedQueue):
    """The queue of a circuit, or of a body or branch in it: it takes operations of one trace only.

    A JAX transformation inside the quantum function traces its body apart, so that a gate in
    it would be applied once, whatever the transformation does with the body.
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
        if is_measurement(obj) or any(map(is_dynamic, getattr(obj, "wires", ()))):
            # Only these fail later, and to look for the line takes time.
            self.sites[id(obj)] = user_site()
        super().append(obj, **kwargs)


class QueuedCircuit:
    """A circuit whose operations come out of PennyLane's queue.

    Args:
        where: the QNode, for errors.
        rows: the batches of parameters.
        precision: what counts the numbers of the circuit that this one is a part of, if it is.

    Attributes:
        is_one_shot: whether it is run for each shot.
        needs_measurements: whether what is measured must be returned.
    """

    is_one_shot = False
    needs_measurements: ClassVar[bool] = True

    def __init__(self, where: str, rows: Rows, precision: Precision | None = None) -> None:
        self.where = self._where = where
        self.rows = rows
        self.precision = Precision() if precision is None else precision
        self._queue: _Queue | None = None
        self._sites: dict[int, str] = {}
        self._flushed: list[Any] = []
        # What changes the operations before they are applied, in order.
        self.rewrites: list[Rewrite] = []

    def apply(self, operations: list[Any]) -> None:
        """Apply operations to the state, in order."""
        raise NotImplementedError

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires; as any operation, where the device does."""
        self.apply([op])

    def site_of(self, operation: Any) -> str:
        """Return ``file:line`` of an operation on wires that the program computes, or nothing."""
        sites = self._sites if self._queue is None else self._queue.sites
        return sites.get(id(operation), "")

    def check_wires(self, wires: Any, process: Any) -> None:
        """Check the wires of a measurement process, which the program computes, when it runs."""
        check = Identity(wires=wires)
        # The runtime then speaks of a measurement.
        site = self.site_of(process) or self.site_of(process.obs)
        self._sites[id(check)] = f"measurement at {site}"
        self.apply([check])

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        raise NotImplementedError

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Collect the operations that run inside, and flush them at the end."""
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
        # Operators are pytrees too.
        leaves, tree = jax.tree.flatten(
            result, is_leaf=lambda value: is_measurement(value) or isinstance(value, Operator)
        )
        self._check_result(leaves)
        leaves = [self._on_own_wires(leaf) if is_measurement(leaf) else leaf for leaf in leaves]
        self._take_observables(filter(is_measurement, leaves))
        return leaves, tree

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        """Note the QNode at exceptions of PennyLane's and the user's, which do not name it."""
        try:
            yield
        except Exception as error:
            note = f"raised in {self._where}, at {site_of_error(error)}"
            if self._where not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
                error.add_note(note)
            raise

    def _on_own_wires(self, process: Any) -> Any:
        """Return a measurement process on wires that were not allocated."""
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

    def _flush(self, queue: AnnotatedQueue) -> list[Any]:
        operations, *_ = process_queue(queue)
        if any(isinstance(op, QuantumScript) for op in operations):
            raise CompileError(
                f"{self._where}: a QuantumTape stands in the quantum function, and is no "
                "operation. Make it under qml.QueuingManager.stop_recording(), and call "
                "qml.apply of each of its operations."
            )
        self._check_numbers(operations)
        # As they were written: decompositions make parameters of constants.
        self.precision.take([op.data for op in operations])
        rewritten = operations
        for rewrite in self.rewrites:
            rewritten = rewrite(rewritten)
        for are_allocations, group in itertools.groupby(rewritten, is_allocation):
            if are_allocations:
                for op in group:
                    self.allocate(op)
            else:
                self.apply(list(group))
        for op in operations:
            queue.remove(op)
        return operations

    def _check_numbers(self, operations: Sequence[Any]) -> None:
        """Refuse parameters that are no numbers."""
        for op in operations:
            for value in op.data:
                if value is None or isinstance(value, str):
                    raise CompileError(
                        f"{self._where}: a parameter of {op.name} is {value}, which is no number. "
                        "Give a number, or an array of numbers."
                    )

    def _check_all_returned(self, queue: _Queue) -> None:
        """Refuse a measurement whose value nobody gets."""
        for obj, info in queue.items():
            if is_measurement(obj) and "is_returned" not in info:
                raise CompileError(
                    f"{self._where}: {obj} ({queue.sites[id(obj)]}) is measured and not returned "
                    "by the quantum function, so its value would be lost. Return it, or take it "
                    "out."
                )

    def is_collecting(self) -> bool:
        """Tell whether operations that are made now come to this circuit."""
        return self._queue is not None and QueuingManager.active_context() is self._queue

    def flush_active(self, construct: str) -> None:
        """Apply what was queued so far, since a construct with gates of its own follows."""
        queue = QueuingManager.active_context()
        if queue is not self._queue:
            raise CompileError(
                f"{self._where}: a {construct} stands where gates are collected by something else "
                "than the circuit (qml.adjoint, qml.ctrl or a tape), which is not supported yet "
                f"by bellhop. Put these into the body of the {construct}."
            )
        self._flushed += self._flush(queue)

    def evaluate_condition(self, condition: Callable[..., Any], carried: Any) -> Any:
        """Return whether a while loop goes on; its condition may not apply gates."""
        with AnnotatedQueue() as queue:
            holds = condition(carried)
        if queue.queue:
            raise CompileError(
                f"{self._where}: the condition of a while_loop applies gates. Apply them in "
                "the body."
            )
        return jnp.asarray(holds)

    def _take_observables(self, processes: Iterable[Any]) -> None:
        """Count the numbers in observables; refuse those that control flow took for gates."""
        for process in processes:
            if process.obs is not None:
                self._check_observable(process.obs)
                self.precision.take(process.obs.data)

    def _check_observable(self, observable: Any) -> None:
        if any(observable is op for op in self._flushed):
            raise CompileError(
                f"{self._where}: the observable {observable} was made before a loop or a "
                "conditional, where it is a gate. Make it where it is measured, or outside the "
                "QNode."
            )
        for part in getattr(observable, "operands", ()):
            self._check_observable(part)
