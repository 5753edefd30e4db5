"""Errors of circuits name the user's line, while they are traced and when they run."""

import inspect
from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop


def _on_wire_5(x: Any) -> Any:
    qml.RX(x, 5)  # here
    return qml.expval(qml.Z(0))


def _controlled_on_wire_5(x: Any) -> Any:
    def gates() -> None:
        qml.H(1)
        qml.adjoint(lambda: qml.RX(x, 5))()  # here

    qml.ctrl(gates, control=0)()
    return qml.expval(qml.Z(0))


def _loop_on_wire_5(x: Any) -> Any:
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x, 5))()  # here
    return qml.expval(qml.Z(0))


def _two_batches(x: Any) -> Any:
    qml.RX(x * np.ones(2), 0)
    qml.RX(x * np.ones(3), 0)  # here
    return qml.expval(qml.Z(0))


def _batch_of_batches(x: Any) -> Any:
    qml.RX(x * np.ones((2, 3)), 0)  # here
    return qml.expval(qml.Z(0))


def _measured_number(x: Any) -> Any:
    return qml.expval(x)  # here


@pytest.mark.parametrize("device", ["lightning.qubit", "default.mixed", "null.qubit"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_on_wire_5, "there is no wire 5"),
        (_controlled_on_wire_5, "there is no wire 5"),
        (_loop_on_wire_5, "there is no wire 5"),
        (_two_batches, "RX has a batch of 3 parameters, expected 2, the batch size of RX"),
        (_batch_of_batches, r"\): RX: wrong number\(s\) of dimensions"),
        (_measured_number, "expval got a traced number in a circuit without"),
    ],
)
def test_errors_while_tracing_name_the_line_of_the_gate(function, message, device):
    lines, first = inspect.getsourcelines(function)
    (line,) = (first + number for number, text in enumerate(lines) if "# here" in text)
    with pytest.raises(bellhop.CompileError, match=message) as caught:
        bellhop.qjit(qml.QNode(function, qml.device(device, wires=2)))(0.3)
    assert f"raised at {__file__}:{line}" in caught.value.__notes__


def test_an_error_at_run_time_names_the_line_of_a_gate_in_a_controlled_function():
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(wire):
        qml.ctrl(lambda: qml.adjoint(lambda: qml.X(wire))(), control=0)()  # here
        return qml.expval(qml.Z(0))

    message = r"'PauliX' on .*test_lines_in_circuit_errors\.py:\d+\): wire 7"
    with pytest.raises(bellhop.CircuitError, match=message):
        bellhop.qjit(circuit)(7)
