"""Mitigated circuits: run with more noise several times, and extrapolated to none."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.rewrites import folded


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
        token = _mitigation.set(None)
        try:
            for scale in self.scale_factors:
                with folded(scale, self.folding):
                    results.append(circuit())
        finally:
            _mitigation.reset(token)
        return jax.tree.map(self._at_zero, *results)

    def _at_zero(self, *values: Any) -> Any:
        scales = np.asarray(self.scale_factors, float)
        table = jnp.stack(values)
        columns = jnp.reshape(table, (len(values), -1)).T
        extrapolated = jnp.stack([jnp.reshape(self.extrapolate(scales, c), ()) for c in columns])
        return jnp.reshape(extrapolated, table.shape[1:])


_mitigation: contextvars.ContextVar[Mitigation | None] = contextvars.ContextVar(
    "bellhop_mitigation", default=None
)


def current_mitigation() -> Mitigation | None:
    """Return how QNodes that are called now are mitigated, or None."""
    return _mitigation.get()


@contextlib.contextmanager
def mitigating(mitigation: Mitigation) -> Iterator[None]:
    """Mitigate the QNodes that are called inside."""
    token = _mitigation.set(mitigation)
    try:
        yield
    finally:
        _mitigation.reset(token)
