"""Who runs a circuit stands in its module, and so does why."""

import re

import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop import profile

DEVICES = {name: qml.device(name, wires=2) for name in ("lightning.qubit", "default.qubit")}


def circuit_on(device, measure=lambda: qml.expval(qml.Z(1)), shots=None):
    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return measure()

    return qml.set_shots(circuit, shots) if shots else circuit


def backends_of(function):
    return re.findall(r'backend = "([^"]*)"', function.mlir)


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
    assert backend.startswith("plugin: it measures classical shadows")
    assert ran(f, 0.3) == {"circuit"}


def test_a_derivative_says_it_anew():
    f = bellhop.qjit(lambda x: (circuit(x), bellhop.grad(circuit)(x)))
    circuit = circuit_on(DEVICES["lightning.qubit"])
    f(0.3)
    assert backends_of(f) == ["engine", "engine"]
