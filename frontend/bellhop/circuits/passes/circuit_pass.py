"""``CircuitPass``: the base class of passes.

A pass is an interpreter that changes some constructs of a circuit and passes all of them to its
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
    """Base class of passes; its methods pass each construct to the next interpreter.

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
        """Pass operations to the target."""
        self.target.apply(operations)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Pass a mid-circuit measurement to the target, and return its outcome.

        The arguments are as in `Interpreter.mid_measure`.

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
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Pass a for loop to the target; return the carried values after it.

        The arguments are as in `Interpreter.for_loop`.
        """
        return self.target.for_loop(n_iterations, body, carried, can_unroll=can_unroll)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Pass a while loop to the target; return the carried values after it."""
        return self.target.while_loop(condition, body, carried)

    def branch(self, branches: Branches) -> Any:
        """Pass a conditional to the target; return its result."""
        return self.target.branch(branches)

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation."""
        self.target.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        return self.target.find_site(operation)
