"""Fixtures that hold compiled circuits against PennyLane's own default.qubit."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
import bellhop_runtime
from bellhop._jax.patches.removed_jax_names import restore_removed_names
from bellhop.circuits.ir.gate_jaxpr import ForLoop

TOLERANCE = 1e-9


@pytest.fixture(autouse=True, scope="session")
def _pennylane_runs_alone():
    """References may run before any program is traced: PennyLane needs this from JAX 0.11 on."""
    restore_removed_names()


@pytest.fixture(autouse=True)
def nothing_left_open():
    """Every circuit that a test begins must have ended when the test does."""
    before = bellhop_runtime.live_sessions()
    yield
    assert bellhop_runtime.live_sessions() == before


@pytest.fixture
def loops_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep loops of few gates, which stand for long ones."""
    monkeypatch.setattr(ForLoop, "MAX_UNROLLED_GATES", 0)


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
        return qml.QNode(function, qml.device("default.qubit", wires=wires))

    return make


@pytest.fixture
def compare(assert_close: Any, lightning: Any, reference: Any) -> Callable[..., None]:
    """Compare the value of a quantum function of numbers and arrays, compiled and not."""

    def check(function: Callable[..., Any], *args: Any, wires: Any = 4) -> None:
        compiled = bellhop.qjit(lightning(function, wires))
        with warnings.catch_warnings():
            _ignore_imaginary_parts()
            expected = reference(function, wires)(*map(np.asarray, args))
        assert_close(compiled(*map(jnp.asarray, args)), expected)

    return check


@pytest.fixture
def compare_derivative(assert_close: Any, lightning: Any, reference: Any) -> Callable[..., None]:
    """Compare expectation values and their derivatives by every argument.

    The reference is Autograd's backpropagation through the whole state.
    """

    def check(function: Callable[..., Any], *args: Any, wires: Any = 4) -> None:
        argnums = list(range(len(args)))
        ours, theirs = _joined(lightning(function, wires)), _joined(reference(function, wires))
        derivative = bellhop.jacobian(ours, argnums=argnums)
        compiled = bellhop.qjit(lambda *args: (ours(*args), derivative(*args)))
        with warnings.catch_warnings():
            _ignore_imaginary_parts()
            variables = [qml.numpy.array(arg, requires_grad=True) for arg in args]
            expected = qml.jacobian(theirs, argnums=argnums)(*variables)
            value = theirs(*map(np.asarray, args))
        assert_close(compiled(*map(jnp.asarray, args)), (value, expected))

    return check


def _ignore_imaginary_parts() -> None:
    """Let NumPy and Autograd drop imaginary parts of expectation values, which are zero."""
    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)


def _joined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return all results of a function in one vector."""

    def joined(*args: Any) -> Any:
        return qml.math.real(qml.math.hstack(jax.tree.leaves(function(*args))))

    return joined
