"""The wires of a jaxpr with gates, found without tracing anything: for devices without their own.

Of the values in it, only those are computed that constants decide.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pennylane as qml
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.base.types import Operand, Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.tape_control_flow import is_control_flow
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    GateInterpreter,
    UnknownValue,
    WhileLoop,
    get_operations,
)
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.jaxprs.constant_eval import evaluate_constant, evaluate_or_none


class UsedWires(GateInterpreter):
    """The wires that operations and measurements in the middle name.

    Args:
        closed: the jaxpr.
        unroll_loops: whether it takes each iteration of a loop of known length by itself,
            whose number may be a wire.

    Attributes:
        results: of the jaxpr; something unknown where constants do not decide them.
    """

    def __init__(self, closed: ClosedJaxpr, *, unroll_loops: bool = False) -> None:
        self._unroll_loops = unroll_loops
        self._applied: list[Any] = []
        # Of one operation after another.
        self._named: list[list[Any]] = []
        self.results = _mark_unknown(self._collect(closed, [None] * len(closed.in_avals)))

    def list_wires(self, processes: Sequence[Any] = ()) -> list[Any]:
        """Return the wires, with those of measurements at the end, in PennyLane's order.

        Args:
            processes: those measurements.

        Returns:
            each once; of those that are not known, there is something ``UnknownValue``.
        """
        named = [wire for wires in self._named for wire in wires]
        named += [wire for process in processes for wire in process.wires]
        allocated = qml.wires.DynamicWire
        return list(
            dict.fromkeys(_to_static_wire(w) for w in named if not isinstance(w, allocated))
        )

    def all_or(self, labels: Sequence[Any]) -> qml.wires.Wires:
        """Return the wires, or other wires if some are not known.

        Args:
            labels: the wires of the circuit, which are returned if an operation's wire is traced.
        """
        wires = self.list_wires()
        are_known = not any(isinstance(wire, UnknownValue) for wire in wires)
        return qml.wires.Wires(wires if are_known else labels)

    @property
    def n_allocated(self) -> int:
        """How many wires are allocated beside these."""
        return Allocations.count_needed(self._applied)

    def _collect(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
        """Take note of wires; return the results, None for those that are not known."""
        plain = ClosedJaxpr(closed.jaxpr, list(map(evaluate_constant, closed.consts)))
        return self.interpret(plain, *inputs)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        return evaluate_or_none(eqn, *operands)

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        for op in get_operations(eqn, _mark_unknown(operands)):
            self._collect_operation(op)
        return []

    def _collect_operation(self, op: qml.operation.Operator) -> None:
        if not is_control_flow(op):
            self._applied.append(op)
            self._named.append(list(op.wires))
            return
        start = len(self._named)
        if isinstance(op, qml.ops.SymbolicOp):
            self._collect_operation(op.base)
            self._apply_modifier(
                start, op.control_wires if isinstance(op, qml.ops.Controlled) else None
            )
        else:
            gates, operands = map(op.hyperparameters.get, ("gates", "operands"))
            is_number = lambda value: isinstance(value, jax.Array | np.ndarray | np.generic)
            self._collect(
                gates, [evaluate_constant(each) if is_number(each) else None for each in operands]
            )

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        self._named.append(eqn.params["operator"].with_values(_mark_unknown(operands)))
        return [None]

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        body, controls = eqn.params["body"], eqn.params["controls"]
        n, start = len(body.in_avals), len(self._named)
        self._collect(body, operands[:n])
        wires = None if controls is None else controls.with_values(_mark_unknown(operands[n:]))[0]
        self._apply_modifier(start, wires)
        return []

    def _apply_modifier(self, start: int, controls: Any) -> None:
        """Let what was named from a place on be inverted, or controlled by wires."""
        named = self._named[start:]
        self._named[start:] = (
            reversed(named) if controls is None else [[*controls, *wires] for wires in named]
        )

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        loop = ForLoop.from_equation(eqn, operands)
        if isinstance(loop.length, int) and self._unroll_loops:
            carried: Sequence[Any] = loop.carried
            for number in range(loop.length):
                carried = self._collect(loop.body, [*loop.constants, np.asarray(number), *carried])
            return carried
        unknown = [None] * len(loop.carried)
        self._collect(loop.body, [*loop.constants, None, *unknown])
        return unknown

    def _interpret_while_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        loop = WhileLoop.from_equation(eqn, operands)
        unknown = [None] * len(loop.carried)
        self._collect(loop.body, [*loop.constants, *unknown])
        return unknown

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> list[Any]:
        _, *operands = given
        for branch in eqn.params["branches"]:
            self._collect(branch, operands)
        return [None] * len(eqn.outvars)


def _mark_unknown(operands: Sequence[Any]) -> list[Any]:
    return [UnknownValue() if operand is None else operand for operand in operands]


def _to_static_wire(wire: Wire) -> Any:
    """Return a wire; as Python's number, where it is one."""
    value = evaluate_constant(wire) if is_dynamic(wire) else wire
    if value is None:
        return UnknownValue()
    return int(value) if isinstance(value, np.ndarray | np.generic) else value
