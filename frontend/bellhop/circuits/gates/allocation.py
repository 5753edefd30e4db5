"""Wires that a quantum function allocates: ``qml.allocate`` and ``qml.deallocate``.

Each allocated wire stands for a wire of the device that the circuit does not use otherwise, in the
order of PennyLane's ``resolve_dynamic_wires``.  A deallocated wire is used again.  On a device with
4 wires, of which the circuit uses 0 and 1::

    with qml.allocate(1, restored=True) as [a]: ...     a is wire 2
    with qml.allocate(2) as [b, c]: ...                 b is wire 2, c is wire 3

The body of a loop is traced once and runs many times, so it must leave its wires as it found them.
A wire that it allocates and does not restore is measured and reset where it is deallocated.  The
same holds in a branch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pennylane.allocation import Allocate, Deallocate

from bellhop.base.types import Wire
from bellhop.circuits.ir.wires import WireMap
from bellhop.errors import CompileError


@dataclass
class _AllocatedWire:
    """A wire of the device that stands for an allocated wire.

    Attributes:
        wire: the wire of the device.
        was_zero: whether it was in the state zero when it was allocated.
        is_restored: whether the quantum function promises to restore its state.
        depth: how deep in loops and branches it was allocated.
    """

    wire: Any
    was_zero: bool
    is_restored: bool
    depth: int


class Allocations:
    """The wires of a device that a circuit may allocate, and those that it has allocated.

    Args:
        wires: the wires of the device.
        where: the QNode, for errors.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        self._wires = wires
        self._where = where
        # The free wires, those in the state zero and others; the last one is taken first.
        self._free: dict[bool, list[Any]] | None = None
        self._allocated: dict[Any, _AllocatedWire] = {}
        self._depth = 0

    @staticmethod
    def is_allocation(op: Any) -> bool:
        """Return whether an operation allocates or deallocates wires."""
        return isinstance(op, Allocate | Deallocate)

    @classmethod
    def count_needed(cls, operations: Sequence[Any]) -> int:
        """Return how many wires a device needs for the allocations among operations."""
        needed = 0
        free: dict[bool, int] = {True: 0, False: 0}
        is_restored: dict[Any, bool] = {}
        for op in filter(cls.is_allocation, operations):
            for label in op.wires:
                if isinstance(op, Deallocate):
                    free[is_restored.pop(label, False)] += 1
                    continue
                is_restored[label] = op.restored
                is_zero = op.state == "zero" or not free[False]
                needed += not free[is_zero]
                free[is_zero] = max(free[is_zero] - 1, 0)
        return needed

    def apply(self, op: Any, reset: Callable[[Any], Any]) -> None:
        """Allocate or deallocate the wires of an operation.

        Args:
            op: the operation.
            reset: measures a wire of the device and brings it to zero.

        Raises:
            CompileError: if no wires are left, or if a wire was allocated in another part.
        """
        for label in op.wires:
            if isinstance(op, Allocate):
                self._allocate(label, reset, **op.hyperparameters)
            else:
                self._deallocate(label, reset)

    @contextmanager
    def enter_part(self) -> Iterator[None]:
        """Trace a part of the circuit, or decorate it: a loop's body, or a branch."""
        before = self._free and {is_zero: list(wires) for is_zero, wires in self._free.items()}
        self._depth += 1
        try:
            yield
            if any(loan.depth == self._depth for loan in self._allocated.values()):
                raise CompileError(
                    f"{self._where}: a loop or a branch allocates a wire and does not deallocate "
                    "it. Call qml.deallocate there, or use `with qml.allocate(...)`."
                )
        finally:
            self._depth -= 1
            # It leaves each wire as it was, however often it runs.
            self._free = before

    def _allocate(
        self, label: Wire, reset: Callable[[Any], Any], *, state: str, restored: bool
    ) -> None:
        if self._free is None:
            self._free = {True: list(reversed(self._wires.find_spare())), False: []}
        is_zero = bool(self._free[True]) if state == "zero" else not self._free[False]
        if not self._free[is_zero]:
            raise CompileError(
                f"{self._where}: it allocates more wires than are left; those of the device are "
                f"{list(self._wires.labels)}. Give the device more, or deallocate some before."
            )
        wire = self._free[is_zero].pop()
        if state == "zero" and not is_zero:
            reset(wire)
        self._allocated[label] = _AllocatedWire(wire, is_zero, restored, self._depth)
        self._wires.map_allocated(label, wire)

    def _deallocate(self, label: Wire, reset: Callable[[Any], Any]) -> None:
        loan = self._allocated.get(label)
        if self._free is None or loan is None:
            raise CompileError(
                f"{self._where}: it deallocates a wire that is not allocated. Call "
                "qml.deallocate once for each."
            )
        if loan.depth != self._depth:
            raise CompileError(
                f"{self._where}: a loop or a branch deallocates a wire that was allocated outside "
                "of it. Move the one to the other."
            )
        del self._allocated[label]
        is_zero = loan.was_zero and loan.is_restored
        if self._depth and loan.was_zero and not is_zero:
            reset(loan.wire)
            is_zero = True
        self._free[is_zero].append(loan.wire)
        self._wires.unmap_allocated(label)
