"""One circuit while its quantum function is traced: queued gates become primitives."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.queuing import AnnotatedQueue, QueuingManager, process_queue

from bellhop.circuits.device import DeviceSpec, GateSet
from bellhop.circuits.gates import GateRun
from bellhop.circuits.measurements import MeasurementList
from bellhop.circuits.primitives import gates_p, measure_p
from bellhop.control_flow import as_carried, index_at, trip_count
from bellhop.errors import CompileError


class Circuit:
    """The state handle, and the parameters of the gates so far, in order.

    PennyLane queues operations; they are flushed into one ``gates`` primitive wherever
    something else than a gate comes: control flow, or the end of the circuit.
    """

    def __init__(
        self, handle: Any, device: DeviceSpec, gates: GateSet, wires: Callable[[Any], int], where: str
    ) -> None:
        self._handle = handle
        self._device = device
        self._gate_set = gates
        self._wires = wires
        self._where = where
        self._offset: Any = jnp.int32(0)
        self._params: list[Any] = []
        self._is_differentiable = True

    @property
    def handle(self) -> Any:
        """The state after everything that was flushed."""
        return self._handle

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Collect the operations that run inside, and flush them at the end."""
        with AnnotatedQueue() as queue:
            yield
            self._flush(queue)

    def _flush(self, queue: AnnotatedQueue) -> None:
        operations, *_ = process_queue(queue)
        run = GateRun(self._gate_set, self._wires, self._where)
        for op in operations:
            run.add(op)
            queue.remove(op)
        if not run.gates:
            return
        params = run.params_vector()
        dynamic_wires = jnp.zeros(0, jnp.int32)
        self._handle = gates_p.bind(
            self._handle, params, self._offset, dynamic_wires, gates=tuple(run.gates)
        )
        if run.params:
            self._offset = self._offset + jnp.int32(len(run.params))
            self._params.append(params)

    def _flush_active(self) -> None:
        queue = QueuingManager.active_context()
        if not isinstance(queue, AnnotatedQueue):
            raise CompileError(
                f"{self._where}: a loop stands where gates are collected by something else than "
                "the circuit (a qml.tape, say)."
            )
        self._flush(queue)

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
        outer = self._params

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
            # How many parameters there are is not known, so there is no derivative.
            self._is_differentiable = False
            state = jax.lax.fori_loop(
                0, trip_count(bounds), lambda trip, state: step(state, trip)[0], init
            )
        self._params = outer
        self._handle, self._offset, carried = state
        return carried

    def _params_vector(self) -> Any:
        return jnp.concatenate([jnp.zeros(0, jnp.float64), *self._params])

    def measure(self, processes: list[Any], diff_method: str) -> list[Any]:
        """Measure, and return the values in order."""
        collected = MeasurementList(self._wires, self._where)
        for process in processes:
            collected.add(process)
        params = self._params_vector()
        if not self._is_differentiable:
            diff_method = "a loop of dynamic length"
        self._handle, *values = measure_p.bind(
            self._handle,
            collected.coefficient_vector(),
            collected.matrix_vector(),
            params,
            measurements=tuple(collected.measurements),
            device=self._device,
            diff_method=diff_method,
        )
        return values


def is_measurement(value: Any) -> bool:
    """Tell whether a leaf of a quantum function's result is a measurement."""
    return isinstance(value, qml.measurements.MeasurementProcess)


