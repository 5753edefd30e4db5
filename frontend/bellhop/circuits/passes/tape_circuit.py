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
    """A circuit that collects operations for a PennyLane tape and unrolls loops.

    Mid-circuit measurements are PennyLane's ``MidMeasure`` operations. While loops, conditionals
    and dynamic trip counts raise an error; a subclass may support conditionals.

    Args:
        where: the QNode's name and line, which begin error messages.
        rows: the row of batched gate parameters that the circuit applies (parameter
            broadcasting). The index of the row is traced.
        make_error: maps the description of an unsupported construct, such as ``"a while_loop"``, to
            the error to raise.
        device_wires: the wire labels of the device; None for a device without wires.
        requires_static_wires: whether all wires must be static and nothing measured mid-circuit, as
            noise models need; otherwise, traced wires and mid-circuit measurements are allowed.

    Attributes:
        steps: the operations so far, in order. A subclass may append objects of other types.
    """

    allocates_wires = True

    def __init__(
        self,
        where: str,
        rows: TracedRow,
        make_error: Callable[[str], CompileError],
        device_wires: Any = None,
        *,
        requires_static_wires: bool = False,
    ) -> None:
        super().__init__(WireMap(tuple(device_wires or ()), where), where, rows)
        self.steps: list[Any] = []
        self.has_operation_outcomes = not requires_static_wires
        self._make_error = make_error
        self._knows_wires = requires_static_wires
        self._measurement_ids = itertools.count()

    def check_static(self, parts: Sequence[Any], label: str) -> None:
        """Raise an error for a parameter or a wire that a tape does not support.

        A mid-circuit outcome must not be a parameter. Wires must be static if
        ``requires_static_wires`` is set.

        Args:
            parts: operations or measurement processes.
            label: a plural noun for the parts, such as ``"gates"``, for errors.

        Raises:
            CompileError: made by ``make_error``.
        """
        for part in parts:
            if any(
                isinstance(value, qml.ops.MeasurementValue) for value in getattr(part, "data", ())
            ):
                raise self._make_error(f"{part.name} with a mid-circuit outcome as a parameter")
        if self._knows_wires and any(is_dynamic(wire) for part in parts for wire in part.wires):
            raise self._make_error(f"{label} on traced wires")

    def apply(self, operations: Sequence[Any]) -> None:
        """Check operations and append them to the steps."""
        self.check_static(operations, "gates")
        self.steps += operations

    def for_loop(
        self, n_iterations: int | Operand, body: Any, carried: PyTree, *, can_unroll: bool = False
    ) -> Any:
        """Call a loop's body once per iteration, which appends its operations to the tape.

        Args:
            n_iterations: the trip count, which must be an ``int``.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration.
            can_unroll: not used.

        Returns:
            the carried values after the last iteration.

        Raises:
            CompileError: if the trip count is dynamic.
        """
        if not isinstance(n_iterations, int):
            raise self._make_error("a for_loop with traced bounds")
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
        """Return the outcome of a new mid-circuit measurement, a ``MeasurementValue``.

        The ``MidMeasure`` operation is created in PennyLane's active queue, if any.

        Args:
            label: the wire label.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site, is_joint: not used.

        Raises:
            CompileError: if ``requires_static_wires`` is set.
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
        """Return the object that records loops and conditionals: this circuit.

        Its methods unroll a loop, or raise an error.
        """
        return self
