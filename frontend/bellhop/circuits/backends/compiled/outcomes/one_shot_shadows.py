"""Classical shadows where each shot is a run of its own: the program draws its bases.

So its samples are samples like others, which the engine takes, and by which it differentiates.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.device_measurements import Samples, SnapshotMeans, Snapshots
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.seeds import random_key
from bellhop.circuits.measure.shadows import to_bases, values_of_words


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
