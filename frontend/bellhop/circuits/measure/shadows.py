"""Classical shadows, which there are on null.qubit only."""

from typing import Any

import jax.numpy as jnp

from bellhop.circuits.measure.process import Process


class ClassicalShadow(Process):
    """Outcomes and bases of random measurements."""

    def _null(self, shots: int | None) -> Any:
        return super()._null(shots).astype(jnp.int8)
