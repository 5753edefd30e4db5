"""Who runs a circuit stands in its module, and so does why."""

import io
import re

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import CountingDevice

import bellhop
from bellhop import profile
from bellhop.drawing.graph import BoxKind

DEVICES = {name: qml.device(name, wires=2) for name in ("lightning.qubit", "default.qubit")}


def circuit_on(device, measure=lambda: qml.expval(qml.Z(1)), shots=None):
    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return measure()

    return qml.set_shots(circuit, shots) if shots else circuit


def backends_of(function):
    """Return the plan of each circuit, without the part after its executor."""
    return re.findall(r'backend = "(.*?)(?:, outcomes \w+)?, derivatives by [^"]*"', function.mlir)


def ran(function, *args):
    """Return by kind of crossing, of which circuits of the engine have names of their own."""
    with profile() as recorded:
        function(*args)
    return {row.kind for row in recorded.rows if row.kind.startswith("circuit")}


@pytest.mark.parametrize("name", DEVICES)
def test_the_engine(name):
    f = bellhop.qjit(circuit_on(DEVICES[name]))
    np.testing.assert_allclose(f(0.3), np.cos(0.3))
    assert backends_of(f) == ["engine"]
    assert ran(f, 0.3) == {"circuit, engine"}


def test_the_plugin_by_option():
    f = bellhop.qjit(circuit_on(DEVICES["lightning.qubit"]), engine="plugin")
    np.testing.assert_allclose(f(0.3), np.cos(0.3))
    assert backends_of(f) == ["plugin: it has engine='plugin'"]
    assert ran(f, 0.3) == {"circuit"}


def test_the_plugin_for_shadows():
    shadow = circuit_on(DEVICES["lightning.qubit"], lambda: qml.classical_shadow([0, 1]), 10)
    f = bellhop.qjit(shadow)
    f(0.3)
    (backend,) = backends_of(f)
    assert backend.startswith("plugin: the circuit measures classical shadows")
    assert ran(f, 0.3) == {"circuit"}


def test_the_plan_is_printed_and_is_what_runs():
    """A loop of more runs of gates than the engine stores stays in the engine."""

    @qml.qnode(DEVICES["lightning.qubit"])
    def circuit(x):
        def body(i, angle):
            bellhop.cond(angle > 0.5, lambda: qml.RX(angle, 0) and None)()
            return angle + 0.001

        bellhop.for_loop(0, 5000, 1)(body)(x)
        return qml.expval(qml.Z(0))

    log = io.StringIO()
    f = bellhop.qjit(circuit, verbose=True, logfile=log)
    value = f(0.3)
    plan = "engine, derivatives by adjoint, double precision"
    assert f'backend = "{plan}"' in f.mlir
    assert plan in bellhop.draw(f)(0.3).mermaid
    assert f"is executed by the {plan}" in log.getvalue()
    assert ran(f, 0.3) == {"circuit, engine"}
    plugin = bellhop.qjit(circuit, engine="plugin")
    np.testing.assert_allclose(value, plugin(0.3))
    assert ran(plugin, 0.3) == {"circuit"}
    slopes = [bellhop.qjit(bellhop.grad(circuit), engine=e)(0.3) for e in ("auto", "plugin")]
    np.testing.assert_allclose(*slopes)


def test_a_derivative_says_it_anew():
    f = bellhop.qjit(lambda x: (circuit(x), bellhop.grad(circuit)(x)))
    circuit = circuit_on(DEVICES["lightning.qubit"])
    f(0.3)
    assert backends_of(f) == ["engine", "engine"]


shadow_mean = lambda: qml.shadow_expval(qml.Z(1))

IN_THE_PROGRAM = {
    "backprop": ({"diff_method": "backprop"}, {}, {}, "its diff_method is 'backprop'"),
    "a shadow": (
        {},
        {},
        {"shots": 10, "measure": shadow_mean},
        "the circuit measures classical shadows",
    ),
    "option": ({}, {"engine": "plugin"}, {}, "it has engine='plugin'"),
    "state": (
        {},
        {},
        {"measure": qml.state},
        "the circuit returns a state, or a function of a state",
    ),
    "mixtures": ({}, {}, {"name": "default.mixed"}, "default.mixed has no engine"),
}


@pytest.mark.parametrize("case", IN_THE_PROGRAM)
def test_the_program(case):
    """Pictures and reports say why it is there; in the module it is but operations."""
    options, compiling, made, reason = IN_THE_PROGRAM[case]
    measure = made.get("measure", lambda: qml.expval(qml.Z(1)))
    device = qml.device(made.get("name", "default.qubit"), wires=2)
    circuit = circuit_on(device, measure).update(**{"diff_method": "best", **options})
    circuit = qml.set_shots(circuit, made.get("shots"))
    log = io.StringIO()
    f = bellhop.qjit(circuit, verbose=True, logfile=log, **compiling)
    f(0.3)
    (noted,) = (line for line in log.getvalue().splitlines() if "in the program" in line)
    assert re.fullmatch(
        rf"circuit \(.*test_backend.py:\d+\) is in the program: {reason}, .*", noted
    )
    graph = bellhop.draw(f)(0.3).graph
    (box,) = (node.lines for node in graph.nodes() if node.kind == BoxKind.CIRCUIT)
    assert box[0] == "circuit"
    assert box[1].endswith(", 2 qubits")
    assert box[2].startswith(f"in the program: {reason}, derivatives by ")


@pytest.mark.parametrize(
    ("device", "executor"),
    [
        (qml.device("null.qubit", wires=2), "nothing"),
        (CountingDevice(wires=2), "Python: counting has no compiled plugin"),
    ],
)
def test_verbose_prints_the_plans_of_other_backends(device, executor):
    log = io.StringIO()
    bellhop.qjit(circuit_on(device), verbose=True, logfile=log)(0.3)
    plan = f"{executor}, derivatives by best, double precision"
    assert f"is executed by {plan}" in log.getvalue()


def test_the_program_for_a_matrix():
    @qml.qnode(qml.device("default.qubit"))
    def circuit(x):
        qml.QubitUnitary(qml.RX.compute_matrix(x), 0)
        return qml.expval(qml.Z(0))

    drawing = bellhop.draw(bellhop.qjit(circuit))(0.3).mermaid
    assert "the circuit has a matrix that is traced or not unitary" in drawing


def test_derivatives_in_the_program():
    """The values of the device's own are the plugin's, and a state's second derivative is not."""
    circuit = circuit_on(DEVICES["lightning.qubit"], qml.state)
    slope = jax.jacfwd(jax.jacfwd(lambda x: circuit(x).real))
    log = io.StringIO()
    bellhop.qjit(slope, verbose=True, logfile=log)(0.3)
    assert "in the program: the runtime lacks some of the circuit's derivatives" in log.getvalue()
