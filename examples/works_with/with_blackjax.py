"""Sample the angles of a circuit from a posterior, by Hamiltonian Monte Carlo of blackjax."""

import bellhop  # before blackjax, which computes with JAX when it is imported

# isort: split
import blackjax
import jax
import jax.numpy as jnp
import pennylane as qml


@qml.qnode(qml.device("lightning.qubit", wires=1))
def probability(angle):
    qml.RY(angle, wires=0)
    return qml.probs(wires=0)


def log_density(angle):
    """Return the log-likelihood of 412 ones in 1000 shots."""
    zero, one = probability(angle)
    return 412 * jnp.log(one) + 588 * jnp.log(zero)


sampler = blackjax.nuts(log_density, step_size=0.02, inverse_mass_matrix=jnp.ones(1))


@bellhop.qjit
def sample(key, angle):
    """Return 500 samples of the angle."""

    def step(state, key):
        state, _ = sampler.step(key, state)
        return state, state.position

    return jax.lax.scan(step, sampler.init(angle), jax.random.split(key, 500))[1]


angles = sample(jax.random.key(0), 1.4)[100:]
print(f"angle {angles.mean():.2f} +- {angles.std():.2f}")
