"""Infer the angle of a circuit from counts, by the NUTS sampler of numpyro."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import pennylane as qml
from numpyro.infer import MCMC, NUTS

import bellhop


@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=1))
def probability(angle):
    qml.RY(angle, wires=0)
    return qml.probs(wires=0)


def model(n_ones, n_shots):
    angle = numpyro.sample("angle", dist.Uniform(0, jnp.pi))
    numpyro.sample("ones", dist.Binomial(n_shots, probability(angle)[1]), obs=n_ones)


# numpyro compiles the sampler with jax.jit, and the circuit becomes a part of it.
sampler = MCMC(NUTS(model), num_warmup=200, num_samples=500, progress_bar=False)
sampler.run(jax.random.key(0), n_ones=412, n_shots=1000)
angles = sampler.get_samples()["angle"]
print(f"angle {angles.mean():.2f} +- {angles.std():.2f}")
