"""Functions that tests of profiles share, and where they stand."""

import time

import jax
import pennylane as qml

import bellhop

HERE = __file__


@bellhop.pure_callback
def slow(x) -> float:
    time.sleep(0.002)
    return 2.0 * x


def ignore(*_):
    pass


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0))


def find_line(function):
    code = getattr(function, "__wrapped__", function).__code__
    return f"{HERE}:{code.co_firstlineno}"


def looped(call, n=5):
    return bellhop.qjit(lambda x: bellhop.for_loop(0, n, 1)(lambda i, x: call(x + i))(x))


FLAVOURS = {
    "pure_callback": slow,
    "io_callback": lambda x: bellhop.io_callback(ignore_and_add, float)(x),
    "callback": lambda x: (bellhop.debug.callback(ignore)(x), x)[1],
    "buffer_callback": lambda x: bellhop.buffer_callback(write, jax.ShapeDtypeStruct((), float))(x),
}


def ignore_and_add(x):
    return float(x) + 1


def write(_, out, x):
    out[...] = x
