"""The device of the examples: any device with a compiled interface runs, or says why not."""

import sys
from pathlib import Path

import pennylane as qml
import pytest
from tests.needs import COMPILER

import bellhop

pytestmark = [pytest.mark.subprocess, COMPILER.mark]


@pytest.fixture(scope="module")
def reversible():
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "device"))
    try:
        import reversible

        yield reversible
    finally:
        del sys.path[0]


def test_the_adder_adds(reversible):
    add = reversible.adder(6)
    for x, y in [(0, 0), (63, 63), (21, 42), (37, 38)]:
        assert add(x, y) == x + y


def test_expectation_values_without_shots(reversible):
    @bellhop.qjit
    @qml.qnode(reversible.Reversible(wires=70))
    def circuit():
        qml.X(3)
        qml.CNOT([3, 69])
        qml.ctrl(qml.X(5), control=[3, 4], control_values=[1, 0])
        return qml.expval(qml.Z(69)), qml.expval(qml.Z(5) @ qml.Z(69)), qml.expval(qml.Z(0))

    # A device that is used again starts from zeros.
    for _ in range(3):
        assert [float(value) for value in circuit()] == [-1, 1, 1]


def test_a_measurement_in_the_middle(reversible):
    @bellhop.qjit
    @qml.qnode(reversible.Reversible(wires=2))
    def circuit():
        qml.X(0)
        m = bellhop.measure(0)
        bellhop.cond(m)(lambda: qml.X(1))()
        return qml.expval(qml.Z(1))

    assert float(circuit()) == -1


def test_what_it_does_not_have_is_said_by_name(reversible):
    @bellhop.qjit
    @qml.qnode(reversible.Reversible(wires=2))
    def wrong_gate(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match=r"QubitUnitary \(RX consists of it\)"):
        wrong_gate(0.1)

    @bellhop.qjit
    @qml.qnode(reversible.Reversible(wires=2))
    def wrong_observable():
        return qml.expval(qml.X(0))

    with pytest.raises(Exception, match="example.reversible does not have observables but Z"):
        wrong_observable()

    @bellhop.qjit
    @qml.qnode(reversible.Reversible(wires=2))
    def right():
        qml.X(0)
        return qml.expval(qml.Z(0))

    assert float(right()) == -1
