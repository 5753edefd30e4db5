"""Map the wires of ``qml.allocate`` and ``qml.deallocate`` to wires of the device.

Each allocated wire is mapped to a device wire that the circuit does not use otherwise, in the order
of ``resolve_dynamic_wires`` in PennyLane.  A deallocated wire is reused.  On a device with 4 wires,
of which the circuit uses 0 and 1::

    with qml.allocate(1, restored=True) as [a]: ...     a is wire 2
    with qml.allocate(2) as [b, c]: ...                 b is wire 2, c is wire 3

The body of a loop is traced once and runs many times, so each iteration must leave the free wires
unchanged.  A wire that the body allocates without ``restored=True`` is measured and reset when it
is deallocated.  The same holds in a branch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pennylane.allocation import Allocate, Deallocate
from pennylane.wires import DynamicWire

from bellhop.base.types import Wire
from bellhop.circuits.ir.wires import WireMap
from bellhop.errors import CompileError


@dataclass
class _AllocatedWire:
    """The device wire to which a wire of ``qml.allocate`` is mapped, until it is deallocated.

    Attributes:
        wire: the device wire's label.
        was_zero: whether the wire was in the state zero before its allocation, which may reset it.
        is_restored: whether the quantum function promises to restore the wire's state.
        depth: the number of loops and branches around the allocation.
    """

    wire: Any
    was_zero: bool
    is_restored: bool
    depth: int


class Allocations:
    """Allocator of unused device wires, for PennyLane's ``Allocate`` and ``Deallocate`` operations.

    One object serves one circuit while the circuit is traced.

    Args:
        wires: the wires of the device; allocated wires are added to this map.
        where: the QNode's name and line, for error messages.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        self._wires = wires
        self._where = where
        # The free wires, by whether they are in the state zero. The last wire of a list is
        # allocated first.
        self._free: dict[bool, list[Any]] | None = None
        self._allocated: dict[Any, _AllocatedWire] = {}
        self._depth = 0

    @staticmethod
    def is_allocation(op: Any) -> bool:
        """Return whether an operation is an ``Allocate`` or ``Deallocate``."""
        return isinstance(op, Allocate | Deallocate)

    @staticmethod
    def is_allocated(wire: Wire) -> bool:
        """Return whether a wire is a label that ``qml.allocate`` made."""
        return isinstance(wire, DynamicWire)

    @classmethod
    def count_needed(cls, operations: Sequence[Any]) -> int:
        """Count the device wires that the allocations in a sequence of operations need.

        A deallocated wire is reused. If it was allocated with ``restored=True``, it is zero and can
        be allocated again in any state; otherwise only with ``state="any"``.

        Args:
            operations: PennyLane operations, in order; all except allocations are ignored.
        """
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

        The wire map is changed: it maps each allocated wire to a device wire, and no longer has a
        deallocated wire.

        Args:
            op: an ``Allocate`` or ``Deallocate`` operation.
            reset: function of a device wire that measures the wire and resets it to zero. Called
                for an ``Allocate`` with ``state="zero"`` if no free wire is zero, and for a
                ``Deallocate`` in a loop or branch of a wire that was zero and is not restored.

        Raises:
            CompileError: if no wires are left, if a wire is not allocated, or if a wire was
                allocated outside the current loop or branch.
        """
        for label in op.wires:
            if isinstance(op, Allocate):
                self._allocate(label, reset, **op.hyperparameters)
            else:
                self._deallocate(label, reset)

    @contextmanager
    def enter_block(self) -> Iterator[None]:
        """Enter the body of a loop or a branch for a ``with`` block.

        At the end of the block, the same wires are free as before it, since the body is traced once
        and may run any number of times.

        Raises:
            CompileError: if a wire allocated in the ``with`` block is not deallocated there.
        """
        before = self._free and {is_zero: list(wires) for is_zero, wires in self._free.items()}
        self._depth += 1
        try:
            yield
            if any(loan.depth == self._depth for loan in self._allocated.values()):
                raise CompileError(
                    f"{self._where}: a loop or a branch allocates a wire and does not deallocate "
                    "this wire. Call qml.deallocate in the same loop or branch, or use "
                    "`with qml.allocate(...)`."
                )
        finally:
            self._depth -= 1
            # Each execution of the part leaves the free wires as they were before it.
            self._free = before

    def _allocate(
        self, label: Wire, reset: Callable[[Any], Any], *, state: str, restored: bool
    ) -> None:
        """Map a label to a free device wire; reset the wire if it must be zero but is not.

        Args:
            label: the label that ``qml.allocate`` made.
            reset: function of a device wire, which measures the wire and resets it to zero.
            state: ``"zero"`` for a wire that must be zero; ``"any"`` for a wire in any state, which
                is a wire that is not zero if there is one.
            restored: whether the quantum function promises to restore the wire's state.

        Raises:
            CompileError: if no wires are left.
        """
        if self._free is None:
            self._free = {True: list(reversed(self._wires.find_spare())), False: []}
        is_zero = bool(self._free[True]) if state == "zero" else not self._free[False]
        if not self._free[is_zero]:
            raise CompileError(
                f"{self._where}: qml.allocate needs more wires than are free; the device has the "
                f"wires {list(self._wires.labels)}. Use a device with more wires, or deallocate "
                "other wires before."
            )
        wire = self._free[is_zero].pop()
        if state == "zero" and not is_zero:
            reset(wire)
        self._allocated[label] = _AllocatedWire(wire, is_zero, restored, self._depth)
        self._wires.map_allocated(label, wire)

    def _deallocate(self, label: Wire, reset: Callable[[Any], Any]) -> None:
        """Add the device wire of an allocated wire to the free wires, and unmap the label.

        Inside a loop or a branch, a wire that was zero and is not restored is reset first.

        Args:
            label: the label that ``qml.allocate`` made.
            reset: function of a device wire, which measures the wire and resets it to zero.

        Raises:
            CompileError: if the wire is not allocated, or was allocated outside the current loop or
                branch.
        """
        loan = self._allocated.get(label)
        if self._free is None or loan is None:
            raise CompileError(
                f"{self._where}: qml.deallocate got a wire that is not allocated. Call "
                "qml.deallocate once for each allocated wire."
            )
        if loan.depth != self._depth:
            raise CompileError(
                f"{self._where}: a loop or a branch deallocates a wire that was allocated outside "
                "of this loop or branch. Move qml.allocate and qml.deallocate of a wire to the "
                "same loop or branch."
            )
        del self._allocated[label]
        is_zero = loan.was_zero and loan.is_restored
        if self._depth and loan.was_zero and not is_zero:
            reset(loan.wire)
            is_zero = True
        self._free[is_zero].append(loan.wire)
        self._wires.unmap_allocated(label)
