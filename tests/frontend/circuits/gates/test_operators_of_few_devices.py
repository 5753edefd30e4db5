"""Operators that most devices do not apply: of qutrits, of light, channels and observables.

Each is right, or an error that names it: on each device, alone and as a part of another operator.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ["lightning.qubit", "default.qubit", "default.mixed"]
CYCLE = np.eye(3)[[1, 2, 0]]
FLIPS = qml.BitFlip.compute_kraus_matrices(0.2)
NOISE = qml.QutritDepolarizingChannel.compute_kraus_matrices(0.2)
OF_DATA: dict[str, Callable[[], Any]] = {
    "ControlledQutritUnitary": lambda: qml.ControlledQutritUnitary(CYCLE, control_wires=1, wires=0),
    "FockDensityMatrix": lambda: qml.FockDensityMatrix(np.eye(2) / 2, 0),
    "FockState": lambda: qml.FockState(1, 0),
    "FockStateVector": lambda: qml.FockStateVector(np.array([0, 1]), 0),
    "GaussianState": lambda: qml.GaussianState(np.eye(2), np.zeros(2), 0),
    "Hermitian": lambda: qml.Hermitian(np.eye(2), 0),
    "InterferometerUnitary": lambda: qml.InterferometerUnitary(np.eye(2), [0, 1]),
    "PauliError": lambda: qml.PauliError("X", 0.2, 0),
    "Projector": lambda: qml.Projector([0], 0),
    "QubitChannel": lambda: qml.QubitChannel(FLIPS, 0),
    "QubitDensityMatrix": lambda: qml.QubitDensityMatrix(np.eye(2) / 2, 0),
    "QutritBasisState": lambda: qml.QutritBasisState([1], 0),
    "QutritChannel": lambda: qml.QutritChannel(NOISE, 0),
    "QutritUnitary": lambda: qml.QutritUnitary(CYCLE, wires=0),
    "SparseHamiltonian": lambda: qml.SparseHamiltonian(qml.Z(0).sparse_matrix(), 0),
    "THermitian": lambda: qml.THermitian(np.eye(3), 0),
    "ThermalRelaxationError": lambda: qml.ThermalRelaxationError(0.1, 1.0, 1.2, 0.1, 0),
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda op: op,
    "adjoint": qml.adjoint,
    "controlled": lambda op: qml.ctrl(op, 2),
    # Of none of the qutrit gates, which are roots of one of second and third order, it is one.
    "power": lambda op: qml.pow(op, 5),
    "product": lambda op: qml.prod(op, qml.X(2)),
}
# As a part of another operator some are applied as matrices: default.qubit is a reference.
NO_GATES = ("Hermitian", "Projector", "SparseHamiltonian", "THermitian")


def of_numbers(operator: Any) -> Callable[[], Any]:
    return lambda: operator(*[0.1] * operator.num_params, wires=range(operator.num_wires))


def operators() -> dict[str, Callable[[], Any]]:
    """Return what makes each operator of PennyLane's for qutrits and light, and each channel."""
    names = {*qml.ops.cv.__all__, *qml.ops.qutrit.__all__, *qml.ops.channel.__all__}
    found = dict(OF_DATA)
    for name in sorted(names - {*OF_DATA}):
        operator = getattr(qml, name, None)
        is_one = isinstance(operator, type) and issubclass(operator, qml.operation.Operation)
        if is_one and isinstance(operator.num_params, int) and isinstance(operator.num_wires, int):
            found[name] = of_numbers(operator)
    return found


OPERATORS = operators()


# PennyLane's, of the operators of a PauliError.
@pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPERATORS)
def test_each_is_right_or_named(name, form, device):
    def body():
        qml.H(0)
        qml.X(1)
        FORMS[form](OPERATORS[name]())
        return qml.probs(wires=[0, 1])

    is_gate = name not in NO_GATES
    reference = device if device == "default.mixed" and is_gate else "default.qubit"
    try:
        expected = qml.QNode(body, qml.device(reference, wires=3))()
    except Exception:
        expected = None

    def compiled():
        return bellhop.qjit(qml.QNode(body, qml.device(device, wires=3)))()

    refusal = r"does not apply|channels have no inverse|is applied as a gate"
    is_applied = is_gate or form != "itself" or (device == "default.qubit" and name != "Projector")
    if expected is None or not is_applied:
        with pytest.raises(bellhop.CompileError, match=refusal):
            compiled()
    else:
        np.testing.assert_allclose(compiled(), expected, atol=1e-7)


def test_channels_of_qubits_are_told_of_the_device_that_has_them():
    def refusal(make):
        body = lambda: (make(), qml.probs(wires=0))[1]
        with pytest.raises(bellhop.CompileError) as caught:
            bellhop.qjit(qml.QNode(body, qml.device("lightning.qubit", wires=1)))()
        return str(caught.value)

    for name in ("BitFlip", "QubitChannel", "QubitDensityMatrix"):
        assert "qml.device('default.mixed', wires=...)" in refusal(OPERATORS[name])
    for name in ("QutritChannel", "TShift", "Rotation"):
        assert refusal(OPERATORS[name]).endswith("or another device.")
