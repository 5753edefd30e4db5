"""Measurements that a quantum function makes and does not return: errors, as in PennyLane."""

import numpy as np
import pennylane as qml
import pytest

import bellhop


def nothing_more():
    qml.expval(qml.Z(0))


def in_a_list():
    return [qml.probs(wires=0), qml.var(qml.Z(0))][:1]


def in_a_branch():
    @qml.cond(qml.measure(0))
    def branch():
        qml.expval(qml.Z(0))

    branch()


def in_a_loop():
    @qml.for_loop(0, 2)
    def loop(i):
        qml.expval(qml.Z(0))

    loop()


def controlled():
    qml.ctrl(nothing_more, control=1)()


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "null.qubit"])
@pytest.mark.parametrize("measured", [nothing_more, in_a_list, in_a_branch, in_a_loop, controlled])
def test_measurements_that_are_not_returned_are_errors(measured, device):
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x):
        qml.RX(x, wires=0)
        return measured() or qml.probs(wires=0)

    message = rf"the QNode 'circuit' .* \({__file__}:\d+\) is measured and not returned by"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(circuit)(0.4)


def test_one_not_returned_before_a_transform_of_tapes():
    @qml.transforms.split_non_commuting
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        qml.var(qml.Z(0))
        return qml.expval(qml.Z(0)), qml.expval(qml.X(0))

    with pytest.raises(bellhop.CompileError, match=r"var\(Z\(0\)\) .* is measured and not"):
        bellhop.qjit(circuit)(0.4)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_what_is_measured_for_something_else_is_not_lost(device):
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x):
        qml.RX(x, wires=0)
        qml.Snapshot("here", measurement=qml.expval(qml.Z(0)))
        qml.adjoint(lambda: (qml.RX(x, wires=1), qml.expval(qml.Z(1))))()
        with qml.QueuingManager.stop_recording():
            qml.probs(wires=1)
        qml.X(0) @ qml.X(1)
        return {"z": [qml.expval(qml.Z(0))], "probs": qml.probs(wires=1)}

    expected = circuit(0.4)
    result = bellhop.qjit(circuit)(0.4)
    np.testing.assert_allclose(result["z"][0], expected["z"][0])
    np.testing.assert_allclose(result["probs"], expected["probs"], atol=1e-12)


def test_measurements_that_autograph_chooses_between():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x, returned):
        qml.RX(x, wires=0)
        m = qml.expval(qml.Z(0))
        if x > 1:
            m = qml.expval(qml.Y(0))
        return m if returned else qml.probs(wires=0)

    compiled = bellhop.qjit(circuit, autograph=True, static_argnums=1)
    np.testing.assert_allclose([compiled(x, True) for x in (0.4, 2.0)], [np.cos(0.4), -np.sin(2.0)])
    with pytest.raises(bellhop.CompileError, match="is measured and not returned by"):
        compiled(0.4, False)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "reference.qubit"])
def test_gates_after_a_measurement_are_an_error(device):
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x):
        measured = qml.expval(qml.Z(0))
        qml.RX(x, wires=0)
        return measured

    message = rf"the gate RX follows the measurement expval\(Z\(0\)\) \({__file__}:\d+\), expected"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(circuit)(0.4)
