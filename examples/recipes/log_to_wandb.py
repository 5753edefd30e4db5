"""Log the loss of a compiled loop to Weights & Biases."""

import jax.numpy as jnp
import wandb

import bellhop

run = wandb.init(project="bellhop", mode="offline")  # without mode=: to the server


@bellhop.qjit
def train(x):
    """Minimize a sum of squares, and log the loss of each step."""

    def step(i, x):
        loss = jnp.sum(x**2)
        bellhop.tap(lambda i, loss: run.log({"loss": float(loss)}, step=int(i)), i, loss)
        return 0.9 * x

    return bellhop.for_loop(0, 100, 1)(step)(x)


train(jnp.ones(3))
bellhop.barrier_wait()
run.finish()
