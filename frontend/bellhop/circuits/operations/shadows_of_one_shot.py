"""Classical shadows where each shot is a run of its own: the program draws its bases.

So its samples are samples like others, which the engine takes, and by which it differentiates.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand, Wire
from bellhop.circuits.measure.device_measurements import Samples, SnapshotMeans, Snapshots
from bellhop.circuits.measure.shadows import values_of_words
from bellhop.circuits.operations.seeds import random_key
from bellhop.circuits.precision import real_type


def taken_alone(circuit: Any, what: Snapshots) -> Any:
    """Return what is asked of a circuit of one shot, at its end, which goes on as it was."""
    bases = jax.random.randint(random_key(), (1, len(what.wires)), 0, 3)
    rotations = to_bases(bases[0], [circuit.wires.labels[wire] for wire in what.wires])
    circuit.apply(rotations)
    [sample] = circuit.sample([Samples()])
    circuit.apply([qml.adjoint(gate, lazy=False) for gate in reversed(rotations)])
    bits = sample[:, np.array(what.wires, int)].astype(int)
    if isinstance(what, SnapshotMeans):
        return values_of_words(bits, bases, what.words).astype(real_type())
    return jnp.stack([bits, bases], axis=1).astype(np.uint8)


def to_bases(bases: Operand, wires: Sequence[Wire]) -> list[Any]:
    """Return what brings bases of wires, which the program computes, to the computational one.

    Args:
        bases: 0, 1, 2 for X, Y, Z, for each wire.
        wires: their labels.
    """
    quarter = jnp.asarray(np.pi / 2, real_type())
    return [
        gate
        for basis, wire in zip(bases, wires, strict=True)
        for gate in (
            qml.RY(jnp.where(basis == 0, -quarter, 0), wire),
            qml.RX(jnp.where(basis == 1, quarter, 0), wire),
        )
    ]
