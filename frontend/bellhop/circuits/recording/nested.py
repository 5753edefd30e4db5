"""Adjoint and control of whole quantum functions, with the loops and conditionals in them.

For ``f = lambda: for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()``::

    qml.adjoint(f)()    applies    for_loop(0, 3)(lambda i: qml.adjoint(qml.RX(x * (2 - i), 0)))()
    qml.ctrl(f, 1)()    applies    for_loop(0, 3)(lambda i: qml.ctrl(qml.RX(x * i, 0), 1))()

While ``f`` is traced, the current circuit is a ``_Part``.  It receives the operations and the
control flow of ``f``, changes them, and hands them to the circuit around it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.gates.control_flow import ControlFlow, Play
from bellhop.circuits.gates.rewrites import Rewrite
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.recording.iterations import numbers_of
from bellhop.circuits.recording.queue import QueuedCircuit
from bellhop.circuits.recording.returned_measurements import hand_on
from bellhop.control_flow.steps import Branches, Gates, traced_branches, traced_step
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope, current_circuit


class Applied(Gates):
    """What an inverted or controlled quantum function applied to the circuit.

    Attributes:
        operations: the operations in order, without those in loops and conditionals.
    """

    def __init__(self, circuit: Any) -> None:
        self._circuit = circuit
        self._wires: list[Any] = []
        self.operations: list[Any] = []

    def add(self, operations: Sequence[Any]) -> None:
        """Note the wires of operations."""
        self._wires += (wire for op in operations for wire in op.wires)

    @property
    def operation(self) -> Any:
        """The operation, if there is exactly one; else None."""
        return self.operations[0] if len(self.operations) == 1 else None

    @property
    def wires(self) -> qml.wires.Wires:
        """The wires of all operations; all wires of the circuit, if some are traced."""
        if not any(map(is_dynamic, self._wires)):
            return qml.wires.Wires.all_wires(list(map(qml.wires.Wires, self._wires)))
        circuit = self._circuit
        while isinstance(circuit, _Part):
            circuit = circuit._circuit
        return qml.wires.Wires(circuit.wires.labels)


class NestingCircuit(QueuedCircuit):
    """A circuit that accepts control flow even while PennyLane records another queue.

    PennyLane does so, for example, while it calls the function of a ``qml.adjoint`` in a tape.
    """

    def for_control_flow(self) -> Any:
        """Return the object whose ``for_loop``, ``while_loop`` and ``branch`` are to be called.

        That is this circuit.  While a queue of PennyLane's collects operations that this circuit
        gets later, it is an object that puts the control flow on that queue.
        """
        if self.is_collecting() or not qml.QueuingManager.recording():
            return self
        return _Deferred(self)


class _Part(NestingCircuit):
    """The current circuit while a function that is to be inverted or controlled is traced.

    Args:
        circuit: the circuit around it, which gets the changed operations.
        applied: where to note what is applied, for the body of a loop or a branch; None for the
            whole function.
    """

    def __init__(self, circuit: QueuedCircuit, applied: Applied | None = None) -> None:
        super().__init__(circuit.where, circuit.rows, circuit.precision)
        self._circuit = circuit
        self._is_whole = applied is None
        self.applied = Applied(circuit) if applied is None else applied

    def note(self, operations: Sequence[Any]) -> None:
        """Note in ``applied`` that operations were applied."""
        self.applied.add(operations)
        if self._is_whole:
            self.applied.operations += operations

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a quantum function with this part as the current circuit."""
        with circuit_scope(self), self.queue():
            return function(*args)

    def allocate(self, op: Any) -> NoReturn:
        """Refuse: the adjoint of the function would need the same wires again."""
        raise CompileError(
            f"{self.where}: {op.name} of wires stands in an adjoint, ctrl or folding of a "
            "function. Move both outside of it."
        )

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Refuse: a measurement has no adjoint and no controlled form."""
        raise CompileError(
            f"{self.where}: a measure ({site}) stands in an adjoint or ctrl of a function, which "
            "cannot hold measurements. Measure outside of it."
        )


class _Changed(_Part):
    """Applies ``change(operations)`` in the place of operations, in loops and branches too."""

    def __init__(
        self,
        circuit: QueuedCircuit,
        change: Callable[[Any], Any],
        rewrites: Sequence[Rewrite] = (),
        applied: Applied | None = None,
    ) -> None:
        super().__init__(circuit, applied)
        self._change = change
        self.rewrites = list(rewrites)

    def apply(self, operations: Sequence[Any]) -> None:
        with qml.QueuingManager.stop_recording():
            changed = self._change(operations)
        self.note(changed)
        self._circuit.apply(changed)

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        with self._in_circuit("for_loop") as circuit:
            return circuit.for_loop(n_iterations, self._inside(body), carried)

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any) -> Any:
        with self._in_circuit("while_loop") as circuit:
            return circuit.while_loop(condition, self._inside(body), carried)

    def branch(self, branches: Branches) -> Any:
        with self._in_circuit(branches.construct) as circuit:
            return circuit.branch(branches.changed(self._inside))

    def _inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # When the function runs, the current circuit may be another than ``self._circuit``: an
        # adjoint around this one runs the function a second time.
        return lambda *args: _Changed(
            current_circuit(), self._change, self.rewrites, self.applied
        ).run(function, *args)

    @contextmanager
    def _in_circuit(self, construct: str) -> Iterator[Any]:
        """Let the circuit around this one trace control flow, with this one's queue."""
        self.flush_active(construct)
        circuit: Any = self._circuit
        outer, circuit._queue = circuit._queue, self._queue
        try:
            with circuit_scope(circuit):
                yield circuit
        finally:
            circuit._queue = outer


class _Inverted(_Part):
    """Collects in ``undo``, for each operation, loop and conditional, a function that undoes it."""

    # PennyLane's adjoint ignores measurements in the function.
    needs_measurements = False

    def __init__(self, circuit: QueuedCircuit, applied: Applied | None = None) -> None:
        super().__init__(circuit, applied)
        self.undo: list[Callable[[], Any]] = []

    def apply(self, operations: Sequence[Any]) -> None:
        with qml.QueuingManager.stop_recording():
            inverses = [qml.adjoint(op) for op in reversed(operations)]
        self.undo.append(lambda: self._apply(inverses))

    def _apply(self, inverses: list[Any]) -> None:
        self.note(inverses)
        self._circuit.apply(inverses)

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        self.flush_active("for_loop")
        values_at = lambda place: ()
        if carried:
            # The loop backwards needs the carried values of each iteration, so a loop without gates
            # computes them.
            forward = lambda values, iteration: (self._values_of(body, values, iteration), values)
            carried, step = traced_step("for_loop", forward, carried, jnp.asarray(0))
            first = carried
            if isinstance(n_iterations, int):
                carried, saved = jax.lax.scan(
                    lambda c, t: step(c, t), first, numbers_of(n_iterations)
                )
                values_at = lambda place: jax.tree.map(lambda value: value[place], saved)
            else:
                # An array of them would have no static shape, so each iteration backwards computes
                # its carried values again, from the first iteration on.
                values_at = lambda place: jax.lax.fori_loop(
                    0, place, lambda iteration, values: step(values, iteration)[0], first
                )
                carried = values_at(n_iterations)
        self._undo_loop(n_iterations, body, values_at)
        return tuple(carried)

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any) -> Any:
        self.flush_active("while_loop")
        forward = lambda values: (self._values_of(body, values), ())
        first, step = traced_step("while_loop", forward, carried)
        n_iterations, carried = jax.lax.while_loop(
            lambda state: self.evaluate_condition(condition, state[1]),
            lambda state: (state[0] + 1, step(state[1])[0]),
            (jnp.asarray(0), first),
        )
        values_at = lambda place: jax.lax.fori_loop(
            0, place, lambda _, values: step(values)[0], first
        )
        self._undo_loop(n_iterations, lambda values, _: body(values), values_at)
        return tuple(carried)

    def _undo_loop(
        self, n_iterations: Any, body: Callable[..., Any], values_at: Callable[[Any], Any]
    ) -> None:
        """Undo the iterations of a loop, the last one first.

        Args:
            n_iterations: the number of iterations.
            body: takes the carried values and the number of an iteration.
            values_at: takes the number of an iteration; returns its carried values.
        """

        def backward(_: tuple[()], iteration: Any) -> tuple[()]:
            place = n_iterations - 1 - iteration
            values = values_at(place)
            invert(current_circuit(), lambda: body(values, place), self.applied)
            return ()

        circuit: Any = self._circuit
        self.undo.append(lambda: circuit.for_loop(n_iterations, backward, ()))

    def branch(self, branches: Branches) -> Any:
        self.flush_active(branches.construct)
        forward = branches.changed(lambda branch: lambda: (self._values_of(branch), ()))
        runners, _ = traced_branches(forward)
        result, _ = jax.lax.switch(branches.index, runners)
        backward = branches.changed(
            lambda branch: lambda: invert(current_circuit(), branch, self.applied) and None
        )
        circuit: Any = self._circuit
        self.undo.append(lambda: circuit.branch(backward))
        return result

    def _values_of(self, function: Callable[..., Any], *args: Any) -> Any:
        return _Inverted(self._circuit).run(function, *args)


class ValuesAlone(_Inverted):
    """Runs a quantum function for the value that it returns, and applies none of its gates.

    ``applied`` has the wires of these gates.
    """

    def apply(self, operations: Sequence[Any]) -> None:
        """Note the wires of operations, and apply none."""
        self.applied.add(operations)

    def _values_of(self, function: Callable[..., Any], *args: Any) -> Any:
        return ValuesAlone(self._circuit, self.applied).run(function, *args)


def invert(
    circuit: QueuedCircuit, function: Callable[[], Any], applied: Applied | None = None
) -> Applied:
    """Apply the adjoint of a quantum function to a circuit.

    Loops that carry values, and conditionals, are traced twice: first without gates, for the values
    that they compute, and then for the inverse gates.
    """
    part = _Inverted(circuit, applied)
    part.run(function)
    for undo in reversed(part.undo):
        undo()
    return part.applied


def control(
    circuit: QueuedCircuit, wires: Any, values: Any, function: Callable[[], Any]
) -> Applied:
    """Apply a quantum function to a circuit, with every operation controlled by wires."""

    def controlled(operations: Sequence[Any]) -> list[Any]:
        return [qml.ctrl(op, control=wires, control_values=values) for op in operations]

    part = _Changed(circuit, controlled)
    part.run(function)
    return part.applied


def fold(function: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return the folded quantum function ``U (U^-1 U)^times`` of zero-noise extrapolation.

    Preparations of the initial state are applied once and not folded.
    """

    def folded(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        circuit = current_circuit()

        def again() -> None:
            part = _Changed(current_circuit(), _without_preparations, circuit.rewrites)
            part.run(lambda: hand_on(function(*args, **kwargs)))

        for _ in range(times):
            circuit.flush_active("folding")
            invert(circuit, again)
            again()
        return result

    return folded


def _without_preparations(operations: Sequence[Any]) -> list[Any]:
    return [op for op in operations if not isinstance(op, qml.operation.StatePrepBase)]


def apply_control_flow(circuit: QueuedCircuit, op: Any) -> None:
    """Apply a ``ControlFlow``, an operation that stands for a loop or conditional, to a circuit."""
    with circuit_scope(circuit), circuit.queue():
        _play(circuit, op)


def _play(circuit: Any, op: Any) -> None:
    inner = lambda: _play(current_circuit(), op.base)
    if isinstance(op, qml.ops.Adjoint):
        invert(circuit, inner)
    elif isinstance(op, qml.ops.Controlled):
        control(circuit, op.control_wires, op.control_values, inner)
    else:
        op.hyperparameters["play"](circuit)


class _Deferred:
    """Puts control flow on PennyLane's active queue, as a ``ControlFlow`` operation.

    The caller needs the results now, and the circuit gets the gates later.  So the control flow is
    traced twice: now for its results, and later for its gates.
    """

    def __init__(self, circuit: QueuedCircuit) -> None:
        self._circuit = circuit

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Defer a loop; return the carried values."""
        return self._defer(lambda circuit: circuit.for_loop(n_iterations, body, carried))

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Defer a loop; return the carried values."""
        return self._defer(lambda circuit: circuit.while_loop(condition, body, carried))

    def branch(self, branches: Branches) -> Any:
        """Defer a conditional; return its result."""
        return self._defer(lambda circuit: circuit.branch(branches))

    def _defer(self, play: Play) -> Any:
        values = ValuesAlone(self._circuit)
        result = values.run(lambda: play(values))
        ControlFlow(play, values.applied.wires)
        return result
