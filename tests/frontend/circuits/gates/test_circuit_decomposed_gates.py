"""Gates and templates that Lightning does not have: PennyLane decomposes them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
import pytest

X = [0.37, -1.21, 0.83, 0.29, 1.4, -0.6]

PARAMETRISED: dict[str, Callable[[Any], Any]] = {
    "U1": lambda x: qml.U1(x[0], wires=1),
    "U2": lambda x: qml.U2(x[0], x[1], wires=1),
    "U3": lambda x: qml.U3(x[0], x[1], x[2], wires=1),
    "OrbitalRotation": lambda x: qml.OrbitalRotation(x[0], wires=[0, 1, 2, 3]),
    "FermionicSWAP": lambda x: qml.FermionicSWAP(x[0], wires=[0, 2]),
    "CPhaseShift00": lambda x: qml.CPhaseShift00(x[0], wires=[0, 2]),
    "CPhaseShift01": lambda x: qml.CPhaseShift01(x[0], wires=[0, 2]),
    "CPhaseShift10": lambda x: qml.CPhaseShift10(x[0], wires=[0, 2]),
    "PauliRot": lambda x: qml.PauliRot(x[0], "XIYZ", wires=[3, 1, 0, 2]),
    "PauliRot of identities": lambda x: qml.PauliRot(x[0], "II", wires=[3, 1]),
    "controlled PauliRot": lambda x: qml.ctrl(qml.PauliRot(x[0], "XZ", wires=[3, 1]), 0),
    "controlled MultiRZ": lambda x: qml.ctrl(qml.MultiRZ(x[0], wires=[3, 1]), 0),
    "controlled U3": lambda x: qml.ctrl(qml.U3(x[0], x[1], x[2], wires=1), [0, 2]),
    "controlled Rot": lambda x: qml.ctrl(qml.Rot(x[0], x[1], x[2], wires=1), 0, [False]),
    "controlled GlobalPhase": lambda x: qml.ctrl(qml.GlobalPhase(x[0]), [0, 2], [1, 0]),
    "power": lambda x: qml.pow(qml.RX(x[0], wires=1), 3),
    "product": lambda x: qml.prod(qml.RX(x[0], wires=1), qml.RY(x[1], wires=0)),
    "exponential": lambda x: qml.exp(qml.X(0) @ qml.Y(2), 1j * x[0]),
    "evolution": lambda x: qml.evolve(qml.Z(0) @ qml.Y(2), x[0]),
    "RX by a computed angle": lambda x: qml.RX(x[0] * x[1] + 2, wires=1),
    "AngleEmbedding": lambda x: qml.AngleEmbedding(x[:4], wires=range(4), rotation="Y"),
    "BasicEntanglerLayers": lambda x: qml.BasicEntanglerLayers(
        qml.math.reshape(x, (2, 3)), wires=range(3)
    ),
    "StronglyEntanglingLayers": lambda x: qml.StronglyEntanglingLayers(
        qml.math.reshape(x, (1, 2, 3)), wires=[0, 3]
    ),
    "SimplifiedTwoDesign": lambda x: qml.SimplifiedTwoDesign(
        x[:3], qml.math.reshape(x[2:6], (1, 2, 2)), wires=range(3)
    ),
    "IQPEmbedding": lambda x: qml.IQPEmbedding(x[:3], wires=range(3)),
    "TrotterProduct": lambda x: qml.TrotterProduct(
        qml.dot([0.3, 0.7], [qml.X(0) @ qml.Y(1), qml.Z(2)]), x[0], n=2, order=2
    ),
    "ApproxTimeEvolution": lambda x: qml.ApproxTimeEvolution(
        qml.Hamiltonian([0.3, 0.7], [qml.X(0) @ qml.Y(1), qml.Z(2)]), x[0], 2
    ),
    "CommutingEvolution": lambda x: qml.CommutingEvolution(
        qml.Hamiltonian([0.3, 0.7], [qml.X(0) @ qml.X(1), qml.X(2)]), x[0]
    ),
    "FermionicDoubleExcitation": lambda x: qml.FermionicDoubleExcitation(
        x[0], wires1=[0, 1], wires2=[2, 3]
    ),
    "FermionicSingleExcitation": lambda x: qml.FermionicSingleExcitation(x[0], wires=[0, 1, 2]),
    "DiagonalQubitUnitary": lambda x: qml.DiagonalQubitUnitary(
        qml.math.exp(1j * x[:4]), wires=[0, 2]
    ),
    "Select": lambda x: qml.Select([qml.RX(x[0], wires=2), qml.RY(x[1], wires=2)], control=[0]),
    "adjoint of U3": lambda x: qml.adjoint(qml.U3(x[0], x[1], x[2], wires=1)),
    "adjoint of layers": lambda x: qml.adjoint(
        qml.BasicEntanglerLayers(qml.math.reshape(x, (2, 3)), wires=range(3))
    ),
    "controlled layers": lambda x: qml.ctrl(
        qml.BasicEntanglerLayers(qml.math.reshape(x, (2, 3)), wires=range(3)), control=3
    ),
}

FIXED: dict[str, Callable[[], Any]] = {
    "ISWAP": lambda: qml.ISWAP(wires=[0, 2]),
    "SISWAP": lambda: qml.SISWAP(wires=[0, 2]),
    "ECR": lambda: qml.ECR(wires=[0, 2]),
    "CH": lambda: qml.CH(wires=[0, 2]),
    "CCZ": lambda: qml.CCZ(wires=[0, 2, 1]),
    "QubitSum": lambda: qml.QubitSum(wires=[0, 2, 1]),
    "QubitCarry": lambda: qml.QubitCarry(wires=[0, 2, 1, 3]),
    "MultiControlledX": lambda: qml.MultiControlledX(wires=[0, 2, 1, 3]),
    "MultiControlledX by zeros": lambda: qml.MultiControlledX(
        wires=[0, 2, 1, 3], control_values=[0, 1, 0]
    ),
    "adjoint of MultiControlledX": lambda: qml.adjoint(qml.MultiControlledX(wires=[0, 2, 1])),
    "QFT": lambda: qml.QFT(wires=range(4)),
    "adjoint of QFT": lambda: qml.adjoint(qml.QFT(wires=range(4))),
    "controlled QFT": lambda: qml.ctrl(qml.QFT(wires=range(3)), control=3),
    "GroverOperator": lambda: qml.GroverOperator(wires=range(3)),
    "FlipSign": lambda: qml.FlipSign([1, 0, 1], wires=range(3)),
    "BasisEmbedding": lambda: qml.BasisEmbedding([1, 0, 1], wires=range(3)),
    "Barrier": lambda: qml.Barrier(wires=[0, 1]),
    "adjoint of Barrier": lambda: qml.adjoint(qml.Barrier(wires=[0, 1])),
    "controlled Identity": lambda: qml.ctrl(qml.Identity(0), control=1),
    "Permute": lambda: qml.Permute([2, 0, 1], wires=[0, 1, 2]),
    "WireCut": lambda: qml.WireCut(wires=0),
    "square root of X": lambda: qml.pow(qml.X(0), 0.5),
    "IntegerComparator": lambda: qml.IntegerComparator(3, wires=range(4)),
    "ControlledSequence": lambda: qml.ControlledSequence(qml.RX(0.3, wires=3), control=[0, 1]),
    "Reflection": lambda: qml.Reflection(qml.Hadamard(0), 0.4),
}


def prepare() -> None:
    for wire in range(4):
        qml.RY(0.3 + 0.4 * wire, wires=wire)
        qml.RZ(0.7 - 0.2 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


@pytest.mark.parametrize("name", FIXED)
def test_fixed_gate(compare: Any, name: str) -> None:
    def circuit() -> Any:
        prepare()
        FIXED[name]()
        return qml.state()

    compare(circuit)


@pytest.mark.parametrize("name", PARAMETRISED)
def test_gate_of_constants_and_of_tracers(compare: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        prepare()
        PARAMETRISED[name](np.array(X))
        prepare()
        PARAMETRISED[name](x)
        return qml.state()

    compare(circuit, X)


# All have values in make test, and their derivatives are those of angles of the same native gates.
ONE_OF_A_KIND = {
    "U3",
    "OrbitalRotation",
    "controlled Rot",
    "controlled GlobalPhase",
    "power",
    "exponential",
    "RX by a computed angle",
    "TrotterProduct",
    "DiagonalQubitUnitary",
    "Select",
    "adjoint of layers",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ONE_OF_A_KIND else pytest.mark.matrix)
        for name in PARAMETRISED
    ],
)
def test_derivative_of_gate(compare_derivative: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        prepare()
        PARAMETRISED[name](x)
        qml.CNOT(wires=[0, 3])
        return qml.expval(qml.X(0) @ qml.Y(1)), qml.expval(qml.Z(2) + qml.Y(3))

    compare_derivative(circuit, X)
