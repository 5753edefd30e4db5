"""Values of Pauli words in classical shadows that the program has taken."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np


def values_of_words(bits: Any, bases: Any, words: Sequence[Sequence[int]]) -> Any:
    """Return the values of Pauli words in snapshots: 3 for each factor, times the sign of its bit.

    Args:
        bits: the outcomes, a row for each shot.
        bases: 0, 1, 2 for X, Y, Z, likewise.
        words: of each a factor for each wire: 0, 1, 2 for X, Y, Z and 3 for the identity.

    Returns:
        numbers ``[shots, words]``; zero where a factor was not measured.
    """
    factors = np.array(words, int).reshape(-1, bits.shape[1])
    is_identity = factors == 3
    is_measured = jnp.all((bases[:, None] == factors) | is_identity, axis=2)
    signs = jnp.prod(jnp.where(is_identity, 1, 3 * (1 - 2 * bits[:, None])), axis=2)
    return jnp.where(is_measured, signs, 0)
