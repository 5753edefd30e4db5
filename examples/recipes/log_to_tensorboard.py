"""Log the loss of a compiled loop to TensorBoard: `tensorboard --logdir runs` shows it."""

import sys

import jax.numpy as jnp
from tensorboardX import SummaryWriter

import bellhop

writer = SummaryWriter(sys.argv[1] if len(sys.argv) > 1 else "runs")


def record(step, **values):
    for name, value in values.items():
        writer.add_scalar(name, float(value), int(step))


@bellhop.qjit
def train(x):
    """Minimize a sum of squares, and log the loss of each step."""

    def step(i, x):
        loss = jnp.sum(x**2)
        bellhop.tap(record, i, loss=loss)
        return 0.9 * x

    return bellhop.for_loop(0, 100, 1)(step)(x)


train(jnp.ones(3))
bellhop.barrier_wait()
writer.close()
