"""Mitigated circuits: run with more noise several times, and extrapolated to none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.gates.rewrites import folded
from bellhop.tracing.state import tracing_with


@dataclass(frozen=True)
class Mitigation:
    """How QNodes are mitigated.

    Attributes:
        scale_factors: how many times each gate is applied.
        extrapolate: takes scale factors and values; returns the value at zero.
        folding: ``"global"`` or ``"local-all"``.
    """

    scale_factors: tuple[int, ...]
    extrapolate: Callable[[Any, Any], Any]
    folding: str

    def run(self, circuit: Callable[[], Any]) -> Any:
        """Call a circuit for each scale factor, and return its extrapolated results."""
        results = []
        for scale in self.scale_factors:
            with tracing_with(mitigation=None), folded(scale, self.folding):
                results.append(circuit())
        return jax.tree.map(self._at_zero, *results)

    def _at_zero(self, *values: Any) -> Any:
        scales = np.asarray(self.scale_factors, float)
        table = jnp.stack(values)
        columns = jnp.reshape(table, (len(values), -1)).T
        extrapolated = jnp.stack([_number(self.extrapolate(scales, c)) for c in columns])
        return jnp.reshape(extrapolated, table.shape[1:])


def _number(extrapolated: Any) -> jax.Array:
    if jax.tree.structure(extrapolated).num_nodes != 1 or jnp.size(extrapolated) != 1:
        raise TypeError(
            "mitigate_with_zne: extrapolate must return one number, the value at zero, of scale "
            f"factors and values; it returned {extrapolated}."
        )
    return jnp.reshape(extrapolated, ())
