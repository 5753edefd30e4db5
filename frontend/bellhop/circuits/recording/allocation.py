"""Wires that a quantum function allocates: ``qml.allocate`` and ``qml.deallocate``.

Each gets a wire of the device that nothing else uses, as PennyLane's ``resolve_dynamic_wires``
gives them, and wires that come back are used again.  For a device with 4 wires::

    with qml.allocate(1, restored=True) as [a]: ...     a is wire 2, where 0 and 1 are used
    with qml.allocate(2) as [b, c]: ...                 b is wire 2, c is wire 3

In a loop or a branch, which is traced once and runs as often as it does, wires must come back as
they were found: what is not restored is measured and reset there.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pennylane.allocation import Allocate, Deallocate

from bellhop.circuits.gates.wires import WireMap
from bellhop.errors import CompileError


def is_allocation(op: Any) -> bool:
    """Tell whether an operation allocates or deallocates wires."""
    return isinstance(op, Allocate | Deallocate)


@dataclass
class _Loan:
    """A wire of the device that stands for one that was allocated.

    Attributes:
        wire: the device's.
        was_zero: whether it was in the state zero.
        is_restored: whether the quantum function promises to bring it back to that.
        part: the number of the part of the circuit that it was allocated in.
    """

    wire: Any
    was_zero: bool
    is_restored: bool
    part: int


class Allocations:
    """The wires that a circuit has to allocate, and those that it has allocated.

    Args:
        wires: those of the circuit.
        where: the QNode, for errors.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        self._wires = wires
        self._where = where
        # Which are free, by whether they are zero; the last one is taken first.
        self._free: dict[bool, list[Any]] | None = None
        self._loans: dict[Any, _Loan] = {}
        self._part = 0

    def take(self, op: Any, reset: Callable[[Any], Any]) -> None:
        """Allocate or deallocate the wires of an operation.

        Args:
            op: the operation.
            reset: measures a wire of the device, and brings it to zero.

        Raises:
            CompileError: where there are too few, and for what is not of this part of the circuit.
        """
        for label in op.wires:
            if isinstance(op, Allocate):
                self._allocate(label, reset, **op.hyperparameters)
            else:
                self._deallocate(label, reset)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Trace a part of the circuit: a loop's body, or a branch."""
        before = self._free and {is_zero: list(wires) for is_zero, wires in self._free.items()}
        self._part += 1
        try:
            yield
            if any(loan.part == self._part for loan in self._loans.values()):
                raise CompileError(
                    f"{self._where}: a loop or a branch allocates a wire and does not deallocate "
                    "it. Call qml.deallocate there, or use `with qml.allocate(...)`."
                )
        finally:
            self._part -= 1
            # It may run any number of times, after which each wire is as it was.
            self._free = before

    def _allocate(
        self, label: Any, reset: Callable[[Any], Any], *, state: str, restored: bool
    ) -> None:
        if self._free is None:
            self._free = {True: list(reversed(self._wires.spare())), False: []}
        is_zero = bool(self._free[True]) if state == "zero" else not self._free[False]
        if not self._free[is_zero]:
            raise CompileError(
                f"{self._where}: it allocates more wires than are left; those of the device are "
                f"{list(self._wires.labels)}. Give the device more, or deallocate some before."
            )
        wire = self._free[is_zero].pop()
        if state == "zero" and not is_zero:
            reset(wire)
        self._loans[label] = _Loan(wire, is_zero, restored, self._part)
        self._wires.lend(label, wire)

    def _deallocate(self, label: Any, reset: Callable[[Any], Any]) -> None:
        loan = self._loans.get(label)
        if self._free is None or loan is None:
            raise CompileError(
                f"{self._where}: it deallocates a wire that is not allocated. Call "
                "qml.deallocate once for each."
            )
        if loan.part != self._part:
            raise CompileError(
                f"{self._where}: a loop or a branch deallocates a wire that was allocated outside "
                "of it. Move the one to the other."
            )
        del self._loans[label]
        is_zero = loan.was_zero and loan.is_restored
        if self._part and loan.was_zero and not is_zero:
            reset(loan.wire)
            is_zero = True
        self._free[is_zero].append(loan.wire)
        self._wires.take_back(label)


def number_needed(operations: Sequence[Any]) -> int:
    """Return how many wires must be there for those that operations allocate."""
    needed = 0
    free: dict[bool, int] = {True: 0, False: 0}
    is_restored: dict[Any, bool] = {}
    for op in filter(is_allocation, operations):
        for label in op.wires:
            if isinstance(op, Deallocate):
                free[is_restored.pop(label, False)] += 1
                continue
            is_restored[label] = op.restored
            is_zero = op.state == "zero" or not free[False]
            needed += not free[is_zero]
            free[is_zero] = max(free[is_zero] - 1, 0)
    return needed
