"""Minimise a compiled circuit with an optimizer of PennyLane."""

import pennylane as qml
from pennylane import numpy as pnp

import bellhop


@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angle):
    qml.RX(angle, wires=0)
    qml.CNOT(wires=[0, 1])
    return qml.expval(qml.Z(1))


optimizer = qml.AdamOptimizer(stepsize=0.1)
angle = pnp.array(0.5, requires_grad=True)
for _ in range(100):
    angle, energy = optimizer.step_and_cost(circuit, angle)
print(f"energy {energy:.2f}, angle {angle:.2f}")
