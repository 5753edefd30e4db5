"""Unroll nests of loops with few gates, while their jaxpr is interpreted.

The loops ::

    for i in range(3):
        for j in range(i):
            qml.CRX(x[i, j], [i, j])

are interpreted once for each iteration, with NumPy scalars as indices.  So lengths and wires that
follow from the indices are known, and the gates join those before and after the loops.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.ir.gate_jaxpr import MAX_UNROLLED_GATES
from bellhop.circuits.ir.wires import is_dynamic


class UnrolledNest:
    """The operations of a nest of loops, one iteration after another.

    Args:
        n_wires: the number of wires of the device.

    Attributes:
        operations: the operations so far.
        is_straight: whether the nest can be unrolled: all trip counts are static, and the
            operations are few, on static and valid wires, and without allocations.
    """

    def __init__(self, n_wires: int) -> None:
        self._n_wires = n_wires
        self.operations: list[Any] = []
        self.is_straight = True

    def unroll(self, n_iterations: int | Operand, body: Callable[..., Any]) -> None:
        """Call the body of a loop without carried values for each iteration.

        The body's operations come to `collect`.  After an obstacle, nothing more is called.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer, which is an obstacle.
            body: maps ``()`` and the iteration's index to ``()``.
        """
        self.is_straight &= isinstance(n_iterations, int)
        numbers = range(n_iterations) if isinstance(n_iterations, int) else ()
        for number in itertools.takewhile(lambda _: self.is_straight, numbers):
            body((), np.asarray(number))

    def collect(self, operations: Sequence[Any]) -> None:
        """Append operations; traced or invalid wires, and allocations, are obstacles.

        The loop that is not unrolled reports invalid wires when the program runs.
        """
        self.operations.extend(operations)
        for op in operations:
            # A wire computed from a static iteration index is a NumPy scalar.
            computed = [
                wire for wire in op.wires if is_dynamic(wire) or isinstance(wire, np.generic)
            ]
            # The wires that an allocation frees depend on the code around the loop.
            if Allocations.is_allocation(op) or (
                computed
                and (
                    any(map(is_dynamic, computed))
                    or not set(map(int, computed)) <= set(range(self._n_wires))
                    or len(set(op.wires)) < len(op.wires)
                )
            ):
                self.is_straight = False
        self.is_straight &= len(self.operations) <= MAX_UNROLLED_GATES
