"""Find the wires that a jaxpr with gates uses, for devices without wires of their own.

The interpreter evaluates constant expressions only and traces nothing.  All other values are
unknown, which the methods here represent by None.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from bellhop.base.types import Operand, Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.gate_jaxpr import ForLoop, UnknownValue, WhileLoop, get_operations
from bellhop.circuits.ir.interpreter import GateInterpreter
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.jaxprs.constant_eval import evaluate_constant, evaluate_or_none


class UsedWires(GateInterpreter):
    """Analysis that finds the wires of gates and mid-circuit measurements in a jaxpr.

    Used for a device that was created without wires, which then has the wires that its circuit
    uses; and for the wires of an adjoint or controlled function, or of control flow in a tape. The
    jaxpr is interpreted when an instance is made; no gates are applied and nothing is traced.

    Args:
        closed: the quantum function, a jaxpr with gate equations.
        unroll_loops: whether to interpret each iteration of a loop with a static trip count, so
            that wires computed from the iteration's index are found.

    Attributes:
        results: the values of the jaxpr's outputs, an ``UnknownValue`` for each that is not
            constant.
    """

    def __init__(self, closed: ClosedJaxpr, *, unroll_loops: bool = False) -> None:
        self._unroll_loops = unroll_loops
        self._applied: list[Any] = []
        # The wires of each operation and mid-circuit measurement, in order.
        self._named: list[list[Any]] = []
        self.results = _mark_unknown(self._collect(closed, [None] * len(closed.in_avals)))

    def list_wires(self, processes: Sequence[Any] = ()) -> list[Any]:
        """Return the labels of all wires, each once, in the order of their first use.

        Wires of ``qml.allocate`` are left out.

        Args:
            processes: the final measurement processes, whose wires follow the gates' wires.

        Returns:
            wire labels, with an ``UnknownValue`` for each wire that is not constant.
        """
        named = [wire for wires in self._named for wire in wires]
        named += [wire for process in processes for wire in process.wires]
        labels = itertools.filterfalse(Allocations.is_allocated, named)
        return list(dict.fromkeys(map(_to_static_wire, labels)))

    def list_wires_or(self, labels: Sequence[Any]) -> list[Any]:
        """Return the wires of the gates, each once; ``labels`` if a wire is traced.

        Args:
            labels: all wire labels of the circuit, returned if a wire is not constant.
        """
        wires = self.list_wires()
        are_known = not any(isinstance(wire, UnknownValue) for wire in wires)
        return wires if are_known else list(labels)

    @property
    def n_allocated(self) -> int:
        """The number of wires that the recorded ``qml.allocate`` operations need.

        A deallocated wire is reused, and is counted once.
        """
        return Allocations.count_needed(self._applied)

    def _collect(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
        """Record the wires in a jaxpr with gates, and return the values of its outputs.

        ``closed`` is the jaxpr of a function, a loop's body or a branch. An input or output whose
        value is unknown is None.
        """
        plain = ClosedJaxpr(closed.jaxpr, list(map(evaluate_constant, closed.consts)))
        return self.interpret(plain, *inputs)

    def _interpret_classical(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Evaluate an equation without gates by NumPy; None for each unknown result."""
        return evaluate_or_none(eqn, *operands)

    def _interpret_operations(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Record the wires of the equation's operations; return no results."""
        for op in get_operations(eqn, _mark_unknown(operands)):
            self._collect_operation(op)
        return []

    def _collect_operation(self, op: Any) -> None:
        """Record the wires of one operation.

        For a `ControlFlow` operation, a loop or conditional, these are the wires of the gates in it
        and of controls around it.
        """
        if not ControlFlow.is_instance(op):
            self._applied.append(op)
            self._named.append(list(op.wires))
            return
        start = len(self._named)
        base, modifiers = Modifiers.strip(op)
        gates, operands = map(base.hyperparameters.get, ("gates", "operands"))
        is_number = lambda value: isinstance(value, jax.Array | np.ndarray | np.generic)
        self._collect(
            gates, [evaluate_constant(each) if is_number(each) else None for each in operands]
        )
        if modifiers.adjoint:
            self._apply_modifier(start, None)
        if modifiers.controls:
            self._apply_modifier(start, [wire for wire, _ in modifiers.controls])

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Record the wire of a mid-circuit measurement; return None as its unknown outcome."""
        self._named.append(eqn.params["operator"].with_values(_mark_unknown(operands)))
        return [None]

    def _interpret_region(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Record the wires of an adjoint or controlled function; return no results.

        An operand whose value is unknown is None.
        """
        body, controls = eqn.params["body"], eqn.params["controls"]
        n, start = len(body.in_avals), len(self._named)
        self._collect(body, operands[:n])
        wires = None if controls is None else controls.with_values(_mark_unknown(operands[n:]))[0]
        self._apply_modifier(start, wires)
        return []

    def _apply_modifier(self, start: int, controls: Any) -> None:
        """Reverse the recorded operations of an adjoint, or add the wires of a control.

        The order of the wires then agrees with PennyLane's order for such an operation.

        Args:
            start: the index in ``self._named`` of the first operation of the function.
            controls: the control wires; None for an adjoint.
        """
        named = self._named[start:]
        self._named[start:] = (
            reversed(named) if controls is None else [[*controls, *wires] for wires in named]
        )

    def _interpret_for_loop(self, eqn: JaxprEqn, *operands: Operand) -> Sequence[Any]:
        """Record the wires of a for loop's body, or of each iteration if loops are unrolled.

        An operand whose value is unknown is None.

        Returns:
            the carried values after the loop, None for each unknown value.
        """
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
        """Record the wires of a while loop's body, with unknown carried values.

        An operand whose value is unknown is None.

        Returns:
            None for each carried value.
        """
        loop = WhileLoop.from_equation(eqn, operands)
        unknown = [None] * len(loop.carried)
        self._collect(loop.body, [*loop.constants, *unknown])
        return unknown

    def _interpret_cond(self, eqn: JaxprEqn, *given: Any) -> list[Any]:
        """Record the wires of all branches; return None for each result, which is unknown."""
        _, *operands = given
        for branch in eqn.params["branches"]:
            self._collect(branch, operands)
        return [None] * len(eqn.outvars)


def _mark_unknown(operands: Sequence[Any]) -> list[Any]:
    """Replace each None, an unknown value, by an ``UnknownValue``."""
    return [UnknownValue() if operand is None else operand for operand in operands]


def _to_static_wire(wire: Wire) -> Any:
    """Return a wire as a hashable static label.

    An integer array becomes an ``int``; a tracer is evaluated if it is constant, and becomes an
    ``UnknownValue`` otherwise.
    """
    value = evaluate_constant(wire) if is_dynamic(wire) else wire
    if value is None:
        return UnknownValue()
    return int(value) if isinstance(value, np.ndarray | np.generic) else value
