"""Wire labels, and devices with more, fewer or no wires."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop


def circuit_on(*labels: Any) -> Any:
    a, b, c = labels

    def circuit(x: Any) -> Any:
        qml.RX(x, wires=b)
        qml.CNOT(wires=[b, c])
        qml.RY(0.4, wires=a)
        qml.CRZ(x, wires=[a, c])
        qml.Hadamard(wires=c)
        return qml.expval(qml.Z(c) @ qml.X(a)), qml.probs(wires=[c, a]), qml.state()

    return circuit


LABELS = [(0, 1, 2), (2, 0, 1), ("a", "b", "c"), ("aux", 0, 7)]


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_the_device(compare: Any, labels: Any) -> None:
    compare(circuit_on(*labels), 0.3, wires=list(labels))


@pytest.mark.parametrize("labels", LABELS)
def test_device_with_more_wires_than_are_used(compare: Any, labels: Any) -> None:
    compare(circuit_on(*labels), 0.3, wires=["spare", *labels, "other"])


@pytest.mark.parametrize("labels", [*LABELS, (5, 3, 4)])
def test_device_without_wires(compare: Any, labels: Any) -> None:
    compare(circuit_on(*labels), 0.3, wires=None)


def test_device_without_wires_counts_measured_ones(compare: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=1)
        return qml.probs(wires=[2, 1])

    compare(circuit, 0.3, wires=None)


def test_device_without_wires_counts_those_in_loops(
    assert_close: Any, lightning: Any, reference: Any
) -> None:
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(0, 3)
        def loop(_: Any) -> None:
            qml.RX(x, wires="in")
            qml.CNOT(wires=["in", "out"])

        loop()
        return qml.probs(wires=["out", "in"])

    def unrolled(x: Any) -> Any:
        for _ in range(3):
            qml.RX(x, wires="in")
            qml.CNOT(wires=["in", "out"])
        return qml.probs(wires=["out", "in"])

    actual = bellhop.qjit(lightning(circuit, wires=None))(0.3)
    assert_close(actual, reference(unrolled, wires=None)(0.3))


def test_number_of_wires_may_depend_on_static_arguments(
    assert_close: Any, lightning: Any, reference: Any
) -> None:
    def circuit(x: Any, n: int) -> Any:
        for wire in range(n):
            qml.RX(x, wires=wire)
        return qml.probs()

    for n in (1, 3):
        actual = bellhop.qjit(lambda x, n=n: lightning(circuit, wires=None)(x, n))(0.3)
        assert_close(actual, reference(circuit, wires=None)(0.3, n))


def test_a_device_has_a_known_number_of_wires():
    def f(n):
        device = qml.device("lightning.qubit", wires=n)
        return qml.QNode(lambda: [qml.Hadamard(0), qml.probs()][1], device)()

    with pytest.raises(bellhop.CompileError, match="the number or a label of the device's wires"):
        bellhop.qjit(f)(2)
    assert bellhop.qjit(f, static_argnums=0)(2).shape == (4,)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_device_without_wires_counts_those_that_loops_compute(device: str) -> None:
    def circuit(x: Any) -> Any:
        @bellhop.for_loop(3)
        def layer(i: Any) -> None:
            qml.RX(x * i, wires=i)
            bellhop.for_loop(i)(lambda j: qml.CNOT(wires=[j, i]) and None)()

        layer()
        bellhop.cond(x > 0.2)(lambda: qml.RY(x, wires=3) and None)()
        return qml.probs(wires=[0, 1, 3]), qml.state()

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device(device)))(0.3)
    expected = qml.QNode(circuit, qml.device("default.qubit"))(0.3)
    for ours, theirs in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_device_without_wires_in_a_loop_of_unknown_length() -> None:
    def circuit(n: Any) -> Any:
        bellhop.for_loop(n)(lambda i: qml.X(i) and None)()
        return qml.probs(wires=[0])

    with pytest.raises(bellhop.CompileError, match="the device was made without wires"):
        bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit")))(3)


def test_device_without_wires_counts_known_wires_in_loops_of_unknown_length() -> None:
    def circuit(x: Any, n: Any, loops: Any) -> Any:
        def body(i: Any) -> None:
            qml.RX(x, wires=0)
            # Known, though the loop around it is not.
            loops.for_loop(0, 2, 1)(lambda j: qml.CRY(x * i, wires=[0, 2 - j]) and None)()

        loops.for_loop(0, n, 1)(body)()
        return qml.probs(), qml.expval(qml.Z(2))

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit")), static_argnums=2)
    expected = qml.QNode(circuit, qml.device("default.qubit"))(0.3, 3, qml)
    for ours, theirs in zip(compiled(0.3, 3, bellhop), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_device_without_wires_of_which_several_outcomes_are_measured(device: str) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        one = qml.measure(0)
        qml.RY(x, wires=1)
        return qml.probs(op=[one, qml.measure(1)])

    value = bellhop.qjit(qml.QNode(circuit, qml.device(device)))(0.5)
    expected = qml.QNode(circuit, qml.device("default.qubit"))(0.5)
    np.testing.assert_allclose(value, expected, atol=1e-9)
