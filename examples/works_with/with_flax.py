"""Train a flax (nnx) module that contains a circuit."""

import jax
import jax.numpy as jnp
import optax
import pennylane as qml
from flax import nnx

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angles):
    qml.RY(angles[0], wires=0)
    qml.CNOT(wires=[0, 1])
    qml.RY(angles[1], wires=1)
    return qml.expval(qml.Z(1))


class Hybrid(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(1, 8, rngs=rngs)
        self.angles = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return circuit(self.angles(jnp.tanh(self.hidden(x))))


# split gives the arrays of the module (a pytree) and its structure, which is static.
structure, parameters = nnx.split(Hybrid(nnx.Rngs(0)))
optimizer = optax.adam(0.05)
x = jnp.linspace(-1, 1, 16)[:, None]
y = jnp.sin(3 * x[:, 0])


def loss(parameters):
    model = nnx.merge(structure, parameters)
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@bellhop.qjit
def step(parameters, state):
    value, gradient = bellhop.value_and_grad(loss)(parameters)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(parameters, updates), state, value


state = optimizer.init(parameters)
for _ in range(150):
    parameters, state, value = step(parameters, state)
print(f"loss {value:.3f}")
