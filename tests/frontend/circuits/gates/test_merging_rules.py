"""Which gates meet, and what becomes of them."""

import pytest

from bellhop.circuits.backends.compiled.record.gate_sequence import GateSequence
from bellhop.circuits.backends.compiled.record.merging import merge_gates
from bellhop_mlir.dialects.gate import Gate


def gate(name, *wires, by=None, adjoint=False, controls=()):
    constants = () if by is None else (by,)
    return Gate(
        name=name,
        wires=wires,
        slots=(-1,) * len(constants),
        constants=constants,
        adjoint=adjoint,
        control_wires=tuple(wire for wire, _ in controls),
        control_values=tuple(value for _, value in controls),
    )


H, X, Y = (gate(name, 0) for name in ("Hadamard", "PauliX", "PauliY"))

# The gates of a run, and those that are left.
CANCELLED = {
    "across other wires": ([H, gate("PauliX", 1), H], [gate("PauliX", 1)]),
    "pairs inside pairs": ([gate("CNOT", 0, 1), H, H, gate("CNOT", 0, 1)], []),
    "adjoint": ([gate("S", 0), gate("S", 0, adjoint=True)], []),
    "of one angle": ([gate("RX", 0, by=0.3), gate("RX", 0, by=0.3, adjoint=True)], []),
    "wires in another order": ([gate("CZ", 0, 1), gate("CZ", 1, 0)], []),
    "controls in another order": (
        [gate("CZ", 0, 3, controls=[(1, 1), (2, 0)]), gate("CZ", 3, 0, controls=[(2, 0), (1, 1)])],
        [],
    ),
}
KEPT = {
    "order of wires": [gate("CNOT", 0, 1), gate("CNOT", 1, 0)],
    "target of Toffoli": [gate("Toffoli", 0, 1, 2), gate("Toffoli", 0, 2, 1)],
    "some of the wires between": [gate("CNOT", 0, 1), X, gate("CNOT", 0, 1)],
    "control values": [gate("PauliX", 0, controls=[(1, 1)]), gate("PauliX", 0, controls=[(1, 0)])],
    "another angle": [gate("RX", 0, by=0.3), gate("RX", 0, by=0.2, adjoint=True)],
    "no inverse": [gate("S", 0), gate("S", 0)],
    "a computed wire between": [H, gate("PauliX", -1), H],
}
SUMMED = {
    "adjoint": (
        [gate("RZ", 0, by=0.5), gate("RZ", 0, by=0.25, adjoint=True)],
        [gate("RZ", 0, by=0.25)],
    ),
    "zero": ([gate("RZ", 0, by=0.5), gate("RZ", 0, by=-0.5)], []),
    "letters of a word": (
        [gate("PauliRot:XY", 0, 1, by=0.5), gate("PauliRot:YX", 1, 0, by=0.25)],
        [gate("PauliRot:YX", 1, 0, by=0.75)],
    ),
    "other words, axes and wires": (
        axes := [
            *(gate("PauliRot:XY", 0, 1, by=0.5), gate("PauliRot:XY", 1, 0, by=0.25)),
            *(gate("RX", 0, by=0.5), gate("RY", 0, by=0.5), gate("RY", 1, by=0.5)),
        ],
        axes,
    ),
}


@pytest.mark.parametrize("name", CANCELLED)
def test_inverses_go(name):
    gates, left = CANCELLED[name]
    assert merge_gates(GateSequence(gates=gates), ["cancel-inverses"]).gates == left
    assert merge_gates(GateSequence(gates=gates), []).gates == gates


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name):
    assert merge_gates(GateSequence(gates=KEPT[name]), ["cancel-inverses"]).gates == KEPT[name]


@pytest.mark.parametrize("name", SUMMED)
def test_angles_are_summed(name):
    gates, left = SUMMED[name]
    assert merge_gates(GateSequence(gates=gates), ["merge-rotations"]).gates == left


def test_passes_run_in_order():
    gates = [X, gate("RX", 1, by=0.5), X, gate("RX", 1, by=-0.5), Y]
    for passes in (["merge-rotations", "cancel-inverses"], ["cancel-inverses", "merge-rotations"]):
        assert merge_gates(GateSequence(gates=gates), passes).gates == [Y]
    gates = [X, gate("RX", 0, by=0.5), gate("RX", 0, by=-0.5), X]
    assert merge_gates(GateSequence(gates=gates), ["cancel-inverses", "merge-rotations"]).gates == [
        X,
        X,
    ]
