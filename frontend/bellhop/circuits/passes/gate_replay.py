"""Plays the jaxpr of a quantum function on a circuit: forwards, backwards, controlled or folded.

Forwards, values and gates come as they stand.  Backwards, all values come first
(``gate_evaluation``).  What changes all that a circuit gets, as noise models do, is a player too.
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

# Takes what plays, and returns the body of a circuit's loop.
Body = Callable[["Player"], Callable[..., Any]]

# Takes operations, and returns those in their place.
Change = Callable[[Sequence[Any]], Sequence[Any]]


def identity(operations: Sequence[Any]) -> Sequence[Any]:
    """Change no operations."""
    return operations


@dataclass(frozen=True)
class Player(GateInterpreter):
    """Applies gates to the current circuit.

    Args:
        change: changes the operations before.
    """

    change: Change = identity

    @property
    def circuit(self) -> PlayedCircuit:
        """The current circuit."""
        return cast(PlayedCircuit, current_circuit())

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations."""
        if not operations:
            return
        # Before they are changed: a decomposition makes further parameters, of constants.
        self.circuit.precision.include([op.data for op in operations])
        made = list(map(promote_half_precision, operations))
        for op, new in zip(operations, made, strict=True):
            if new is not op:
                self.record_site(new, self.find_site(op))
        for are_allocations, group in itertools.groupby(
            self.change(made), Allocations.is_allocation
        ):
            if are_allocations:
                for op in group:
                    self.allocate(op)
            else:
                self.emit(list(group))

    def emit(self, operations: list[Any]) -> None:
        """Hand operations to the circuit."""
        self.circuit.apply(operations)

    def record_site(self, operation: Any, site: str) -> None:
        """Tell the circuit where the user made an operation."""
        self.circuit.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return where the user made an operation; empty if that is not known."""
        return self.circuit.find_site(operation)

    def allocate(self, op: qml.operation.Operator) -> None:
        """Let the circuit allocate or deallocate wires."""
        self.circuit.allocate(op)

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Body,
        carried: PyTree = (),
        *,
        is_nest: bool = False,
    ) -> Any:
        """Run a loop of the circuit's; return the carried values.

        Args:
            n_iterations: the number of iterations.
            body: takes a player, and returns the body of the circuit's loop that this plays.
            carried: the carried values of the first iteration.
            is_nest: whether it is made of loops and few gates alone, by values that vectors take.
        """
        if is_nest and self.circuit.can_flatten_nests:
            straight = _StraightPlayer(self.change)
            straight.for_loop(n_iterations, body)
            run = straight.unrolled
            if run.is_straight and self.circuit.apply_straight(run.operations):
                return ()
        return self.circuit.for_loop(n_iterations, body(self), carried)

    def while_loop(self, condition: Any, body: Body, carried: PyTree) -> Any:
        """Run a loop of the circuit's; return the carried values."""
        return self.circuit.while_loop(condition, body(self), carried)

    def branch(self, index: Any, branches: Sequence[Callable[["Player"], Any]]) -> Any:
        """Run a conditional of the circuit's; return its result.

        Args:
            index: the number of the branch that runs.
            branches: each takes a player, and returns the branch's result.
        """
        functions = [partial(branch, self) for branch in branches]
        # Their results have been found to agree.
        names = [""] * len(functions)
        return self.circuit.branch(Branches("cond", index, names, functions))

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire in the middle; return the outcome."""
        return self.circuit.mid_measure(label, reset=reset, postselect=postselect, site=site)

    def prepend_change(self, change: Change) -> "Player":
        """Return what changes operations by another function first."""
        return replace(self, change=lambda operations: self.change(change(operations)))

    def add_controls(self, wires: Any, values: Any) -> "Player":
        """Return what applies the same gates controlled by wires."""

        def add_control(operations: Sequence[Any]) -> Sequence[Any]:
            made = [qml.ctrl(op, control=wires, control_values=values) for op in operations]
            for op, controlled in zip(operations, made, strict=True):
                self.record_site(controlled, self.find_site(op))
            return made

        return self.prepend_change(add_control)

    def play_region(self, gates: GateJaxpr, controls: tuple[Any, Any] | None) -> None:
        """Apply the adjoint of a function, or the function with controls."""
        if controls is not None:
            self.add_controls(*controls).interpret(gates.closed, *gates.operands)
        else:
            evaluate_gates(gates.closed, gates.operands, self.circuit.where).apply(
                self, backwards=True
            )

    def play_operation(self, op: qml.operation.Operator, *, backwards: bool = False) -> None:
        """Apply a ``ControlFlow``, an operation that stands for a loop or conditional."""
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
        """Undo what was applied and apply it again, so many times, but for what is prepared."""
        again = self.prepend_change(
            lambda operations: [op for op in operations if not _is_preparation(op)]
        )
        for _ in range(n_folds):
            again.play_region(gates, None)
            again.interpret(gates.closed, *gates.operands)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        return evaluate_or_bind(eqn, *operands)

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
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
        loop = ForLoop.from_equation(eqn, operands)

        def body(player: Player) -> Callable[..., Any]:
            return lambda carried, number: tuple(
                player.interpret(loop.body, *loop.constants, number, *carried)
            )

        return self.for_loop(loop.length, body, loop.carried, is_nest=loop.is_nest)

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        loop = WhileLoop.from_equation(eqn, operands)

        def body(player: Player) -> Callable[..., Any]:
            return lambda carried: tuple(player.interpret(loop.body, *loop.constants, *carried))

        return self.while_loop(loop.condition, body, loop.carried)

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> Sequence[Any]:
        index, *operands = given

        def make_branch(branch: ClosedJaxpr) -> Callable[[Player], Any]:
            return lambda player: player.interpret(branch, *operands)

        return self.branch(index, list(map(make_branch, eqn.params["branches"])))


@dataclass
class _UnrolledOperations:
    """The operations of a loop of loops so far, and whether they are a straight run."""

    operations: list[Any] = field(default_factory=list)
    is_straight: bool = True


@dataclass(frozen=True)
class _StraightPlayer(Player):
    """Takes the operations of loops whose lengths are known, as long as they are a straight run.

    Args:
        unrolled: the operations so far.
    """

    unrolled: _UnrolledOperations = field(default_factory=_UnrolledOperations)

    def allocate(self, op: qml.operation.Operator) -> None:
        """Refuse: which wires are free depends on what is around the loop."""
        self.unrolled.is_straight = False

    def emit(self, operations: list[Any]) -> None:
        """Take operations; what is wrong with a wire that is computed, the loop's run says."""
        self.unrolled.operations.extend(operations)
        qubits = range(len(self.circuit.labels()))
        for op in operations:
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
        """Go through a loop, which carries nothing."""
        self.unrolled.is_straight &= isinstance(n_iterations, int)
        numbers = range(n_iterations) if isinstance(n_iterations, int) else ()
        for number in itertools.takewhile(lambda _: self.unrolled.is_straight, numbers):
            body(self)((), np.asarray(number))
        return carried


def _is_preparation(op: qml.operation.Operator) -> bool:
    while isinstance(op, qml.ops.Adjoint | qml.ops.Controlled):
        op = op.base
    return isinstance(op, qml.operation.StatePrepBase)
