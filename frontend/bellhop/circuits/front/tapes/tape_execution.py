"""Execution of PennyLane tapes as quantum functions.

The operations ``MidMeasure(0)`` and ``Conditional(m, RY(x, 1))`` of a tape become
``m = measure(0)`` and ``cond(m, qml.RY)(x, 1)``, and ``expval(mv=m)`` measures that outcome.  A
projector of ``defer_measurements`` becomes ``measure(0, postselect=1)``.
"""

from typing import Any

import pennylane as qml

from bellhop.circuits.front.mid_circuit_measure import measure_wire
from bellhop.control_flow.cond import cond
from bellhop.tracing.state import current_circuit


class ReturnedOutcome(qml.measurements.SampleMP):
    """Placeholder on a tape for a mid-circuit outcome that the quantum function returns.

    It is a measurement process, so that transforms keep it; ``apply_tape`` returns the outcome in
    its place. Two placeholders are equal only if they are the same object. PennyLane's comparison
    uses the wires, and ignores the function that is applied to the outcomes.
    """

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def hash(self) -> int:
        """The hash of the object's identity."""
        return id(self)


# Maps classes of measurement processes to the function that measures an outcome.
_MEASURE_OUTCOME: dict[type, Any] = {
    qml.measurements.ExpectationMP: qml.expval,
    qml.measurements.VarianceMP: qml.var,
    qml.measurements.ProbabilityMP: lambda outcome: qml.probs(op=outcome),
    qml.measurements.SampleMP: qml.sample,
    qml.measurements.CountsMP: lambda outcome: qml.counts(op=outcome),
    ReturnedOutcome: lambda outcome: outcome,
}


def apply_tape(tape: qml.tape.QuantumScript) -> Any:
    """Apply the operations of a tape to the current circuit, and queue its measurements.

    Mid-circuit measurements and conditionals on their outcomes are traced as Bellhop's ``measure``
    and ``cond``.

    Returns:
        a tuple with an object for each measurement of the tape, or the object if there is one
        measurement: the measurement process, with traced mid-circuit outcomes, or the outcome in
        place of a ``ReturnedOutcome``.
    """
    outcomes: dict[str, Any] = {}

    def measure(mid: Any) -> Any:
        """Trace a ``MidMeasure``; store its outcome by the measurement's id, and return it."""
        options = {"reset": mid.reset, "postselect": mid.postselect}
        outcomes[mid.meas_uid] = measure_wire(current_circuit(), mid.wires, site="", **options)
        return outcomes[mid.meas_uid]

    def evaluate_outcome(measured: Any) -> Any:
        """Compute a ``MeasurementValue``, an expression of outcomes, from the traced outcomes.

        If a transform has removed a ``MidMeasure`` from the operations, it is measured now.
        """
        # Transforms may remove a `MidMeasure` from the operations; it is measured on first use.
        known = [outcomes.get(mid.meas_uid) for mid in measured.measurements]
        pairs = zip(known, measured.measurements, strict=True)
        return measured.processing_fn(*(measure(m) if o is None else o for o, m in pairs))

    for operation in tape.operations:
        if isinstance(operation, qml.ops.MidMeasure):
            measure(operation)
        elif isinstance(operation, qml.ops.qubit.BasisStateProjector):
            # PennyLane's defer_measurements replaces a postselection by a projector.
            for wire, bit in zip(operation.wires, operation.data[0], strict=True):
                measure_wire(current_circuit(), wire, site="", reset=False, postselect=int(bit))
        elif isinstance(operation, qml.ops.Conditional):
            _apply_conditionally(evaluate_outcome(operation.meas_val), operation.base)
        else:
            qml.apply(operation)

    def measure_process(process: qml.measurements.MeasurementProcess) -> Any:
        """Queue a measurement process of the tape, with traced outcomes in it.

        Returns:
            the queued measurement process; for a ``ReturnedOutcome``, the traced outcome.
        """
        if process.mv is None:
            return qml.apply(process)
        measure_outcome = _MEASURE_OUTCOME[type(process)]
        if isinstance(process.mv, list | tuple):
            return measure_outcome(list(map(evaluate_outcome, process.mv)))
        return measure_outcome(evaluate_outcome(process.mv))

    results = tuple(map(measure_process, tape.measurements))
    return results[0] if len(results) == 1 else results


def _apply_conditionally(condition: Any, operation: Any) -> None:
    """Apply an operation if a traced condition is True, as a ``cond`` of the circuit."""

    def branch() -> None:
        """Apply the operation."""
        qml.apply(operation)

    cond(condition, branch)()
