"""Every operator of PennyLane's, plain, inverted and controlled, by angles of the program."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bellhop

WIRES = 6
ANGLES = np.array([0.4, 0.7, -1.1])
UNITARY = qml.Rot.compute_matrix(0.3, 0.5, -0.7)
# These need more than angles and wires, or are no gates.
OTHERS = {
    *("BasisState", "BlockEncode", "DiagonalQubitUnitary", "PCPhase", "PauliRot", "QubitUnitary"),
    *("Barrier", "Identity", "IntegerComparator", "QubitDensityMatrix", "Snapshot", "WireCut"),
    *("SpecialUnitary", "StatePrep"),
}
CONTROLLED = {
    *("CH", "CY", "CZ", "CSWAP", "CCZ", "CNOT", "Toffoli"),
    *("CRX", "CRY", "CRZ", "CRot", "ControlledPhaseShift"),
}

Operation = Callable[[Any], Any]


def of_angles(gate: Any) -> Operation:
    n_wires = gate.num_wires if isinstance(gate.num_wires, int) else 3
    return lambda x: gate(*(x[i] for i in range(gate.num_params)), wires=range(n_wires))


def gates_of_angles() -> dict[str, Operation]:
    names = {*qml.ops.qubit.__all__, *CONTROLLED} - OTHERS
    gates = {name: getattr(qml, name, None) for name in sorted(names)}
    return {
        name: of_angles(gate)
        for name, gate in gates.items()
        if isinstance(gate, type)
        and issubclass(gate, qml.operation.Operation)
        and isinstance(gate.num_params, int)
    }


OPERATIONS: dict[str, Operation] = gates_of_angles() | {
    "PauliRot": lambda x: qml.PauliRot(x[0], "XIZ", wires=[0, 1, 2]),
    "PCPhase": lambda x: qml.PCPhase(x[0], 3, wires=[0, 1]),
    "ControlledQubitUnitary": lambda _: qml.ControlledQubitUnitary(
        UNITARY, wires=[1, 0], control_values=[0]
    ),
    "DiagonalQubitUnitary": lambda x: qml.DiagonalQubitUnitary(
        qml.math.exp(1j * qml.math.stack([x[0], x[1], 2 * x[0], x[2]])), wires=[0, 1]
    ),
    "MultiControlledX": lambda _: qml.MultiControlledX(range(4), control_values=[1, 0, 1]),
    "evolve": lambda x: qml.evolve(qml.X(0) @ qml.Y(1), x[0]),
    "TrotterProduct": lambda x: qml.TrotterProduct(
        qml.dot([0.3, 0.4], [qml.X(0) @ qml.Z(1), qml.Y(0)]), x[0], n=2, order=2
    ),
    "product": lambda x: qml.prod(qml.RX(x[0], 0), qml.CRY(x[1], [0, 1])),
    "power": lambda x: qml.pow(qml.RX(x[0], 0), 2),
    "power by a fraction": lambda x: qml.pow(qml.CRX(x[0], [0, 1]), 1.5),
    "power below zero": lambda x: qml.pow(qml.Rot(*x[:3], wires=0), -1),
    "Select": lambda x: qml.Select(
        [qml.RX(x[0], 2), qml.Y(2), qml.CNOT([2, 3]), qml.RZ(x[1], 3)], control=[0, 1]
    ),
    "controlled product": lambda x: qml.ctrl(qml.prod(qml.RX(x[0], 0), qml.S(1)), control=2),
    "ControlledSequence": lambda x: qml.ControlledSequence(qml.RX(x[0], 0), control=[1, 2]),
    "Reflection": lambda x: qml.Reflection(qml.prod(qml.RX(x[0], 0), qml.H(1)), x[1]),
    "SelectPauliRot": lambda x: qml.SelectPauliRot(
        qml.math.stack([x[0], x[1], x[2], x[0]]), control_wires=[0, 1], target_wire=2
    ),
}

FORMS: dict[str, Callable[[Operation, Any], Any]] = {
    "plain": lambda operation, x: operation(x),
    "adjoint": lambda operation, x: qml.adjoint(operation)(x),
    "controlled": lambda operation, x: qml.ctrl(operation, control=[5], control_values=[0])(x),
    "inverted control": lambda operation, x: qml.adjoint(qml.ctrl(operation, control=[4, 5]))(x),
}


def circuit_of(operation: Operation, form: str) -> Callable[[Any], Any]:
    def circuit(x: Any) -> Any:
        for wire in range(WIRES):
            qml.RY(0.3 + wire, wires=wire)
            qml.RZ(0.7 - 0.2 * wire, wires=wire)
        for wire in range(WIRES - 1):
            qml.CNOT(wires=[wire, wire + 1])
        FORMS[form](operation, x)
        return (
            qml.expval(qml.X(0) @ qml.Y(2) @ qml.Z(5)),
            qml.probs(wires=[0, 1, 3]),
            qml.expval(qml.Y(1) @ qml.X(4)),
        )

    return circuit


@pytest.mark.large
@settings(max_examples=16)
@given(
    name=st.sampled_from(sorted(OPERATIONS)),
    form=st.sampled_from(sorted(FORMS)),
    device=st.sampled_from(["lightning.qubit", "default.qubit"]),
)
def test_operator(assert_close: Any, name: str, form: str, device: str) -> None:
    circuit = circuit_of(OPERATIONS[name], form)
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=WIRES))(ANGLES)
    compiled = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=WIRES)))
    assert_close(compiled(jnp.array(ANGLES)), expected)


@pytest.mark.parametrize("form", FORMS)
def test_powers_of_controlled_rotations(assert_close: Any, form: str) -> None:
    circuit = circuit_of(OPERATIONS["power by a fraction"], form)
    node = qml.QNode(circuit, qml.device("default.qubit", wires=WIRES))
    assert_close(bellhop.qjit(node)(jnp.array(ANGLES)), node(ANGLES))


@pytest.mark.parametrize("ctrl", [bellhop.ctrl, qml.ctrl], ids=["ours", "pennylane"])
def test_control_values_of_another_number_than_the_wires_are_refused(ctrl: Any) -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=3))
    def circuit(x: Any) -> Any:
        ctrl(qml.X, control=[0, 1], control_values=[x])(2)
        return qml.probs()

    with pytest.raises(ValueError, match="2 control wires and 1 control_values"):
        circuit(1)
