"""Train a circuit with optax, with the whole loop in one compiled program."""

import jax.numpy as jnp
import optax
import pennylane as qml

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def energy(angles):
    qml.RY(angles[0], wires=0)
    qml.RY(angles[1], wires=1)
    qml.CNOT(wires=[0, 1])
    return qml.expval(qml.Z(0) @ qml.Z(1) + 0.5 * qml.X(0))


optimizer = optax.adam(0.1)


@bellhop.qjit
def train(angles):
    """Return the angles after 150 steps."""

    @bellhop.for_loop(0, 150, 1)
    def step(_, angles, state):
        gradient = bellhop.grad(energy)(angles)
        updates, state = optimizer.update(gradient, state, angles)
        return optax.apply_updates(angles, updates), state

    return step(angles, optimizer.init(angles))[0]


angles = train(jnp.array([0.3, 0.7]))
print(f"energy {energy(angles):.4f}")
