"""Derivatives and transformations of circuits on default.qubit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

POINT = 0.4, 0.7


def on_default_qubit(function: Callable[..., Any], wires: Any = 2, **options: Any) -> qml.QNode:
    return qml.QNode(function, qml.device("default.qubit", wires=wires), **options)


def smooth(x: Any, y: Any) -> Any:
    @bellhop.for_loop(0, 2)
    def layer(i: Any) -> None:
        bellhop.cond(i > 0, lambda: qml.CRY(y, [0, 1]), lambda: qml.RX(x * y, 0))()

    layer()
    return qml.expval(qml.Z(0) @ qml.X(1)), qml.expval(qml.Z(1))


def smooth_in_python(x: Any, y: Any) -> Any:
    qml.RX(x * y, 0)
    qml.CRY(y, [0, 1])
    return qml.expval(qml.Z(0) @ qml.X(1)), qml.expval(qml.Z(1))


def joined(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: jnp.stack(function(*args))


TRANSFORMATIONS = {
    "hessian": lambda f: jax.hessian(f),
    "vmap": lambda f: lambda x, y: jax.vmap(f, (0, None), 1)(x + jnp.arange(3.0), y),
    "jacobian of vmap": lambda f: (
        lambda x, y: jax.jacobian(lambda x: jax.vmap(f, (0, None))(x + jnp.arange(2.0), y))(x)
    ),
    "vmap of jacobian": lambda f: (
        lambda x, y: jax.vmap(jax.jacobian(f), (None, 0))(x, y + jnp.arange(2.0))
    ),
    "scan": lambda f: (
        lambda x, y: jax.lax.scan(lambda c, e: (f(c, e)[0], None), x, y + jnp.arange(3.0))[0]
    ),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(lambda x, y: f(x, y)[0])),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.hessian if name == "hessian" else ())
        for name in TRANSFORMATIONS
    ],
)
def test_transformation(assert_close: Any, name: str) -> None:
    transform = TRANSFORMATIONS[name]
    ours, reference = (joined(on_default_qubit(f)) for f in (smooth, smooth_in_python))
    expected = jax.jit(transform(reference))(*POINT)
    assert_close(bellhop.qjit(transform(ours))(*POINT), expected)


def of_one_qubit(x: Any) -> Any:
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x * i, 0) and None)()
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize("name", ["value", "grad", "vmap of grad"])
def test_in_a_region_on_another_device(assert_close: Any, name: str) -> None:
    transform: Any = {
        "value": lambda f: f,
        "grad": bellhop.grad,
        "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(x + jnp.arange(2.0)),
    }[name]
    node = bellhop.accelerate(on_default_qubit(of_one_qubit, 1), dev=jax.devices("cpu")[1])
    compiled = bellhop.qjit(transform(lambda x: node(2 * x) ** 2))
    assert_close(compiled(0.4), transform(lambda x: jnp.cos(6 * x) ** 2)(0.4))


@pytest.mark.quick
@pytest.mark.hessian
def test_third_derivative(assert_close: Any) -> None:
    node = on_default_qubit(of_one_qubit, 1)
    third = bellhop.qjit(jax.jacfwd(jax.grad(jax.jacfwd(node))))
    assert_close(third(0.4), 27 * jnp.sin(1.2))


def test_gradient_outside_qjit(assert_close: Any) -> None:
    node = on_default_qubit(of_one_qubit, 1)
    assert_close(bellhop.grad(node)(0.4), -3 * jnp.sin(1.2))


def test_circuits_of_two_devices_with_a_callback_between(assert_close: Any) -> None:
    @bellhop.pure_callback
    def scaled(x: Any) -> float:
        return 1.5 * x

    scaled.fwd(lambda x: (scaled(x), None))
    scaled.bwd(lambda _, cotangent: 1.5 * cotangent)

    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    first = qml.QNode(circuit, qml.device("lightning.qubit", wires=1))
    program = bellhop.grad(lambda x: on_default_qubit(circuit)(scaled(first(x))))
    expected = jax.grad(lambda x: jnp.cos(1.5 * jnp.cos(x)))(0.4)
    assert_close(bellhop.qjit(program)(0.4), expected)


@pytest.mark.large
@pytest.mark.parametrize("method", ["best", "backprop", "adjoint", "parameter-shift"])
def test_exact_methods(assert_close: Any, method: str) -> None:
    node = on_default_qubit(smooth_in_python, diff_method=method)
    expected = jax.jit(jax.jacfwd(joined(on_default_qubit(smooth_in_python))))(*POINT)
    assert_close(bellhop.qjit(bellhop.jacobian(joined(node)))(*POINT), expected)


@pytest.mark.parametrize("method", [None])
def test_method_that_is_not_supported(method: Any) -> None:
    @qml.qnode(qml.device("default.qubit", wires=2), diff_method=method)
    def failing(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    assert bellhop.qjit(failing)(0.4) == pytest.approx(np.cos(0.4), abs=1e-12)
    values = bellhop.qjit(jax.vmap(failing))(jnp.array([0.4, 0.5]))
    np.testing.assert_allclose(values, np.cos([0.4, 0.5]), atol=1e-12)
    message = rf"the QNode 'failing' .* is differentiated with diff_method='{method}', which"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(bellhop.grad(failing))(0.4)
