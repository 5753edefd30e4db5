"""Stack traced angles with JAX, independent of the requested interface.

``qml.transforms.merge_rotations`` of ``qml.RX(0.3, 0); qml.RX(x, 0)``, with a traced ``x``::

    qml.math.stack([x], like="numpy")    needs the value of x, since the first angle is a float
    qml.math.stack([x], like="jax")      with this patch

Replaced: ``qml.math.stack``.
Versions: 0.45.
Upstream: a transform that uses the interface of all angles, not only of the first.
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_circuit_rewrites.py``.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import pennylane as qml

from bellhop._patching import original, patch, replace


@patch("qml.math.stack", "traced angles may follow constant angles")
def stack_traced_angles() -> None:
    """Make ``qml.math.stack(..., like=...)`` use JAX if a value is a tracer.

    The requested interface is ignored then. Calls without ``like`` do not change.
    """
    stack_like = original(qml.math, "stack")

    @functools.wraps(stack_like)
    def stack(values: Sequence[Any], axis: int = 0, like: str | None = None) -> Any:
        """Stack with JAX if a value is a tracer and ``like`` requests an interface."""
        if like is not None and any(isinstance(value, jax.core.Tracer) for value in values):
            like = "jax"
        return stack_like(values, axis=axis, like=like)

    replace(qml.math, "stack", stack)
