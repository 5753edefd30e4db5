"""One circuit while its quantum function is traced: queued gates become primitives."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.extend.core import get_opaque_trace_state
from pennylane.queuing import AnnotatedQueue, QueuingManager, process_queue

from bellhop.circuits.device import DeviceSpec, GateSet
from bellhop.circuits.gates import GateList, GateRun
from bellhop.circuits.measurements import EXPVAL, Measurement, MeasurementList
from bellhop.circuits.primitives import NOT_DIFFERENTIABLE, gates_p, measure_p
from bellhop.control_flow import as_carried, index_at, trip_count
from bellhop.errors import CompileError

# All of these mean the derivative of the device, which is the adjoint method.
_ADJOINT_METHODS = ("best", "adjoint", "device")


class _Queue(AnnotatedQueue):
    """The queue of a circuit, or of a loop's body: it takes operations of one trace only.

    A JAX transformation inside the quantum function traces its body apart, so that a gate in
    it would be applied once, whatever the transformation does with the body.
    """

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where
        self._trace = get_opaque_trace_state(convention="bellhop")

    def append(self, obj: Any, **kwargs: Any) -> None:
        """Take an operation or measurement."""
        if get_opaque_trace_state(convention="bellhop") != self._trace:
            raise CompileError(
                f"{self._where}: {getattr(obj, 'name', type(obj).__name__)} stands inside a JAX "
                "transformation (jax.lax.scan, jax.jit, jax.vmap, ...) within the quantum "
                "function, which cannot hold gates. Use bellhop.for_loop, or call the QNode "
                "inside the transformation instead."
            )
        super().append(obj, **kwargs)


class Circuit:
    """The state handle, and the parameters of the gates so far, in order.

    PennyLane queues operations; they are flushed into one ``gates`` primitive wherever
    something else than a gate comes: control flow, or the end of the circuit.
    """

    def __init__(
        self,
        handle: Any,
        device: DeviceSpec,
        gates: GateSet,
        wires: Callable[[Any], int],
        where: str,
    ) -> None:
        self._handle = handle
        self._device = device
        self._gate_set = gates
        self._wires = wires
        self._where = where
        self._offset: Any = jnp.int32(0)
        self._params: list[Any] = []
        self._is_in_dynamic_loop = False
        self._is_fresh = True
        self._queue: _Queue | None = None
        self._flushed: list[Any] = []

    @property
    def handle(self) -> Any:
        """The state after everything that was flushed."""
        return self._handle

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Collect the operations that run inside, and flush them at the end."""
        outer = self._queue
        with _Queue(self._where) as queue:
            self._queue = queue
            yield
            self._flush(queue)
        self._queue = outer

    def _flush(self, queue: AnnotatedQueue) -> list[Any]:
        operations, *_ = process_queue(queue)
        gates = GateList(self._gate_set, self._wires, self._where, is_first=self._is_fresh)
        for op in operations:
            gates.add(op)
            queue.remove(op)
        for run in gates.runs:
            self._bind(run)
        return operations

    def _bind(self, run: GateRun) -> None:
        self._is_fresh = False
        obstacle = self._gates_obstacle(run)
        params = run.params_vector()
        self._handle = gates_p.bind(
            self._handle,
            params,
            jnp.int32(NOT_DIFFERENTIABLE) if obstacle else self._offset,
            jnp.zeros(0, jnp.int32),
            gates=tuple(run.gates),
            obstacle=obstacle,
        )
        if run.n_params and not obstacle:
            self._offset = self._offset + jnp.int32(run.n_params)
            self._params.append(params)

    def _gates_obstacle(self, run: GateRun) -> str:
        """Say why a derivative by the parameters of gates is none; nothing where it is one."""
        if self._is_in_dynamic_loop:
            # How many parameters there are is not known when the program is compiled.
            return (
                "gates in a for_loop whose bounds are computed in the program are "
                "differentiated. Use bounds that are Python numbers."
            )
        if not run.is_differentiable:
            names = ", ".join(dict.fromkeys(gate.name for gate in run.gates if gate.slots))
            return (
                f"the parameters of {names} are differentiated, which the adjoint method cannot "
                "do. Use gates with angles, or differentiate by other arguments."
            )
        return ""

    def _flush_active(self) -> None:
        queue = QueuingManager.active_context()
        if queue is not self._queue:
            raise CompileError(
                f"{self._where}: a for_loop stands where gates are collected by something else "
                "than the circuit (qml.adjoint, qml.ctrl or a tape), which is not supported yet "
                "by bellhop. Put these into the loop's body."
            )
        self._flushed += self._flush(queue)

    def loop(
        self,
        trips: int | None,
        bounds: tuple[Any, Any, Any],
        body: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values.

        The parameters of the gates in a loop of static length are stacked, so that their
        order is that of execution.
        """
        self._flush_active()
        outer, is_outer_dynamic = self._params, self._is_in_dynamic_loop
        self._is_in_dynamic_loop |= trips is None
        self._is_fresh = False

        def step(state: Any, trip: Any) -> tuple[Any, Any]:
            self._handle, self._offset, carried = state
            self._params = []
            with self.queue():
                carried = as_carried(body(index_at(trip, bounds), *carried), carried)
            return (self._handle, self._offset, carried), self._params_vector()

        init = (self._handle, self._offset, carried)
        if trips is not None:
            state, stacked = jax.lax.scan(step, init, jnp.arange(trips))
            outer.append(jnp.ravel(stacked))
        else:
            state = jax.lax.fori_loop(
                0, trip_count(bounds), lambda trip, state: step(state, trip)[0], init
            )
        self._params, self._is_in_dynamic_loop = outer, is_outer_dynamic
        self._handle, self._offset, carried = state
        return carried

    def _params_vector(self) -> Any:
        return jnp.concatenate([jnp.zeros(0, jnp.float64), *self._params])

    def measure(self, processes: list[Any], diff_method: str) -> list[Any]:
        """Measure, and return the values in order."""
        collected = MeasurementList(self._wires, self._where)
        for process in processes:
            self._check_observable(process.obs)
            collected.add(process)
        params = self._params_vector()
        self._handle, *values = measure_p.bind(
            self._handle,
            collected.coefficient_vector(),
            collected.matrix_vector(),
            params,
            measurements=tuple(collected.measurements),
            device=self._device,
            obstacle=self._obstacle(collected.measurements, diff_method),
        )
        return values

    def _obstacle(self, measurements: list[Measurement], diff_method: str) -> str:
        """Say why this circuit has no derivative; nothing where it has one."""
        if diff_method not in _ADJOINT_METHODS:
            return (
                f"it is differentiated, and its diff_method is '{diff_method}'; bellhop supports "
                "'best' and 'adjoint'."
            )
        if any(measurement.kind != EXPVAL for measurement in measurements):
            return (
                "it measures var, probs or state and is differentiated; the adjoint method "
                "differentiates expectation values only. Return those from a QNode of its own."
            )
        return ""

    def _check_observable(self, observable: Any) -> None:
        """Refuse an observable that a loop has taken for a gate."""
        if observable is None:
            return
        if any(observable is op for op in self._flushed):
            raise CompileError(
                f"{self._where}: the observable {observable} was made before a for_loop, where "
                "it is a gate. Make it where it is measured, or outside the QNode."
            )
        for part in getattr(observable, "operands", ()):
            self._check_observable(part)


def is_measurement(value: Any) -> bool:
    """Tell whether a leaf of a quantum function's result is a measurement."""
    return isinstance(value, qml.measurements.MeasurementProcess)
