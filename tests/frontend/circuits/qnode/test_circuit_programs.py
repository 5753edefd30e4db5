"""Circuits beside callbacks, accelerated regions and printing, differentiated as a whole."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


@bellhop.pure_callback
def host_sin(x: Any) -> float:
    return float(np.sin(x))


@bellhop.pure_callback
def host_cos(x: Any) -> float:
    return float(np.cos(x))


@host_sin.fwd
def _(x: Any) -> Any:
    return host_sin(x), x


@host_sin.bwd
def _(x: Any, cotangent: Any) -> Any:
    return cotangent * host_cos(x)


region = bellhop.accelerate(lambda x: jnp.exp(-(x**2)), dev="cpu:0")


def circuit(x: Any, y: Any) -> Any:
    qml.RX(x, wires=0)
    qml.CRY(y, wires=[0, 1])
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Z(0))


ours = qml.QNode(circuit, qml.device("lightning.qubit", wires=2))
theirs = qml.QNode(circuit, qml.device("default.qubit", wires=2), interface="jax")

# Each takes a sine, a region and the circuit: compiled ones, and JAX's for the reference.
PROGRAMS = {
    "callback before": lambda sin, region, node: lambda x: sum(node(sin(x), x)),
    "callback after": lambda sin, region, node: lambda x: sin(node(x, 0.3)[1]),
    "callbacks around": lambda sin, region, node: lambda x: sin(node(sin(x), sin(2 * x))[0]),
    "region before": lambda sin, region, node: lambda x: sum(node(region(x), x)),
    "region after": lambda sin, region, node: lambda x: region(node(x, 0.3)[1]),
    "regions around": lambda sin, region, node: lambda x: region(node(region(x), x)[0]),
    "all": lambda sin, region, node: (
        lambda x: region(sin(node(sin(region(x)), x)[0]) * node(x, sin(x))[1])
    ),
    "scan": lambda sin, region, node: (
        lambda x: jax.lax.scan(lambda c, e: (sin(node(region(c), e)[0]), None), x, jnp.arange(3.0))[
            0
        ]
    ),
    "cond": lambda sin, region, node: (
        lambda x: jax.lax.cond(x > 0, lambda: sin(node(x, x)[0]), lambda: region(x))
    ),
    "vmap": lambda sin, region, node: (
        lambda x: jnp.prod(jax.vmap(lambda y: sin(node(region(y), x)[0]))(x + jnp.arange(3.0)))
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient(assert_close: Any, name: str) -> None:
    program = PROGRAMS[name]
    compiled = bellhop.qjit(bellhop.value_and_grad(program(host_sin, region, ours)))
    plain = program(jnp.sin, lambda x: jnp.exp(-(x**2)), theirs)
    assert_close(compiled(0.4), jax.jit(jax.value_and_grad(plain))(0.4))


def test_callback_inside_the_quantum_function(assert_close: Any) -> None:
    def inner(sin: Any, device: str) -> Any:
        @qml.qnode(qml.device(device, wires=1))
        def node(x: Any) -> Any:
            qml.RX(sin(x), wires=0)
            qml.RY(sin(2 * x), wires=0)
            return qml.expval(qml.Z(0))

        return node

    compiled = bellhop.qjit(bellhop.value_and_grad(inner(host_sin, "lightning.qubit")))
    plain = jax.value_and_grad(inner(jnp.sin, "default.qubit"))
    assert_close(compiled(0.4), plain(0.4))


@pytest.mark.parametrize("transform", [lambda f: f, bellhop.grad])
def test_printing_inside_the_quantum_function(capsys: Any, transform: Any) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def node(x: Any) -> Any:
        bellhop.debug.print("x is {x}", x=x)
        qml.RX(x, wires=0)

        @bellhop.for_loop(0, 2)
        def loop(i: Any) -> None:
            bellhop.debug.print("iteration {i}", i=i)
            qml.RX(x, wires=0)

        loop()
        return qml.expval(qml.Z(0))

    bellhop.qjit(transform(node))(0.5)
    assert capsys.readouterr().out == "x is 0.5\niteration 0\niteration 1\n"


def test_two_devices_in_one_program() -> None:
    def on(wires: Any) -> Any:
        @qml.qnode(qml.device("lightning.qubit", wires=wires))
        def node(x: Any) -> Any:
            qml.RX(x, wires=wires[-1])
            return qml.expval(qml.Z(wires[-1]))

        return node

    one, other = on([0]), on(["a", "b", "c"])
    program = bellhop.qjit(lambda x: one(other(x)) + other(one(x)))
    np.testing.assert_allclose(program(0.4), 2 * np.cos(np.cos(0.4)), atol=1e-12)
