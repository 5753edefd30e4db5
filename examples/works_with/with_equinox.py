"""Train an Equinox module that contains a circuit, by `filter_jit` around a compiled loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pennylane as qml

import bellhop


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(angles):
    qml.RY(angles[0], wires=0)
    qml.CNOT(wires=[0, 1])
    qml.RY(angles[1], wires=1)
    return qml.expval(qml.Z(1))


class Hybrid(eqx.Module):
    network: eqx.nn.MLP

    def __init__(self, key):
        self.network = eqx.nn.MLP(1, 2, width_size=8, depth=1, key=key)

    def __call__(self, x):
        return circuit(self.network(x))


x = jnp.linspace(-1, 1, 16)[:, None]
y = jnp.sin(3 * x[:, 0])
optimizer = optax.adam(0.05)


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


# A module has leaves that are not arrays, such as activation functions: partition takes them out.
parameters, static = eqx.partition(Hybrid(jax.random.key(0)), eqx.is_array)


@bellhop.qjit
def step(parameters, state):
    model_loss = lambda parameters: loss(eqx.combine(parameters, static), x, y)
    value, gradient = bellhop.value_and_grad(model_loss)(parameters)
    updates, state = optimizer.update(gradient, state)
    return eqx.apply_updates(parameters, updates), state, value


state = optimizer.init(parameters)
for _ in range(150):
    parameters, state, value = step(parameters, state)

# filter_jit around a qjit function does the same partition for you.
compiled_circuit = bellhop.qjit(circuit)
model = eqx.combine(parameters, static)
predict = eqx.filter_jit(lambda model, x: jax.vmap(lambda x: compiled_circuit(model.network(x)))(x))
print(f"loss {value:.3f}, again by filter_jit {jnp.mean((predict(model, x) - y) ** 2):.3f}")
