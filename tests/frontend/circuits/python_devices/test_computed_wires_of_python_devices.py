"""Wires that the program computes, on devices that Python calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import CountingDevice

import bellhop


def circuit(x, i, j):
    qml.RX(x, 0)
    qml.CNOT([i, j])
    qml.adjoint(qml.ctrl(qml.RX(x, j), i))
    bellhop.cond(x > 0.5, lambda: qml.RY(x, i), lambda: qml.RY(2 * x, j))()
    return qml.expval(0.3 * qml.Z(j) @ qml.X(i) + qml.Y(i)), qml.probs(wires=[j, 0])


def on(device, function=circuit):
    return qml.QNode(function, device)


def reference():
    return on(qml.device("default.qubit", wires=3))


def close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), ours, theirs)


def test_values_and_derivatives():
    def total(node):
        def both(*args):
            mean, probs = node(*args)
            return 2 * mean + probs[1], (mean, probs)

        return both

    program = lambda node: bellhop.qjit(jax.value_and_grad(total(node), has_aux=True))
    close(program(on(CountingDevice(wires=3)))(0.7, 2, 1), program(reference())(0.7, 2, 1))


def test_a_batch_of_wires_is_one_execution():
    device = CountingDevice(wires=3)
    mapped = lambda node: bellhop.qjit(jax.vmap(lambda *args: node(*args)[0]))
    wires = jnp.array([[1, 2], [2, 1]])
    points = jnp.array([0.2, 0.8])
    close(mapped(on(device))(points, *wires), mapped(reference())(points, *wires))
    assert len(device.batches) == 1


def test_equal_wires_are_an_error():
    with pytest.raises(bellhop.CircuitError, match=r"CNOT on wires \[1, 1\]: expected different"):
        bellhop.qjit(on(CountingDevice(wires=3)))(0.7, 1, 1)


def test_a_wire_that_is_not_there_is_the_error_of_the_device():
    with pytest.raises(qml.exceptions.WireError, match="not found on the device"):
        bellhop.qjit(on(qml.device("reference.qubit", wires=3)))(0.7, 1, 7)


def test_a_device_without_wires_is_refused():
    with pytest.raises(bellhop.CompileError, match="and the device was made without wires"):
        bellhop.qjit(on(CountingDevice()))(0.7, 1, 2)
