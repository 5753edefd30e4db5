"""Angles that the program computes are stacked by JAX, whatever they are to be like.

``qml.transforms.merge_rotations`` of ``qml.RX(0.3, 0); qml.RX(x, 0)``, where the program computes
``x``::

    qml.math.stack([x], like="numpy")    asks for the value of x, as the first angle is a number
    qml.math.stack([x], like="jax")      with this patch

Replaced: ``qml.math.stack``.
Versions: 0.45.
Upstream: the interface of all angles in PennyLane's transform, in the place of that of the first.
Installed: with ``qnode_calls``.
Test: ``test_circuit_rewrites.py``.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import pennylane as qml

from bellhop._patching import original, patch


@patch("qml.math.stack", "angles that the program computes follow constant ones")
def stack_traced_angles() -> None:
    """Let ``qml.math.stack`` take computed values, whatever they are to be like."""
    stack_like = original(qml.math, "stack")

    @functools.wraps(stack_like)
    def stack(values: Sequence[Any], axis: int = 0, like: str | None = None) -> Any:
        if like is not None and any(isinstance(value, jax.core.Tracer) for value in values):
            like = "jax"
        return stack_like(values, axis=axis, like=like)

    qml.math.stack = stack
