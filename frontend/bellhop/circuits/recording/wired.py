"""Circuits that know which qubit a wire is: they measure wires, and allocate them.

With ``a, = qml.allocate(1)`` on a device with 4 wires, of which the circuit uses 0 and 1, the
circuit applies ``qml.X(a)`` to wire 2 of the device.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bellhop.base.source import user_site
from bellhop.circuits.gates.broadcasting import TracedRow
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.recording.allocation import Allocations
from bellhop.circuits.recording.inverted_functions import NestingCircuit


class WiredCircuit(NestingCircuit):
    """A circuit on qubits.

    Args:
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
        rows: the row of the batches of parameters.
    """

    def __init__(self, wires: WireMap, where: str, rows: TracedRow) -> None:
        super().__init__(where, rows)
        self.wires = wires
        self._allocations = Allocations(wires, where)

    def labels(self) -> Sequence[Any]:
        """Return the wires of the circuit."""
        return self.wires.labels

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        self.flush_active("measure")
        return self._measured_now(label, reset=reset, postselect=postselect, site=site)

    @abstractmethod
    def _measured_now(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire now, without looking at the queue."""

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires."""

        def reset(wire: Any) -> None:
            self._measured_now(wire, reset=True, postselect=-1, site=user_site())

        self._allocations.take(op, reset)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Queue the operations of a loop's body or of a branch, and apply them at the end."""
        with self._allocations.part(), self.queue():
            yield

    def _on_own_wires(self, process: Any) -> Any:
        return self.wires.on_own(process)
