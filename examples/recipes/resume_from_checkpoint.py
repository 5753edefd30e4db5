"""Train in blocks of compiled steps, and go on after the last block that was saved."""

import sys
from pathlib import Path

import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import pennylane as qml

import bellhop

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints").resolve()
optimizer = optax.adam(0.1)


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(angle):
    qml.RX(angle, wires=0)
    return qml.expval(qml.Z(0))


@bellhop.qjit
def train_block(angle, state):
    """Take 20 steps; return the angle and the state of the optimizer."""

    def step(_, angle, state):
        updates, state = optimizer.update(bellhop.grad(circuit)(angle), state, angle)
        return optax.apply_updates(angle, updates), state

    return bellhop.for_loop(0, 20, 1)(step)(angle, state)


angle = jnp.asarray(0.5)
state = optimizer.init(angle)
with ocp.CheckpointManager(folder) as manager:
    first = 0
    if (last := manager.latest_step()) is not None:
        saved = manager.restore(last, args=ocp.args.StandardRestore((angle, state)))
        (angle, state), first = saved, last + 1
    for block in range(first, first + 3):
        angle, state = train_block(angle, state)
        manager.save(block, args=ocp.args.StandardSave((angle, state)))
        print(f"block {block}: energy {circuit(angle):.4f}")
