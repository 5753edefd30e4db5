"""The device of the report's regions, and values that are computed for comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def find_region_device() -> jax.Device:
    """Return the first GPU; a second CPU device where there is none."""
    try:
        return jax.devices("gpu")[0]
    except RuntimeError:
        return jax.devices("cpu")[1]


def run_on_host(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run `function` on the CPU under `jax.jit` and return its results as NumPy arrays."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, jax.jit(function)(*arguments))


def relative_error(observed: Any, expected: Any) -> float:
    """Return the norm of the difference over the norm of `expected`, over all leaves.

    A NaN anywhere makes it NaN, which no tolerance accepts.
    """
    pairs = zip(jax.tree.leaves(observed), jax.tree.leaves(expected), strict=True)
    leaves = [(np.asarray(x, complex).ravel(), np.asarray(y, complex).ravel()) for x, y in pairs]
    difference = np.concatenate([x - y for x, y in leaves])
    norm = np.linalg.norm(np.concatenate([y for _, y in leaves]))
    return float(np.linalg.norm(difference) / max(norm, np.finfo(float).tiny))
