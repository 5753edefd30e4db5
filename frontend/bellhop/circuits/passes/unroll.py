"""``UnrollPass``: unroll nests of loops with few gates.

The loops ``for i in range(3): for j in range(i): RX(x[i, j], j)`` are interpreted once for each
iteration, with NumPy scalars as indices.  So lengths and wires that follow from the indices are
known, and the gates join those before and after the loops::

    quantum_for_loop[length=3 body={ lambda ; i. let                 apply([RX(x[1, 0], 0),
        quantum_for_loop[body={ lambda ; j. let             --->            RX(x[2, 0], 0),
            quantum_operations[RX] x[i, j] j                                RX(x[2, 1], 1)])
          in () }] i
      in () }]
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import Operand
from bellhop.circuits.ir.gate_jaxpr import ForLoop, GateJaxpr
from bellhop.circuits.ir.interpreter import GateReceiver
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.circuit_pass import CircuitPass


class UnrollPass(CircuitPass):
    """Pass that unrolls nested loops whose gates are few and have static wires.

    The unrolled gates become one sequence without loops, which the runtime applies in one call.

    Args:
        circuit: the backend's circuit, the next interpreter.
        try_apply_gates: applies a list of operations if they are few gates without control flow;
            returns whether it did.
    """

    def __init__(
        self, circuit: GateReceiver, try_apply_gates: Callable[[Sequence[Any]], bool]
    ) -> None:
        super().__init__(circuit)
        self._try_apply_gates = try_apply_gates
        self._n_wires = len(circuit.labels())
        self._nest: _UnrolledNest | None = None

    @staticmethod
    def is_needed(closed: ClosedJaxpr) -> bool:
        """Return whether a jaxpr with gates has a for loop in another for loop."""
        return GateJaxpr(closed, ()).has_nested_loops

    def apply(self, operations: Sequence[Any]) -> None:
        """Forward operations; while nested loops are being unrolled, collect them instead."""
        if self._nest is None:
            super().apply(operations)
        else:
            self._nest.collect(operations)

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Unroll nested loops with few gates; pass any other loop on.

        While an outer loop is being unrolled, this unrolls its inner loops. The arguments are as in
        `Interpreter.for_loop`; a loop that can be unrolled carries no values.

        Returns:
            the carried values after the loop; ``()`` if it was unrolled.
        """
        if self._nest is not None:
            self._nest.unroll(n_iterations, body)
            return ()
        if can_unroll and self._try_unroll_nest(n_iterations, body):
            return ()
        return super().for_loop(n_iterations, body, carried)

    def _try_unroll_nest(self, n_iterations: int | Operand, body: Callable[..., Any]) -> bool:
        """Apply the gates of nested loops as one sequence without loops, where possible.

        No gate is applied if a trip count is traced, a wire is traced or invalid, the loops contain
        other control flow, or there are many gates.

        Args:
            n_iterations: the trip count of the outer loop.
            body: ``((), index) -> ()``, which applies the gates of one iteration of the outer loop.

        Returns:
            whether the gates were applied.
        """
        nest = self._nest = _UnrolledNest(self._n_wires)
        try:
            nest.unroll(n_iterations, body)
        finally:
            self._nest = None
        return nest.is_straight and self._try_apply_gates(nest.operations)


class _UnrolledNest:
    """The operations of nested loops that are being unrolled, in order of execution.

    Args:
        n_wires: the number of wires of the device.

    Attributes:
        operations: the operations so far.
        is_straight: whether the loops can be unrolled so far: all trip counts are static, there are
            few operations, and all wires are static and valid.
    """

    def __init__(self, n_wires: int) -> None:
        self._n_wires = n_wires
        self.operations: list[Any] = []
        self.is_straight = True

    def unroll(self, n_iterations: int | Operand, body: Callable[..., Any]) -> None:
        """Call the body of a loop without carried values once per iteration.

        The body's operations come to `collect`. Once ``is_straight`` is False, the body is not
        called.

        Args:
            n_iterations: the trip count. A tracer sets ``is_straight`` to False.
            body: ``((), index) -> ()``, which applies the gates of one iteration.
        """
        self.is_straight &= isinstance(n_iterations, int)
        numbers = range(n_iterations) if isinstance(n_iterations, int) else ()
        for number in itertools.takewhile(lambda _: self.is_straight, numbers):
            body((), np.asarray(number))

    def collect(self, operations: Sequence[Any]) -> None:
        """Append operations; set ``is_straight`` to False if they cannot be unrolled.

        Operations cannot be unrolled if there are too many, if a wire is traced, or if a wire that
        is computed from an index is out of range or repeated. The nested loops are then not
        unrolled, and invalid wires are reported when the program runs.
        """
        self.operations.extend(operations)
        for op in operations:
            # A wire computed from a static iteration index is a NumPy scalar.
            computed = [
                wire for wire in op.wires if is_dynamic(wire) or isinstance(wire, np.generic)
            ]
            if computed and (
                any(map(is_dynamic, computed))
                or not set(map(int, computed)) <= set(range(self._n_wires))
                or len(set(op.wires)) < len(op.wires)
            ):
                self.is_straight = False
        self.is_straight &= len(self.operations) <= ForLoop.MAX_UNROLLED_GATES
