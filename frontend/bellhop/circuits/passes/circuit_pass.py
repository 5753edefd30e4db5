"""``CircuitPass``: the base class of passes.

A pass is an interpreter that changes some constructs of a circuit and hands all of them to its
target, which is another pass or a backend.  A pass that drops the gates on wire 0::

    class DropWire(CircuitPass):
        def apply(self, operations):
            self.target.apply([op for op in operations if 0 not in op.wires])

    DropWire(circuit).interpret(closed, *inputs)
"""

from collections.abc import Callable, Sequence
from typing import Any

from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.tracing.current_circuit import Branches


class CircuitPass(Interpreter):
    """Base class of passes, which hands each construct to the next interpreter.

    A pass interprets a jaxpr with gate equations and changes some constructs; a subclass overrides
    the methods of these constructs (operations, loops, conditionals, mid-circuit measurements).

    Args:
        target: the next interpreter of the chain, another pass or the backend's circuit.
    """

    def __init__(self, target: Interpreter) -> None:
        self.target = target
        self.where = target.where
        self.precision = target.precision

    def apply(self, operations: Sequence[Any]) -> None:
        """Hand operations to the target."""
        self.target.apply(operations)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Pass a mid-circuit measurement on to ``self.target``, the next interpreter.

        Args:
            label: the wire label, static or traced.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site: the user's ``file:line``, for errors.
            is_joint: whether the measurement is a part of a ``pauli_measure``, with gates around
                it.

        Returns:
            the outcome, a traced bool scalar (for a tape: PennyLane's ``MeasurementValue``).
        """
        return self.target.mid_measure(
            label, reset=reset, postselect=postselect, site=site, is_joint=is_joint
        )

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        is_nest: bool = False,
    ) -> tuple[Any, ...]:
        """Pass a for loop on to ``self.target``, the next interpreter.

        Args:
            n_iterations: the trip count, an ``int``, or a tracer if it is dynamic.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
            is_nest: whether the loop can be unrolled: it contains only loops, gates and elementwise
                computations, and carries no values.

        Returns:
            the carried values after the loop.
        """
        return self.target.for_loop(n_iterations, body, carried, is_nest=is_nest)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Hand a while loop to the target; return the carried values after it."""
        return self.target.while_loop(condition, body, carried)

    def branch(self, branches: Branches) -> Any:
        """Hand a conditional to the target; return its result."""
        return self.target.branch(branches)

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation."""
        self.target.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        return self.target.find_site(operation)
