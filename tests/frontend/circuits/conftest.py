"""Fixtures that hold compiled circuits against PennyLane's own default.qubit."""

from collections.abc import Callable
from typing import Any

import bellhop_runtime
import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def nothing_left_open():
    """Every circuit that a test begins must have ended when the test does."""
    yield
    assert bellhop_runtime.live_sessions() == 0


@pytest.fixture
def assert_close() -> Callable[[Any, Any], None]:
    """Compare two pytrees of numbers: structure, shapes and values."""

    def check(actual: Any, expected: Any) -> None:
        assert jax.tree.structure(actual) == jax.tree.structure(expected)
        for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            assert np.shape(one) == np.shape(other)
            np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)

    return check


@pytest.fixture
def lightning() -> Callable[..., qml.QNode]:
    """Make a QNode on Lightning, the device that compiled circuits run on."""

    def make(function: Callable[..., Any], wires: Any = 4, **options: Any) -> qml.QNode:
        return qml.QNode(function, qml.device("lightning.qubit", wires=wires), **options)

    return make


@pytest.fixture
def reference() -> Callable[..., qml.QNode]:
    """Make the same QNode on default.qubit, which is never compiled by us."""

    def make(function: Callable[..., Any], wires: Any = 4) -> qml.QNode:
        return qml.QNode(function, qml.device("default.qubit", wires=wires), interface="jax")

    return make


@pytest.fixture
def compare(
    assert_close: Any, lightning: Any, reference: Any
) -> Callable[..., None]:
    """Compare the value of a quantum function, and its derivative by every argument.

    The derivative on default.qubit is taken by backpropagation through the whole state.
    """

    def check(
        function: Callable[..., Any], *args: Any, wires: Any = 4, derivative: bool = False
    ) -> None:
        args = jax.tree.map(jnp.asarray, args)
        ours, theirs = lightning(function, wires), reference(function, wires)
        assert_close(bellhop.qjit(ours)(*args), theirs(*args))
        if derivative:
            argnums = tuple(range(len(args)))
            compiled = bellhop.qjit(bellhop.jacobian(ours, argnums=argnums))
            assert_close(compiled(*args), jax.jacobian(theirs, argnums=argnums)(*args))

    return check
