"""Circuits on default.mixed, and what they are held against."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml


def on_mixed(function: Callable[..., Any], wires: Any = 2, **options: Any) -> qml.QNode:
    return qml.QNode(function, qml.device("default.mixed", wires=wires, **options))


def assert_as_uncompiled(ours: Callable[..., Any], theirs: Callable[..., Any], *args: Any) -> None:
    """Compare a program with another that PennyLane runs, of arrays of NumPy's."""
    got, expected = ours(*jax.tree.map(jnp.asarray, args)), theirs(*args)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def bell(x: Any) -> Any:
    qml.RX(x, 0)
    qml.CNOT([0, 1])
