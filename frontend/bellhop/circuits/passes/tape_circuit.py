"""Circuits that become tapes, which have no loops.

Python runs each iteration of a loop of known length while the quantum function is traced:
``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` puts ``RX(x * 0)``, ``RX(x * 1)`` and ``RX(x * 2)``
on the tape.  A loop whose length the program computes is refused, and so is a conditional.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pennylane as qml

from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.played_circuit import PlayedCircuit
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches, GateRecorder


class TapeCircuit(PlayedCircuit):
    """A circuit that becomes a tape; its mid-circuit measurements are PennyLane's own.

    Args:
        where: the QNode and its line, for errors.
        rows: the row of the batches of parameters.
        refused: takes the name of what no tape holds, and returns the error.
        device_wires: those of the device, if it has some of its own.
        knows_wires: whether all wires must be known, as noise models do, which know no outcomes:
            what was traced is then played in pieces.

    Attributes:
        steps: so far, in order: operations, or what stands for some.
    """

    def __init__(
        self,
        where: str,
        rows: TracedRow,
        make_error: Callable[[str], CompileError],
        device_wires: Any = None,
        *,
        knows_wires: bool = False,
    ) -> None:
        super().__init__(WireMap(tuple(device_wires or ()), where), where, rows)
        self.steps: list[Any] = []
        self.has_operation_outcomes = not knows_wires
        self._make_error = make_error
        self._knows_wires = knows_wires
        self._measurement_ids = itertools.count()

    def apply(self, operations: Sequence[Any]) -> None:
        """Append operations."""
        self.check_static(operations, "gates")
        self.steps += operations

    def check_static(self, parts: Sequence[Any], label: str) -> None:
        """Refuse outcomes that are parameters, and computed wires where they must be known."""
        for part in parts:
            if any(
                isinstance(value, qml.ops.MeasurementValue) for value in getattr(part, "data", ())
            ):
                raise self._make_error(f"{part.name} by the outcome of a measure")
        if self._knows_wires and any(is_dynamic(wire) for part in parts for wire in part.wires):
            raise self._make_error(f"{label} on wires that the program computes")

    def allocate(self, op: Any) -> None:
        """Allocate or deallocate wires as any operation, since devices can."""
        self.apply([op])

    def for_loop(self, n_iterations: int | Operand, body: Any, carried: PyTree) -> Any:
        """Go through a loop of known length, and refuse another one."""
        if not isinstance(n_iterations, int):
            raise self._make_error("a for_loop whose bounds are computed in the program")
        return self.unroll_iterations(n_iterations, body, carried)

    def while_loop(self, condition: Any, body: Any, carried: PyTree) -> Any:
        """Refuse a loop of unknown length."""
        raise self._make_error("a while_loop")

    def branch(self, branches: Branches) -> Any:
        """Refuse a conditional."""
        raise self._make_error(f"a {branches.construct}")

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Queue a measurement, and return PennyLane's value for its outcome."""
        del site
        if self._knows_wires:
            raise self._make_error("a measure")
        self.has_mid_circuit = True
        outcome = qml.ops.MidMeasure(
            wires=qml.wires.Wires([label]),
            reset=reset,
            postselect=None if postselect < 0 else postselect,
            meas_uid=str(next(self._measurement_ids)),
        )
        return qml.ops.MeasurementValue([outcome])

    def get_control_flow_target(self) -> GateRecorder:
        """Return this circuit, which refuses control flow: no operation stands for it."""
        return self
