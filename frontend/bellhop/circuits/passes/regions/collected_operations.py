"""Collect the operations that an adjoint or controlled function applies."""

from collections.abc import Sequence
from typing import Any

from bellhop.circuits.ir.gate_jaxpr import GateJaxpr
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.passes.regions.control import ControlPass
from bellhop.circuits.passes.regions.inverse import NOTHING_SAVED, evaluate_gates


def collect_operations(gates: GateJaxpr, controls: tuple[Any, Any] | None, where: str) -> list[Any]:
    """List the operations of an adjoint or controlled function, outside of loops.

    Operations in loops and conditionals are left out. Callbacks of the function are not called
    again.

    Args:
        gates: the function, traced, before inversion or control.
        controls: the control wires and the control values, two lists; None for an adjoint.
        where: the QNode's name and line, which begin error messages.

    Returns:
        the inverted or controlled operations, in order.
    """
    collector = _OperationCollector(where)
    # Callbacks in the function ran when it was applied, so they are not evaluated again.
    evaluated = evaluate_gates(gates.closed, gates.operands, where, NOTHING_SAVED)
    if controls is None:
        evaluated.apply(collector, backwards=True)
    else:
        evaluated.apply(ControlPass(collector, *controls), backwards=False)
    return collector.operations


class _OperationCollector(Interpreter):
    """Interpreter that collects operations, and skips loops and conditionals.

    Args:
        where: the QNode's name and line, which begin error messages.

    Attributes:
        operations: the operations so far, in order.
    """

    def __init__(self, where: str) -> None:
        self.where, self.precision = where, Precision()
        self.operations: list[Any] = []

    def apply(self, operations: Sequence[Any]) -> None:
        """Append operations to the collected operations."""
        self.operations += operations

    def record_site(self, *_: object) -> None:
        pass

    def find_site(self, *_: object) -> str:
        return ""

    def _skip(self, *_: object, **__: object) -> tuple[()]:
        """Skip a loop, conditional or measurement; return no carried values."""
        return ()

    # Evaluated gates have no while loops and no measurements.
    for_loop = branch = while_loop = mid_measure = _skip
