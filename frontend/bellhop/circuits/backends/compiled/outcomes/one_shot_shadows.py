"""Sample classical shadows in circuits that run once for each shot.

The program draws the bases and applies their rotations as gates.  So the shadow's samples are
ordinary samples, which the engine can draw and differentiate.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.answers import Answers
from bellhop.circuits.ir.device_measurements import Samples, ShadowMeans, ShadowSnapshots
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.seeds import make_random_key
from bellhop.circuits.measure.sampling import make_basis_rotations


def sample_one_shot_shadow(answers: Answers, what: ShadowSnapshots) -> Any:
    """Sample a classical shadow in a run of one shot, by rotations and a plain sample.

    The rotations to the drawn bases are undone after the sample, so the circuit's state is as
    before.

    Args:
        answers: the circuit after all its gates, which applies gates and draws the sample.
        what: the wires, and the Pauli words for ``ShadowMeans``.

    Returns:
        u8 array ``[1, 2, wires]`` of bits and bases (0, 1, 2 for X, Y, Z); for ``ShadowMeans`` real
        values ``[1, words]``.
    """
    bases = jax.random.randint(make_random_key(), (1, len(what.wires)), 0, 3)
    rotations = make_basis_rotations(bases[0], [answers.wires.labels[wire] for wire in what.wires])
    answers.apply(rotations)
    [sample] = answers.sample([Samples()])
    answers.apply(Modifiers.invert_sequence(rotations, is_lazy=False))
    bits = sample[:, np.array(what.wires, int)].astype(int)
    if isinstance(what, ShadowMeans):
        return what.compute_word_values(bits, bases).astype(Precision.real_type())
    return jnp.stack([bits, bases], axis=1).astype(np.uint8)
