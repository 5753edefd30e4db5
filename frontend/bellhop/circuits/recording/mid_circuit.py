"""Measurements in the middle of a circuit, while its quantum function is traced."""

from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.recording.outcomes import as_outcome
from bellhop.errors import CompileError


def measure_wire(
    circuit: Any, wires: Any, *, reset: bool, postselect: int | None, site: str
) -> Any:
    """Measure one wire and return the outcome.

    Args:
        circuit: the circuit that is traced; None outside of one.
        wires: the wire, as the user gave it.
        reset: whether the wire is brought to zero after it.
        postselect: the outcome that is kept, if the user postselects.
        site: ``file:line``, for errors.

    Raises:
        CompileError: outside a QNode, for several wires, or for another ``postselect``.
    """
    if not (postselect is None or (isinstance(postselect, int) and postselect in (0, 1))):
        computed = ", which the program computes. Make it static: qjit(static_argnames=...)"
        raise CompileError(
            f"measure at {site}: postselect must be 0 or 1; it is {postselect!r}"
            f"{computed if isinstance(postselect, jax.core.Tracer) else ''}."
        )
    labels = qml.wires.Wires(wires)
    if len(labels) != 1:
        raise CompileError(f"measure ({site}) takes one wire, and was given {len(labels)}.")
    if circuit is None:
        raise CompileError(
            f"measure ({site}) stands outside of a QNode. Call it in a quantum function."
        )
    circuit.flush_active("measure")
    outcome = circuit.mid_measure(
        labels[0], reset=reset, postselect=-1 if postselect is None else postselect, site=site
    )
    # In a tape, the outcome is PennyLane's own object for it.
    return outcome if isinstance(outcome, qml.ops.MeasurementValue) else as_outcome(outcome)
