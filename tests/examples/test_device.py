"""The device of the examples: any device with a compiled interface runs, or says why not."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pennylane as qml
import pytest
from tests.needs import COMPILER

import bellhop
import bellhop_runtime

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

    with pytest.raises(bellhop.CompileError, match=r"QubitUnitary \(part of RX\)"):
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


# A device of another version, whose factory would end the process.
OTHER_VERSION = """
#include <cstdlib>
extern "C" int bellhop_device_interface() { return VERSION; }
extern "C" void* ReversibleFactory(const char*) { std::abort(); }
"""


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_device_of_another_interface_is_not_loaded(reversible, tmp_path, difference):
    plugin = ctypes.CDLL(str(reversible.build()))
    current = plugin.bellhop_device_interface()
    header = Path(bellhop_runtime.include_dir(), "bellhop/quantum_device.h").read_text()
    assert f"#define BELLHOP_DEVICE_INTERFACE {current}\n" in header

    other = current + difference
    source, library = tmp_path / "other.cc", tmp_path / "libother.so"
    source.write_text(OTHER_VERSION.replace("VERSION", str(other)))
    subprocess.run(["c++", "-shared", "-fPIC", source, "-o", library], check=True)

    class Other(reversible.Reversible):
        @staticmethod
        def get_c_interface():
            return "Reversible", str(library)

    @bellhop.qjit
    @qml.qnode(Other(wires=2))
    def circuit(x):
        bellhop.cond(x)(lambda: qml.X(0))()
        return qml.expval(qml.Z(0))

    message = f"expected version {current} of the device interface, got version {other}"
    with pytest.raises(bellhop.CircuitError, match=message):
        circuit(True)
