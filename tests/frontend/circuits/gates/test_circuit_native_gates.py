"""Gates that Lightning applies itself: plain, inverted, controlled; numbers and tracers."""

import tomllib
from typing import Any

import pennylane as qml
import pytest

# Name: parameters and wires.
GATES: dict[str, tuple[int, int]] = {
    "CNOT": (0, 2),
    "ControlledPhaseShift": (1, 2),
    "CRot": (3, 2),
    "CRX": (1, 2),
    "CRY": (1, 2),
    "CRZ": (1, 2),
    "CSWAP": (0, 3),
    "CY": (0, 2),
    "CZ": (0, 2),
    "DoubleExcitation": (1, 4),
    "DoubleExcitationMinus": (1, 4),
    "DoubleExcitationPlus": (1, 4),
    "GlobalPhase": (1, 0),
    "Hadamard": (0, 1),
    "Identity": (0, 1),
    "IsingXX": (1, 2),
    "IsingXY": (1, 2),
    "IsingYY": (1, 2),
    "IsingZZ": (1, 2),
    "MultiRZ": (1, 3),
    "PauliRot": (1, 3),
    "PauliX": (0, 1),
    "PauliY": (0, 1),
    "PauliZ": (0, 1),
    "PCPhase": (1, 2),
    "PhaseShift": (1, 1),
    "PSWAP": (1, 2),
    "QubitUnitary": (0, 2),
    "Rot": (3, 1),
    "RX": (1, 1),
    "RY": (1, 1),
    "RZ": (1, 1),
    "S": (0, 1),
    "SingleExcitation": (1, 2),
    "SingleExcitationMinus": (1, 2),
    "SingleExcitationPlus": (1, 2),
    "SWAP": (0, 2),
    "SX": (0, 1),
    "T": (0, 1),
    "Toffoli": (0, 3),
}
PARAMETRISED = [name for name, (params, _) in GATES.items() if params]
QUBITS = 5
PARAMETERS = [0.37, -1.21, 0.83]


def gate(name: str, params: Any) -> qml.operation.Operator:
    """Return the gate on the first wires."""
    count, qubits = GATES[name]
    wires = list(range(qubits))
    if name == "PauliRot":
        return qml.PauliRot(params[0], "XYZ", wires=wires)
    if name == "PCPhase":
        return qml.PCPhase(params[0], dim=3, wires=wires)
    if name == "QubitUnitary":
        return qml.QubitUnitary(qml.matrix(qml.SingleExcitation(0.4, [0, 1])), wires=wires)
    if name == "GlobalPhase":
        return qml.GlobalPhase(params[0])
    return getattr(qml, name)(*(params[i] for i in range(count)), wires=wires)


def prepare() -> None:
    """Reach a state without symmetries, so that each mistake shows."""
    for wire in range(QUBITS):
        qml.RY(0.3 + 0.4 * wire, wires=wire)
        qml.RZ(0.7 - 0.2 * wire, wires=wire)
    for wire in range(QUBITS - 1):
        qml.CNOT(wires=[wire, wire + 1])


def plain(op: Any) -> None:
    qml.apply(op)


def inverted(op: Any) -> None:
    qml.adjoint(op)


def controlled(op: Any) -> None:
    free = [wire for wire in range(QUBITS) if wire not in op.wires]
    qml.ctrl(op, control=free[-1])


def controlled_twice_by_zero_and_one(op: Any) -> None:
    free = [wire for wire in range(QUBITS) if wire not in op.wires]
    qml.ctrl(op, control=free[:2], control_values=[0, 1][: len(free[:2])])


def inverted_controlled_inverted(op: Any) -> None:
    free = [wire for wire in range(QUBITS) if wire not in op.wires]
    qml.adjoint(qml.ctrl(qml.adjoint(op), control=free[0], control_values=0))


def controlled_controlled(op: Any) -> None:
    free = [wire for wire in range(QUBITS) if wire not in op.wires]
    op = qml.ctrl(op, control=free[0], control_values=0)
    if len(free) > 1:
        op = qml.ctrl(op, control=free[1])


FORMS = [
    plain,
    inverted,
    controlled,
    controlled_twice_by_zero_and_one,
    inverted_controlled_inverted,
    controlled_controlled,
]


def in_form(op: Any, form: Any) -> None:
    """Queue the gate in its form, and not the gate itself."""
    with qml.QueuingManager.stop_recording():
        made = op()
    form(made)


def test_table_has_every_gate_of_lightning() -> None:
    path = type(qml.device("lightning.qubit", wires=1)).config_filepath
    listed = tomllib.loads(path.read_text())["operators"]["gates"]
    assert set(GATES) == set(listed)


def every_form(name: str, params: Any) -> None:
    """Apply the gate in all its forms."""
    prepare()
    for form in FORMS:
        in_form(lambda: gate(name, params), form)
        # Between the forms, so that none undoes another.
        qml.RX(0.3, wires=0)
        qml.RY(0.2, wires=1)


@pytest.mark.parametrize("name", GATES)
def test_gate_of_constants_and_of_tracers(compare: Any, name: str) -> None:
    def circuit(params: Any) -> Any:
        every_form(name, PARAMETERS)
        if name in PARAMETRISED:
            every_form(name, params)
        return qml.state()

    compare(circuit, PARAMETERS, wires=QUBITS)


# The runtime's derivatives of each gate stand in tests/runtime/derivatives.
ONE_OF_A_KIND = {"CRot", "DoubleExcitation", "GlobalPhase", "IsingXY", "MultiRZ", "PCPhase", "RX"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ONE_OF_A_KIND else pytest.mark.matrix)
        for name in PARAMETRISED
    ],
)
def test_derivative_of_gate(compare_derivative: Any, name: str) -> None:
    def circuit(params: Any) -> Any:
        every_form(name, params)
        qml.CNOT(wires=[0, 3])
        return qml.expval(qml.X(0) @ qml.Y(1)), qml.expval(qml.Z(4)), qml.expval(qml.Y(3))

    compare_derivative(circuit, PARAMETERS, wires=QUBITS)
