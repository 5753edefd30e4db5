"""``qml.pauli_measure``: a joint measurement of Pauli matrices, for which PennyLane has no device.

``qml.pauli_measure("XZ", [0, 1])`` applies ::

    H(0)  CNOT([0, 1])  measure(1)  CNOT([0, 1])  H(0)

The first gates write the parity of both wires into the last wire, and the last gates undo them.  So
the state is projected on the eigenspace of the outcome, and superpositions in it stay.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._pennylane.patches.pauli_measure import measure_by
from bellhop.base.source import user_site
from bellhop.base.types import Wire
from bellhop.circuits.recording.mid_circuit import measure_wire
from bellhop.tracing.state import current_circuit, is_tracing


def measure_pauli_words() -> None:
    """Let programs measure Pauli words, however PennyLane's function was imported."""
    measure_by(_in_programs)


def _in_programs(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(wires: Any, pauli_word: str, postselect: int | None = None) -> Any:
        call = _measured if is_tracing() else uncompiled
        return call(wires, pauli_word=pauli_word, postselect=postselect)

    return chosen


def _measured(wires: Any, pauli_word: str, postselect: int | None) -> Any:
    with qml.QueuingManager.stop_recording():
        # PennyLane checks the word and raises the error.
        labels = list(qml.ops.PauliMeasure(pauli_word, wires).wires)
        gates = [
            gate
            for wire, pauli in zip(labels, pauli_word, strict=True)
            for gate in _to_z(pauli, wire)
        ]
        gates += [qml.CNOT([one, other]) for one, other in itertools.pairwise(labels)]
        inverses = [qml.adjoint(gate, lazy=False) for gate in reversed(gates)]
    circuit = current_circuit()
    if circuit is not None:
        circuit.flush_active("measure")
        circuit.joint_measure(user_site())
    for gate in gates:
        qml.apply(gate)
    outcome = measure_wire(
        circuit, labels[-1], reset=False, postselect=postselect, site=user_site()
    )
    for gate in inverses:
        qml.apply(gate)
    return outcome


def _to_z(pauli: str, wire: Wire) -> list[Any]:
    if pauli == "X":
        return [qml.Hadamard(wire)]
    return [qml.adjoint(qml.S(wire)), qml.Hadamard(wire)] if pauli == "Y" else []
