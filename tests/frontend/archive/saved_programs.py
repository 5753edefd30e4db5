"""Functions to save: what they call has names that another process can import."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop

seen = []


class Pair(NamedTuple):
    a: object
    b: object


@bellhop.pure_callback
def sine(x) -> float:
    return np.sin(x)


@sine.fwd
def _(x):
    return sine(x), x


@sine.bwd
def _(x, dy):
    return bellhop.pure_callback(np.cos, float)(x) * dy


def divide(x):
    return 1 / float(x)


def double(context, out, x):
    out[...] = 2 * x


def record(x):
    seen.append(float(x))


def with_callbacks(x: float, n: int):
    bellhop.debug.print("x = {x:.1f}, n = {}", n, x=x)
    bellhop.debug.callback(record)(x)
    bellhop.debug_assert(x < 10, "x is too large")
    y = bellhop.for_loop(0, n, 1)(lambda i, y: sine(y) + i)(x)
    return {"y": y, "rest": (bellhop.pure_callback(divide, float)(x), [None, 2 * x])}


def with_a_region(x: float):
    cosine = bellhop.pure_callback(np.cos, float)
    return bellhop.accelerate(lambda v: jnp.sin(cosine(v)), dev="cpu:1")(x) + 1


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x: float):
    @bellhop.for_loop(0, 3, 1)
    def loop(i):
        qml.RX(x * i, wires=0)
        qml.CNOT([0, 1])

    loop()
    return qml.expval(qml.Z(0)), qml.probs(wires=1)


def gradient(x: float):
    return bellhop.value_and_grad(lambda x: circuit(sine(x))[0])(x)


def arrays(table):
    return table["m"] @ table["v"] + np.arange(300.0).reshape(100, 3).sum(0)[:2]


@qml.set_shots(20)
@qml.qnode(qml.device("lightning.qubit", wires=2))
def samples(x: float):
    qml.RX(x, wires=0)
    m = bellhop.measure(0)
    bellhop.cond(m, lambda: qml.PauliX(1), lambda: qml.RY(x, 1))()
    return qml.sample()
