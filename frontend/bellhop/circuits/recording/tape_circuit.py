"""Circuits that become tapes, which have no loops.

Python runs each iteration of a loop of known length while the quantum function is traced:
``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` puts ``RX(x * 0)``, ``RX(x * 1)`` and ``RX(x * 2)``
on the tape.  A loop whose length the program computes is refused.
"""

import itertools
from abc import abstractmethod
from typing import Any, NoReturn

import pennylane as qml

from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.gates.broadcasting import TracedRow
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.recording.played_circuit import PlayedCircuit


class TapeCircuit(PlayedCircuit):
    """A circuit that becomes a tape; its mid-circuit measurements are PennyLane's own.

    Args:
        where: the QNode and its line, for errors.
        rows: the row of the batches of parameters.
        device_wires: those of the device, if it has some of its own.
    """

    outcomes_are_operations = True

    def __init__(self, where: str, rows: TracedRow, device_wires: Any = None) -> None:
        super().__init__(WireMap(tuple(device_wires or ()), where), where, rows)
        self._numbers = itertools.count()

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires as any operation, since devices can."""
        self.apply([op])

    def for_loop(self, n_iterations: int | Operand, body: Any, carried: PyTree) -> NoReturn:
        """Refuse a loop of computed length."""
        self._refuse("a for_loop whose bounds are computed in the program")

    def while_loop(self, condition: Any, body: Any, carried: PyTree) -> NoReturn:
        """Refuse a loop of unknown length."""
        self._refuse("a while_loop")

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Queue a measurement, and return PennyLane's value for its outcome."""
        del site
        outcome = qml.ops.MidMeasure(
            wires=qml.wires.Wires([label]),
            reset=reset,
            postselect=None if postselect < 0 else postselect,
            meas_uid=str(next(self._numbers)),
        )
        return qml.ops.MeasurementValue([outcome])

    @abstractmethod
    def _refuse(self, construct: str) -> NoReturn:
        """Raise a ``CompileError`` which says why the circuit cannot hold a construct."""
