"""PennyLane's templates and composite operations: what decomposition brings to the device."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

ONES = np.ones
UNITARY = qml.RX.compute_matrix(0.3) @ qml.RY.compute_matrix(0.5)
SUM = qml.dot([1.0, 0.5], [qml.X(0), qml.Z(0) @ qml.Z(1)])
LCU = qml.dot([0.3, 0.7], [qml.X(2), qml.Z(2)])

TEMPLATES: dict[str, Callable[[Any], Any]] = {
    "ControlledQubitUnitary": lambda x: qml.ControlledQubitUnitary(UNITARY, wires=[0, 1, 2]),
    "controlled GlobalPhase": lambda x: qml.ctrl(qml.GlobalPhase(x), control=0),
    "MultiControlledX": lambda x: qml.MultiControlledX([0, 1, 2, 3], control_values=[1, 0, 1]),
    "exp": lambda x: qml.exp(qml.X(0) @ qml.Y(1), -0.5j * x),
    "pow": lambda x: (qml.pow(qml.RX(x, 0), 2.5), qml.pow(qml.S(1), 0.5)),
    "prod": lambda x: qml.prod(qml.RX(x, 0), qml.CNOT([0, 1])),
    "QFT": lambda x: qml.QFT(wires=[0, 1, 2]),
    "StronglyEntanglingLayers": lambda x: qml.StronglyEntanglingLayers(
        x * ONES((2, 4, 3)), wires=range(4)
    ),
    "SimplifiedTwoDesign": lambda x: qml.SimplifiedTwoDesign(
        0.1 * ONES(4), x * ONES((2, 3, 2)), wires=range(4)
    ),
    "TrotterProduct": lambda x: qml.TrotterProduct(SUM, x, n=2, order=2),
    "ApproxTimeEvolution": lambda x: qml.ApproxTimeEvolution(SUM, x, 2),
    "QuantumPhaseEstimation": lambda x: qml.QuantumPhaseEstimation(
        qml.PhaseShift(0.4, 0), estimation_wires=[1, 2, 3]
    ),
    "GroverOperator": lambda x: qml.GroverOperator(wires=[0, 1, 2]),
    "AmplitudeAmplification": lambda x: qml.AmplitudeAmplification(qml.Hadamard(0), qml.Z(0)),
    "Select": lambda x: qml.Select([qml.X(2), qml.RY(x, 2)], control=[0]),
    "Qubitization": lambda x: qml.Qubitization(LCU, control=[0]),
    "ControlledSequence": lambda x: qml.ControlledSequence(qml.RX(x, 3), control=[0, 1, 2]),
    "QROM": lambda x: qml.QROM(
        [[1, 0], [0, 1]], control_wires=[0], target_wires=[1, 2], work_wires=[3]
    ),
    "Adder": lambda x: qml.Adder(3, x_wires=[0, 1, 2]),
    "AllSinglesDoubles": lambda x: qml.AllSinglesDoubles(
        x * ONES(2),
        wires=range(4),
        hf_state=np.array([1, 1, 0, 0]),
        singles=[[0, 2]],
        doubles=[[0, 1, 2, 3]],
    ),
    "ArbitraryUnitary": lambda x: qml.ArbitraryUnitary(x * ONES(15), wires=[0, 1]),
    "BlockEncode": lambda x: qml.BlockEncode(np.array([[0.1, 0.2], [0.3, 0.4]]), wires=[0, 1]),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_template(compare: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        for wire in range(4):
            qml.RY(0.3 + wire, wires=wire)
        TEMPLATES[name](x)
        return qml.probs(wires=range(4)), qml.expval(qml.X(0)), qml.expval(qml.Y(1) @ qml.Z(2))

    compare(circuit, 0.37)


@pytest.mark.large
@pytest.mark.parametrize("n_wires", [1, 2])
def test_special_unitary_with_angles_of_the_program(n_wires):
    def circuit(angles):
        qml.Hadamard(0)
        qml.SpecialUnitary(angles, wires=range(n_wires))
        qml.RX(0.2, 0)
        return qml.expval(qml.Z(0) + 0.3 * qml.X(1))

    angles = jnp.linspace(0.1, 0.9, 4**n_wires - 1)
    compiled = qml.QNode(circuit, qml.device("lightning.qubit", wires=2))
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=2))
    value, slope = bellhop.qjit(bellhop.value_and_grad(compiled))(angles)
    np.testing.assert_allclose(value, reference(angles), atol=1e-9)
    np.testing.assert_allclose(slope, jax.grad(reference)(angles), atol=1e-9)
