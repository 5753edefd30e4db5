"""Circuits that become PennyLane tapes, which have no loops.

A loop with a static trip count is unrolled while the quantum function is traced:
``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` puts ``RX(x * 0)``, ``RX(x * 1)`` and ``RX(x * 2)``
on the tape.  A loop with a dynamic trip count raises an error, and so does a conditional.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pennylane as qml

from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches, GateRecorder


class TapeCircuit(BackendCircuit):
    """A circuit that becomes a tape, with PennyLane's mid-circuit measurements.

    Args:
        where: the QNode and its line, for errors.
        rows: selects the current row of batched parameters.
        make_error: maps the name of a construct that a tape cannot hold to the error to raise.
        device_wires: the wires of the device, or None if it has none.
        knows_wires: whether to raise an error for traced wires and mid-circuit measurements, which
            noise models do not support on tapes.

    Attributes:
        steps: the operations so far, in order; a subclass may append other objects.
    """

    allocates_wires = True

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

    def check_static(self, parts: Sequence[Any], label: str) -> None:
        """Raise an error for outcomes as parameters, and for traced wires if not allowed.

        Args:
            parts: operations or measurement processes.
            label: a plural noun for the parts, for errors.
        """
        for part in parts:
            if any(
                isinstance(value, qml.ops.MeasurementValue) for value in getattr(part, "data", ())
            ):
                raise self._make_error(f"{part.name} by the outcome of a measure")
        if self._knows_wires and any(is_dynamic(wire) for part in parts for wire in part.wires):
            raise self._make_error(f"{label} on wires that the program computes")

    def apply(self, operations: Sequence[Any]) -> None:
        """Check operations and append them to the steps."""
        self.check_static(operations, "gates")
        self.steps += operations

    def for_loop(
        self, n_iterations: int | Operand, body: Any, carried: PyTree, *, is_nest: bool = False
    ) -> Any:
        """Unroll a loop; raise an error if its trip count is traced."""
        if not isinstance(n_iterations, int):
            raise self._make_error("a for_loop whose bounds are computed in the program")
        return self.unroll_iterations(n_iterations, body, carried)

    def while_loop(self, condition: Any, body: Any, carried: PyTree) -> Any:
        """Raise an error: a tape cannot hold a while loop."""
        raise self._make_error("a while_loop")

    def branch(self, branches: Branches) -> Any:
        """Raise an error: a tape cannot hold a conditional."""
        raise self._make_error(f"a {branches.construct}")

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Return PennyLane's ``MeasurementValue`` of a new mid-circuit measurement.

        Raises:
            CompileError: if ``knows_wires`` is set.
        """
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
        """Return this circuit, which unrolls control flow or raises an error."""
        return self
