"""Interpret a jaxpr with gates and apply its gates to a circuit.

A `Player` applies the gates forward, inverted, controlled or folded.  Forward, it interprets the
equations in order.  For an inverse, it computes all classical values first (``gate_evaluation``)
and then applies the inverse gates in reverse order.  Subclasses change all operations, as noise
models do.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pennylane as qml
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.half_precision import promote_half_precision
from bellhop.circuits.ir.gate_jaxpr import (
    MAX_UNROLLED_GATES,
    ForLoop,
    GateInterpreter,
    GateJaxpr,
    WhileLoop,
    get_region,
)
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.gate_evaluation import evaluate_gates
from bellhop.circuits.passes.played_circuit import PlayedCircuit
from bellhop.jaxprs.constant_eval import evaluate_or_bind
from bellhop.tracing.current_circuit import Branches
from bellhop.tracing.state import current_circuit

# Maps the player that applies the gates to the loop body that a circuit's loop expects.
Body = Callable[["Player"], Callable[..., Any]]

# Maps operations to the operations that replace them.
Change = Callable[[Sequence[Any]], Sequence[Any]]


def identity(operations: Sequence[Any]) -> Sequence[Any]:
    """Return the operations unchanged."""
    return operations


@dataclass(frozen=True)
class Player(GateInterpreter):
    """Interpreter of a jaxpr with gates, which applies them to the current circuit.

    Args:
        change: maps operations to the operations to apply instead.
    """

    change: Change = identity

    @property
    def circuit(self) -> PlayedCircuit:
        """The current circuit, which receives the gates."""
        return cast(PlayedCircuit, current_circuit())

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations: promote half precision, change them, and emit or allocate."""
        if not operations:
            return
        # Precision depends on the user's parameters only: a decomposition adds constants to them.
        self.circuit.precision.include([op.data for op in operations])
        promoted = list(map(promote_half_precision, operations))
        for op, new in zip(operations, promoted, strict=True):
            if new is not op:
                self.record_site(new, self.find_site(op))
        for are_allocations, group in itertools.groupby(
            self.change(promoted), Allocations.is_allocation
        ):
            if are_allocations:
                for op in group:
                    self.allocate(op)
            else:
                self.emit(list(group))

    def emit(self, operations: list[Any]) -> None:
        """Pass the final operations, without allocations, to the circuit."""
        self.circuit.apply(operations)

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` of an operation in the circuit."""
        self.circuit.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` of an operation, or ``""`` if unknown."""
        return self.circuit.find_site(operation)

    def allocate(self, op: qml.operation.Operator) -> None:
        """Pass an operation that allocates or deallocates wires to the circuit."""
        self.circuit.allocate(op)

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Body,
        carried: PyTree = (),
        *,
        is_nest: bool = False,
    ) -> Any:
        """Add a for loop to the circuit; return the carried values after it.

        A nest of loops with few gates is unrolled if the circuit supports that.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer.
            body: maps the player that applies the gates to the loop's body.
            carried: the carried values of the first iteration.
            is_nest: whether the body has only loops, gates and elementwise computations, so that
                it can be unrolled.
        """
        if is_nest and self.circuit.can_flatten_nests:
            straight = _StraightPlayer(self.change)
            straight.for_loop(n_iterations, body)
            run = straight.unrolled
            if run.is_straight and self.circuit.apply_straight(run.operations):
                return ()
        return self.circuit.for_loop(n_iterations, body(self), carried)

    def while_loop(self, condition: Any, body: Body, carried: PyTree) -> Any:
        """Add a while loop to the circuit; return the carried values after it.

        Args:
            condition: maps the carried values to whether another iteration follows.
            body: maps the player that applies the gates to the loop's body.
            carried: the carried values of the first iteration.
        """
        return self.circuit.while_loop(condition, body(self), carried)

    def branch(self, index: Any, branches: Sequence[Callable[["Player"], Any]]) -> Any:
        """Add a conditional to the circuit; return the chosen branch's result.

        Args:
            index: the index of the branch that runs, an integer scalar.
            branches: each applies its gates with a player, and returns the branch's result.
        """
        functions = [partial(branch, self) for branch in branches]
        # The names of branches appear only in errors about their result types, and tracing has
        # checked these.
        names = [""] * len(functions)
        return self.circuit.branch(Branches("cond", index, names, functions))

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire mid-circuit; return the outcome.

        Args:
            label: the wire.
            reset: whether to reset the wire to zero afterwards.
            postselect: the outcome to postselect on, or -1.
            site: the user's ``file:line``.
        """
        return self.circuit.mid_measure(label, reset=reset, postselect=postselect, site=site)

    def prepend_change(self, change: Change) -> "Player":
        """Return a player that applies ``change`` before this player's own change."""
        return replace(self, change=lambda operations: self.change(change(operations)))

    def add_controls(self, wires: Any, values: Any) -> "Player":
        """Return a player that adds controls to all operations.

        Args:
            wires: the control wires.
            values: the control values, one per wire.
        """

        def add_control(operations: Sequence[Any]) -> Sequence[Any]:
            results = [qml.ctrl(op, control=wires, control_values=values) for op in operations]
            for op, controlled in zip(operations, results, strict=True):
                self.record_site(controlled, self.find_site(op))
            return results

        return self.prepend_change(add_control)

    def play_region(self, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        """Apply the adjoint of a function, or the controlled function.

        Args:
            gates: the function's jaxpr.
            controls: control wires and control values, or None for the adjoint.
        """
        if controls is not None:
            self.add_controls(*controls).interpret(gates.closed, *gates.operands)
        else:
            evaluate_gates(gates.closed, gates.operands, self.circuit.where).apply(
                self, backwards=True
            )

    def play_operation(self, op: qml.operation.Operator, *, backwards: bool = False) -> None:
        """Apply a `ControlFlow` operation, which may be inside adjoints and controls.

        Args:
            op: the operation.
            backwards: whether to apply its inverse.
        """
        if isinstance(op, qml.ops.Adjoint):
            self.play_operation(op.base, backwards=not backwards)
        elif isinstance(op, qml.ops.Controlled):
            controlled = self.add_controls(op.control_wires, op.control_values)
            controlled.play_operation(op.base, backwards=backwards)
        else:
            gates, operands, kept = map(op.hyperparameters.get, ("gates", "operands", "kept"))
            evaluated = evaluate_gates(gates, operands, self.circuit.where, kept)
            evaluated.apply(self, backwards=backwards)

    def fold(self, gates: GateJaxpr, n_folds: int) -> None:
        """Fold a circuit: apply its inverse and the circuit again, ``n_folds`` times.

        State preparations are not repeated.

        Args:
            gates: the circuit's jaxpr, which was applied once already.
            n_folds: the number of repetitions.
        """
        again = self.prepend_change(
            lambda operations: [op for op in operations if not _is_preparation(op)]
        )
        for _ in range(n_folds):
            again.play_region(gates, None)
            again.interpret(gates.closed, *gates.operands)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        return evaluate_or_bind(eqn, *operands)

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Rebuild the equation's operations from operands and apply them."""
        operations = eqn.params["operator"].with_values(operands)
        for op, site in zip(operations, eqn.params["sites"], strict=True):
            self.record_site(op, site)
        self.apply(operations)
        return []

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        [wire] = eqn.params["operator"].with_values(operands)
        reset, postselect, site = map(eqn.params.get, ("reset", "postselect", "site"))
        return [self.mid_measure(wire, reset=reset, postselect=postselect, site=site)]

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        self.play_region(*get_region(eqn, operands))
        return []

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Add the equation's for loop to the circuit."""
        loop = ForLoop.from_equation(eqn, operands)

        def body(player: Player) -> Callable[..., Any]:
            return lambda carried, number: tuple(
                player.interpret(loop.body, *loop.constants, number, *carried)
            )

        return self.for_loop(loop.length, body, loop.carried, is_nest=loop.is_nest)

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Add the equation's while loop to the circuit."""
        loop = WhileLoop.from_equation(eqn, operands)

        def body(player: Player) -> Callable[..., Any]:
            return lambda carried: tuple(player.interpret(loop.body, *loop.constants, *carried))

        return self.while_loop(loop.condition, body, loop.carried)

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
        """Add the equation's conditional to the circuit."""
        index, *operands = given

        def make_branch(branch: ClosedJaxpr) -> Callable[[Player], Any]:
            return lambda player: player.interpret(branch, *operands)

        return self.branch(index, list(map(make_branch, eqn.params["branches"])))


@dataclass
class _UnrolledOperations:
    """The unrolled operations of nested loops so far.

    Attributes:
        operations: the operations of all iterations, in order.
        is_straight: whether the loops can be unrolled: all trip counts are static, and the
            operations are few, on static and valid wires, and without allocations.
    """

    operations: list[Any] = field(default_factory=list)
    is_straight: bool = True


@dataclass(frozen=True)
class _StraightPlayer(Player):
    """A player that collects the unrolled operations of nested loops.

    It sets ``unrolled.is_straight`` to False and stops where unrolling is not possible.

    Args:
        unrolled: the operations so far; this player appends to them.
    """

    unrolled: _UnrolledOperations = field(default_factory=_UnrolledOperations)

    def allocate(self, op: qml.operation.Operator) -> None:
        """Give up unrolling: the free wires depend on the code around the loop."""
        self.unrolled.is_straight = False

    def emit(self, operations: list[Any]) -> None:
        """Collect operations; give up unrolling if a wire is traced or invalid.

        The loop that is not unrolled reports invalid wires when the program runs.
        """
        self.unrolled.operations.extend(operations)
        qubits = range(len(self.circuit.labels()))
        for op in operations:
            # A wire computed from a static iteration index is a NumPy scalar.
            computed = [
                wire for wire in op.wires if is_dynamic(wire) or isinstance(wire, np.generic)
            ]
            if computed and (
                any(map(is_dynamic, computed))
                or not set(map(int, computed)) <= set(qubits)
                or len(set(op.wires)) < len(op.wires)
            ):
                self.unrolled.is_straight = False
        self.unrolled.is_straight &= len(self.unrolled.operations) <= MAX_UNROLLED_GATES

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Body,
        carried: PyTree = (),
        *,
        is_nest: bool = False,
    ) -> Any:
        """Unroll a loop without carried values; give up if its trip count is traced."""
        self.unrolled.is_straight &= isinstance(n_iterations, int)
        numbers = range(n_iterations) if isinstance(n_iterations, int) else ()
        for number in itertools.takewhile(lambda _: self.unrolled.is_straight, numbers):
            body(self)((), np.asarray(number))
        return carried


def _is_preparation(op: qml.operation.Operator) -> bool:
    while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
        op = op.base
    return isinstance(op, qml.operation.StatePrepBase)
