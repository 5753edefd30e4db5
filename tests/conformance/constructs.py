"""Rows of the support matrix besides measurements: transformations, and parts of circuits."""

import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from tests.conformance.support import (
    MEASUREMENTS,
    OTHER,
    SHOTS,
    Cell,
    X,
    differentiate,
    exact_value,
    make_qnode,
)

import bellhop

Function = Callable[[Any], Any]


def save_and_load(f: Function) -> Function:
    """Return a compiled function as it is loaded from a file."""
    compiled = bellhop.qjit(f)
    compiled.jit_compile((X,))
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(f"{folder}/circuit.bellhop")
        return bellhop.load(f"{folder}/circuit.bellhop")


# What is computed of a compiled circuit, and of its exact value and slope.
TRANSFORMATIONS: dict[
    str, tuple[Callable[[Function], Any], Callable[[Function, Function], Any]]
] = {
    "`jax.jit` around `qjit`": (lambda f: jax.jit(bellhop.qjit(f))(X), lambda v, d: v(X)),
    "`qjit(autograph=True)`": (lambda f: bellhop.qjit(f, autograph=True)(X), lambda v, d: v(X)),
    "`jax.jvp`": (
        lambda f: bellhop.qjit(lambda x: jax.jvp(f, (x,), (1.0,))[1])(X),
        lambda v, d: d(X),
    ),
    "`jax.vjp`": (
        lambda f: bellhop.qjit(lambda x: jax.vjp(f, x)[1](1.0)[0])(X),
        lambda v, d: d(X),
    ),
    "`jax.linearize`": (
        lambda f: bellhop.qjit(lambda x: jax.linearize(f, x)[1](1.0))(X),
        lambda v, d: d(X),
    ),
    "`jax.grad` of `jax.checkpoint`": (
        lambda f: bellhop.qjit(jax.grad(jax.checkpoint(f)))(X),
        lambda v, d: d(X),
    ),
    "`jax.vmap` of `jax.grad`": (
        lambda f: bellhop.qjit(jax.vmap(jax.grad(f)))(jnp.array([X, OTHER])),
        lambda v, d: [d(X), d(OTHER)],
    ),
    "`jax.lax.scan`": (
        lambda f: bellhop.qjit(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=2)[0])(
            X
        ),
        lambda v, d: v(v(X)),
    ),
    "`jax.lax.while_loop`": (
        lambda f: bellhop.qjit(lambda x: jax.lax.while_loop(lambda c: c == X, f, x))(X),
        lambda v, d: v(X),
    ),
    "`jax.lax.cond`": (
        lambda f: bellhop.qjit(lambda x: jax.lax.cond(x > 0, f, lambda x: 0.0 * x, x))(X),
        lambda v, d: v(X),
    ),
    "`jax.lax.map`": (
        lambda f: bellhop.qjit(lambda xs: jax.lax.map(f, xs))(jnp.array([X, OTHER])),
        lambda v, d: [v(X), v(OTHER)],
    ),
    "`accelerate`, another device": (
        lambda f: bellhop.qjit(bellhop.accelerate(f, dev=jax.devices("cpu")[-1]))(X),
        lambda v, d: v(X),
    ),
    "`save` and `load`": (lambda f: save_and_load(f)(X), lambda v, d: v(X)),
}


def run_transformation(cell: Cell) -> tuple[Any, Any]:
    """Return the result of a transformed circuit, and the exact one."""
    node = make_qnode(cell.device, MEASUREMENTS["expval"], None)
    value = exact_value("expval", cell.device)
    slope = lambda x: differentiate(lambda y: value(y + x - X), 1)
    transform, expected = TRANSFORMATIONS[cell.row]
    return transform(node), expected(value, slope)


def _do(*_: Any) -> None:
    """Return nothing, whatever gates return."""


def _dynamic_loop(x: Any, n: Any) -> Any:
    bellhop.for_loop(0, n)(lambda i: _do(qml.RY(x, 0)))()
    return qml.expval(qml.Z(0))


def _outcome(x: Any, n: Any) -> Any:
    qml.RY(x, 0)
    bellhop.cond(bellhop.measure(0), lambda: _do(qml.RX(x, 1)))()
    return qml.expval(qml.Z(1))


def _outcome_in_loop(x: Any, n: Any) -> Any:
    def body(i: Any) -> None:
        qml.RY(x, 0)
        bellhop.measure(0, reset=True)

    bellhop.for_loop(0, n)(body)()
    qml.RY(x, 0)
    return qml.expval(qml.Z(0))


def _postselected(x: Any, n: Any) -> Any:
    qml.RY(x, 0)
    qml.CNOT([0, 1])
    qml.RY(x, 1)
    bellhop.measure(0, postselect=1)
    return qml.expval(qml.Z(1))


def _dynamic_wire(x: Any, n: Any) -> Any:
    qml.RY(x, n - 2)
    return qml.expval(qml.Z(n - 2))


def _channel(x: Any, n: Any) -> Any:
    qml.RY(x, 0)
    qml.BitFlip(0.1, 0)
    return qml.expval(qml.Z(0))


def _amplitudes(x: Any, n: Any) -> Any:
    qml.StatePrep(jnp.array([jnp.cos(x), jnp.sin(x)]), 0)
    return qml.expval(qml.Z(0))


def _matrix(x: Any, n: Any) -> Any:
    qml.QubitUnitary(jnp.array([[jnp.cos(x), -jnp.sin(x)], [jnp.sin(x), jnp.cos(x)]]), 0)
    return qml.expval(qml.Z(0))


def _observable(x: Any, n: Any) -> Any:
    qml.RY(OTHER, 0)
    return qml.expval(qml.Hermitian(jnp.diag(jnp.array([x, 2 * x])), 0))


# The quantum function, of an angle and a traced integer that is 3, and its exact value.
CONSTRUCTS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float], float]]] = {
    "loop with a dynamic trip count": (_dynamic_loop, lambda x: np.cos(3 * x)),
    "mid-circuit measurement": (
        _outcome,
        lambda x: np.cos(x / 2) ** 2 + np.sin(x / 2) ** 2 * np.cos(x),
    ),
    "measurement in a loop with a dynamic trip count": (_outcome_in_loop, np.cos),
    "postselection": (_postselected, lambda x: -np.cos(x)),
    "traced wire": (_dynamic_wire, np.cos),
    "noise channel": (_channel, lambda x: 0.8 * np.cos(x)),
    "traced amplitudes (`StatePrep`)": (_amplitudes, lambda x: np.cos(2 * x)),
    "traced real matrix (`QubitUnitary`)": (_matrix, lambda x: np.cos(2 * x)),
    "traced observable (`Hermitian`)": (
        _observable,
        lambda x: x * (np.cos(OTHER / 2) ** 2 + 2 * np.sin(OTHER / 2) ** 2),
    ),
}


def run_construct(cell: Cell) -> tuple[Any, Any]:
    """Return the value or gradient of a circuit with a construct, and the exact one."""
    circuit, value = CONSTRUCTS[cell.row]
    node = qml.QNode(circuit, qml.device(cell.device, wires=2))
    if cell.has_shots:
        node = qml.set_shots(node, SHOTS)
    if cell.feature == "value":
        return bellhop.qjit(node, seed=1)(X, 3), value(X)
    return bellhop.qjit(bellhop.grad(node), seed=1)(X, 3), differentiate(value, 1)
