"""Adjoint, control and folding of whole quantum functions, with the control flow in them.

For ``f = lambda: for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()``::

    qml.adjoint(f)()    applies    for_loop(0, 3)(lambda i: qml.adjoint(qml.RX(x * (2 - i), 0)))()
    qml.ctrl(f, 1)()    applies    for_loop(0, 3)(lambda i: qml.ctrl(qml.RX(x * i, 0), 1))()

``f`` is run once, into a jaxpr with gates (``gate_jaxpr``), which is then played (``gate_replay``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.gates.control_flow import ControlFlow
from bellhop.circuits.recording.gate_jaxpr import (
    GateJaxpr,
    for_loop_p,
    operations_p,
    region_p,
    traced,
)
from bellhop.circuits.recording.gate_replay import NOTHING_KEPT, Player, evaluate
from bellhop.circuits.recording.queue import QueuedCircuit
from bellhop.circuits.recording.returned_measurements import hand_on
from bellhop.circuits.recording.traced_operators import TracedOperator
from bellhop.control_flow.steps import Branches, Gates, traced_branches, traced_step
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope, current_circuit


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

    def region(self, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        """Apply the adjoint of a function, or the function with controls."""
        Player().play_region(gates, controls)

    def as_operation(self, play: Callable[[Any], Any]) -> tuple[ControlFlow, Any]:
        """Return control flow as an operation, and its values.

        Args:
            play: applies it to a circuit, and returns its values.
        """
        circuit = TracingCircuit(self, is_inverted=True)
        gates = circuit.gates_of(lambda: play(circuit))
        evaluated = evaluate(gates.closed, gates.operands, self.where)
        wires = gates.wires()
        operation = ControlFlow(
            gates.closed,
            gates.operands,
            evaluated.kept,
            qml.wires.Wires(self.labels()) if wires is None else qml.wires.Wires.all_wires(wires),
        )
        return operation, jax.tree.unflatten(gates.tree, evaluated.results)


class _Deferred:
    """Puts control flow on PennyLane's active queue, as a ``ControlFlow`` operation.

    The caller needs its values now, and the circuit gets its gates later.
    """

    def __init__(self, circuit: NestingCircuit) -> None:
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

    def _defer(self, play: Callable[[Any], Any]) -> Any:
        return self._circuit.as_operation(play)[1]


class TracingCircuit(NestingCircuit):
    """The current circuit while a function with gates is traced into a jaxpr.

    Args:
        circuit: the circuit around it.
        is_inverted: whether the function is to be inverted.
    """

    def __init__(self, circuit: Any, *, is_inverted: bool) -> None:
        super().__init__(circuit.where, circuit.rows, circuit.precision)
        # PennyLane's adjoint ignores measurements in the function.
        self.needs_measurements = not is_inverted
        self._circuit = circuit

    def labels(self) -> Sequence[Any]:
        """Return the wires of the circuit around it."""
        return self._circuit.labels()

    def gates_of(self, function: Callable[..., Any], *args: Any) -> GateJaxpr:
        """Trace a quantum function with this as the current circuit."""

        def run(*args: Any) -> Any:
            with circuit_scope(self), self.queue():
                return function(*args)

        return traced(run, *args)

    def apply(self, operations: Sequence[Any]) -> None:
        """Append an equation for operations."""
        operator, operands = TracedOperator.of(list(operations))
        sites = tuple(map(self.site_of, operations))
        operations_p.bind(*operands, operator=operator, sites=sites)

    def region(self, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        """Append an equation for the adjoint of a function, or for that with controls."""
        operator, operands = None, list[Any]()
        if controls is not None:
            operator, operands = TracedOperator.of(controls)
        region_p.bind(*gates.operands, *operands, body=gates.closed, controls=operator)

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Append an equation for a loop; return the carried values after it."""
        self.flush_active("for_loop")
        first, step = traced_step("for_loop", self._part(body), carried, jnp.asarray(0))
        leaves, tree = jax.tree.flatten(first)

        def iteration(number: Any, *leaves: Any) -> Any:
            return step(jax.tree.unflatten(tree, leaves), number)[0]

        gates = traced(iteration, jnp.asarray(0), *leaves)
        is_known = isinstance(n_iterations, int)
        last = for_loop_p.bind(
            *gates.operands,
            *leaves,
            *([] if is_known else [n_iterations]),
            body=gates.closed,
            n_consts=len(gates.operands),
            length=n_iterations if is_known else None,
        )
        return jax.tree.unflatten(tree, last)

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Append an equation for a loop; return the carried values after it."""
        self.flush_active("while_loop")
        first, step = traced_step("while_loop", self._part(body), carried)
        return jax.lax.while_loop(
            lambda carried: self.evaluate_condition(condition, carried),
            lambda carried: step(carried)[0],
            first,
        )

    def branch(self, branches: Branches) -> Any:
        """Append an equation for a conditional; return its result."""
        self.flush_active(branches.construct)
        runners, _ = traced_branches(branches.changed(self._part))
        return jax.lax.switch(branches.index, runners)[0]

    def _part(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with self.queue():
                return function(*args), ()

        return run

    def allocate(self, op: Any) -> None:
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


class Applied(Gates):
    """What an inverted or controlled quantum function applied to the circuit.

    Args:
        circuit: the circuit.
        gates: the function.
        controls: the control wires and their values; None for an inverted function.
    """

    def __init__(self, circuit: Any, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        self._circuit = circuit
        self._gates = gates
        self._controls = controls

    @property
    def operations(self) -> list[Any]:
        """The operations in order, without those in loops and conditionals."""
        collected = _Collected(self._circuit.where, self._circuit.rows)
        player, gates = Player(), self._gates
        # The calls of Python in the function have been made.
        evaluated = evaluate(gates.closed, gates.operands, self._circuit.where, NOTHING_KEPT)
        with circuit_scope(collected):
            if self._controls is None:
                evaluated.apply(player, backwards=True)
            else:
                evaluated.apply(player.controlled(*self._controls), backwards=False)
        return collected.operations

    @property
    def operation(self) -> Any:
        """The operation, if there is exactly one; else None."""
        operations = self.operations
        return operations[0] if len(operations) == 1 else None

    @property
    def wires(self) -> qml.wires.Wires:
        """The wires of all operations; all wires of the circuit, if some are traced."""
        wires = self._gates.wires()
        controls = [] if self._controls is None else list(self._controls[0])
        if wires is None or any(isinstance(wire, jax.core.Tracer) for wire in controls):
            return qml.wires.Wires(self._circuit.labels())
        return qml.wires.Wires.all_wires(list(map(qml.wires.Wires, [*controls, *wires])))


class _Collected(NestingCircuit):
    """Takes the operations that stand in no loop and no conditional."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.operations: list[Any] = []

    def apply(self, operations: Sequence[Any]) -> None:
        self.operations += operations

    def for_loop(self, *_: Any) -> None:
        pass

    def branch(self, _: Branches) -> None:
        pass


def invert(circuit: NestingCircuit, function: Callable[[], Any]) -> Applied:
    """Apply the adjoint of a quantum function to a circuit."""
    tracing = TracingCircuit(circuit, is_inverted=True)
    return _applied(circuit, tracing.gates_of(_without_result(function)), None)


def control(
    circuit: NestingCircuit, wires: Any, values: Any, function: Callable[[], Any]
) -> Applied:
    """Apply a quantum function to a circuit, with every operation controlled by wires."""
    tracing = TracingCircuit(circuit, is_inverted=False)
    controls = qml.wires.Wires(wires), values
    return _applied(circuit, tracing.gates_of(_without_result(function)), controls)


def _applied(
    circuit: NestingCircuit, gates: GateJaxpr, controls: tuple[Any, Any] | None
) -> Applied:
    circuit.region(gates, controls)
    return Applied(circuit, gates, controls)


def _without_result(function: Callable[..., Any]) -> Callable[..., None]:
    def run(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)

    return run


def fold(function: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return the folded quantum function ``U (U^-1 U)^times`` of zero-noise extrapolation.

    Preparations of the initial state are applied once and not folded.
    """
    if not times:
        return function

    def folded(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        circuit = current_circuit()
        circuit.flush_active("folding")
        tracing = TracingCircuit(circuit, is_inverted=False)
        tracing.rewrites = [*circuit.rewrites, _without_preparations]
        gates = tracing.gates_of(lambda: hand_on(function(*args, **kwargs)))
        for _ in range(times):
            circuit.region(gates, None)
            Player().play(gates.closed, *gates.operands)
        return result

    return folded


def _without_preparations(operations: Sequence[Any]) -> list[Any]:
    return [op for op in operations if not isinstance(op, qml.operation.StatePrepBase)]


def apply_control_flow(circuit: NestingCircuit, op: Any) -> None:
    """Apply a ``ControlFlow``, an operation that stands for a loop or conditional, to a circuit."""
    with circuit_scope(circuit), circuit.queue():
        _apply(Player(), op, backwards=False)


def _apply(player: Player, op: Any, *, backwards: bool) -> None:
    if isinstance(op, qml.ops.Adjoint):
        _apply(player, op.base, backwards=not backwards)
    elif isinstance(op, qml.ops.Controlled):
        _apply(player.controlled(op.control_wires, op.control_values), op.base, backwards=backwards)
    else:
        gates, operands, kept = (op.hyperparameters[name] for name in ("gates", "operands", "kept"))
        evaluated = evaluate(gates, operands, player.circuit.where, kept)
        evaluated.apply(player, backwards=backwards)
