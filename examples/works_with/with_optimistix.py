"""Find the angle at which a circuit has a wanted value, by a root finder of optimistix."""

import jax.numpy as jnp
import optimistix as optx
import pennylane as qml

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angle):
    qml.RY(angle, wires=0)
    qml.CNOT(wires=[0, 1])
    return qml.expval(qml.Z(1))


@bellhop.qjit
def find_angle(target):
    solver = optx.Newton(rtol=1e-10, atol=1e-10)
    return optx.root_find(lambda angle, target: circuit(angle) - target, solver, 1.0, target).value


# The derivative comes from the implicit function theorem, not from the iterations.
value, slope = bellhop.qjit(bellhop.value_and_grad(find_angle))(0.3)
print(f"angle {value:.6f}, slope {slope:.6f}")
print(f"exact {jnp.arccos(0.3):.6f}, slope {-1 / jnp.sqrt(1 - 0.3**2):.6f}")
