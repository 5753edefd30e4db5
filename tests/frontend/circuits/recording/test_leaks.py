"""Nothing that is traced is left behind, as ``jax.checking_leaks`` sees it."""

from collections.abc import Callable
from typing import Any

import jax
import pennylane as qml
import pytest

import bellhop


def straight(x: Any) -> None:
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x * i, 0) and None)()
    bellhop.adjoint(lambda: qml.RY(x, 0))()


def deferred(x: Any) -> None:
    qml.RX(x, 0)
    bellhop.cond(bellhop.measure(0), lambda: qml.RY(x, 1) and None)()


def with_outcomes(x: Any) -> None:
    qml.RX(x, 0)
    bellhop.cond(bellhop.measure(0, reset=True), lambda: qml.RY(x, 1) and None)()


@pytest.mark.parametrize(
    ("circuit", "device"),
    [
        (straight, "lightning.qubit"),
        (deferred, "lightning.qubit"),
        (with_outcomes, "lightning.qubit"),
        (with_outcomes, "default.mixed"),
    ],
)
def test_no_tracer_is_left(circuit: Callable[[Any], None], device: str) -> None:
    @qml.qnode(qml.device(device, wires=2))
    def node(x: Any) -> Any:
        circuit(x)
        return qml.expval(qml.Z(1)), qml.probs(wires=0)

    with jax.checking_leaks():
        value, _ = bellhop.qjit(node)(0.3)
        slope = bellhop.qjit(bellhop.grad(lambda x: node(x)[0]))(0.3)
    assert value.shape == slope.shape == ()


def test_no_tracer_is_left_by_second_derivatives_and_states() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def node(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    @qml.qnode(qml.device("default.qubit", wires=2))
    def purity(x: Any) -> Any:
        straight(x)
        return qml.purity(0)

    with jax.checking_leaks():
        curvature = bellhop.qjit(jax.hessian(node))(0.3)
        slope = jax.grad(bellhop.qjit(jax.grad(node)))(0.3)
        assert bellhop.qjit(jax.grad(purity))(0.3).shape == ()
    assert abs(curvature - slope) < 1e-9
