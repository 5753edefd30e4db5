"""Mid-circuit measurements while a quantum function is traced.

``qml.pauli_measure`` measures a product of Pauli matrices, which no PennyLane device supports:
``qml.pauli_measure("XZ", [0, 1])`` applies ::

    H(0)  CNOT([0, 1])  measure(1)  CNOT([0, 1])  H(0)

The first gates write the parity of both wires into the last wire, and the last gates undo this.  So
the state is projected onto the eigenspace of the outcome, and superpositions in it are preserved.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import pennylane as qml

from bellhop.base.source import user_site
from bellhop.base.types import Wire
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import CurrentCircuit
from bellhop.tracing.measurement_tracer import to_outcome
from bellhop.tracing.state import current_circuit, is_tracing


def measure_wire(
    circuit: CurrentCircuit | None,
    wires: Any,
    *,
    reset: bool,
    postselect: int | None,
    site: str,
    is_joint: bool = False,
) -> Any:
    """Add a mid-circuit measurement of one wire to a circuit.

    Operations that the quantum function queued before are applied first.

    Args:
        circuit: the circuit that is traced; None outside a QNode, which is an error.
        wires: the wire, or a sequence with one wire.
        reset: whether the wire is reset to zero after the measurement.
        postselect: the outcome to postselect, 0 or 1; None without postselection.
        site: the user's ``file:line`` of the measurement, for errors.
        is_joint: whether gates around the measurement make it a measurement of several wires, as
            ``qml.pauli_measure`` is.

    Returns:
        the outcome, a traced bool; on a tape, PennyLane's ``MeasurementValue``.

    Raises:
        CompileError: outside a QNode, unless there is one wire, or for an invalid ``postselect``.
    """
    if not (postselect is None or (isinstance(postselect, int) and postselect in (0, 1))):
        is_traced = isinstance(postselect, jax.core.Tracer)
        got = "a traced value" if is_traced else repr(postselect)
        remedy = (
            "Make postselect static: qjit(static_argnums=...)" if is_traced else "Pass 0, 1 or None"
        )
        raise CompileError(
            f"measure ({site}): expected postselect to be 0, 1 or None, got {got}. {remedy}."
        )
    labels = qml.wires.Wires(wires)
    if len(labels) != 1:
        raise CompileError(
            f"measure ({site}): expected one wire, got {len(labels)}. Pass one wire to each call."
        )
    if circuit is None:
        raise CompileError(
            f"measure ({site}) is called outside of a QNode. Call measure in a quantum function."
        )
    recording = circuit.flush_queue("measure")
    kept = -1 if postselect is None else postselect
    outcome = recording.mid_measure(
        labels[0], reset=reset, postselect=kept, site=site, is_joint=is_joint
    )
    # Circuits on a tape return PennyLane's `MeasurementValue`.
    return outcome if isinstance(outcome, qml.ops.MeasurementValue) else to_outcome(outcome)


def wrap_pauli_measure(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    """Make a ``qml.pauli_measure`` that also works while a program is traced.

    Outside of tracing it calls ``uncompiled``, PennyLane's function.
    """

    def measure(wires: Any, pauli_word: str, postselect: int | None = None) -> Any:
        """Measure by Bellhop while a program is traced, else by PennyLane."""
        call = _measure_pauli_word if is_tracing() else uncompiled
        return call(wires, pauli_word=pauli_word, postselect=postselect)

    return measure


def _measure_pauli_word(wires: Any, pauli_word: str, postselect: int | None) -> Any:
    """Measure a Pauli word, by gates around a mid-circuit measurement of the last wire.

    The gates before the measurement write the parity of all wires into the last wire; their
    inverses follow the measurement.

    Args:
        wires: the wires, one for each letter.
        pauli_word: letters X, Y and Z.
        postselect: the outcome to postselect, 0 or 1; None without postselection.

    Returns:
        the outcome: 0 for the eigenvalue 1, and 1 for -1, as a traced bool; on a tape, PennyLane's
        ``MeasurementValue``.

    Raises:
        CompileError: outside a QNode, or for an invalid ``postselect``. PennyLane raises its error
            for an invalid Pauli word.
    """
    with qml.QueuingManager.stop_recording():
        # PennyLane validates the Pauli word.
        labels = list(qml.ops.PauliMeasure(pauli_word, wires).wires)
        gates = [
            gate
            for wire, pauli in zip(labels, pauli_word, strict=True)
            for gate in _rotate_to_z(pauli, wire)
        ]
        gates += [qml.CNOT(list(pair)) for pair in itertools.pairwise(labels)]
        inverses = [qml.adjoint(gate, lazy=False) for gate in reversed(gates)]
    circuit = current_circuit()
    if circuit is not None:
        circuit.flush_queue("measure")
    for gate in gates:
        qml.apply(gate)
    site = user_site()
    outcome = measure_wire(
        circuit, labels[-1], reset=False, postselect=postselect, site=site, is_joint=True
    )
    for gate in inverses:
        qml.apply(gate)
    return outcome


def _rotate_to_z(pauli: str, wire: Wire) -> list[Any]:
    """Return gates that rotate the eigenbasis of a Pauli matrix to the computational basis.

    Args:
        pauli: ``"X"``, ``"Y"`` or ``"Z"``; Z needs no gates.
        wire: the wire of the gates.
    """
    if pauli == "X":
        return [qml.Hadamard(wire)]
    return [qml.adjoint(qml.S(wire)), qml.Hadamard(wire)] if pauli == "Y" else []
