"""Printed drawings: boxes in program order, frames, and the types and sources of inputs."""

import sys
from io import BytesIO, TextIOWrapper

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest

import bellhop


def look_up(x):
    return x


LOOKUP = bellhop.pure_callback(look_up, float)
# Line of look_up, which the expected texts show as two underscores.
LINE = str(look_up.__code__.co_firstlineno)


@qml.qnode(qml.device("lightning.qubit", wires=2))
def energy(angle):
    qml.RX(angle, wires=0)
    return qml.expval(qml.Z(0))


def chain(x, y):
    z = LOOKUP(2 * x)
    return {"sum": LOOKUP(z) + y, "first": z}


CHAIN = """
argument  x
argument  y
host#1    mul                                                ← x: f64[]
callback  look_up#1  pure_callback, test_text_drawing.py:__  ← f64[]
callback  look_up#2  pure_callback, test_text_drawing.py:__  ← f64[]
host#2    add                                                ← y, look_up#2: f64[]
result['first']                                              ← look_up#1: f64[]
result['sum']                                                ← host#2: f64[]
"""


def two_devices(x):
    double, root = (bellhop.accelerate(f, dev=f"cpu:{n}") for n, f in enumerate([twice, jnp.sqrt]))
    return root(double(x))


def twice(x):
    return 2 * x


TWO_DEVICES = """
argument  x
region    twice on cpu:0  4 kB in, 4 kB out  ← f32[1000]
region    sqrt on cpu:1  4 kB in, 4 kB out   ← f32[1000], 4 kB from cpu:0 to cpu:1
result                                       ← f32[1000]
"""


def loop(x, bias):
    return bellhop.for_loop(0, 20, 1)(lambda i, x: energy(LOOKUP(x)) + bias)(x)


LOOP = """
argument  x
argument  bias
┌─ 20 times
│  carried                                                    ← x: f64[]
│  callback  look_up  pure_callback, test_text_drawing.py:__  ← f64[]
│  circuit   energy  lightning.qubit, 2 qubits                ← f64[]
│            engine, derivatives by adjoint, double precision
│  host      add                                              ← bias, energy: f64[]
└─ back to carried                                            ← f64[]
result                                                        ← carried: f64[]
"""


def conditional(x):
    return jax.lax.cond(x > 1, lambda x: energy(LOOKUP(x)), lambda x: 2 * x, x)


CONDITIONAL = """
argument  x
host#1    gt                                                  ← f64[]
┌─ if
├─ then
│  callback  look_up  pure_callback, test_text_drawing.py:__  ← x: f64[]
│  circuit   energy  lightning.qubit, 2 qubits                ← f64[]
│            engine, derivatives by adjoint, double precision
├─ otherwise
│  host#2    mul                                              ← x: f64[]
└─
result                                                        ← host#1, energy, host#2: f64[]
"""


def gradients(angles):
    return bellhop.vmap(bellhop.grad(energy))(angles)


GRADIENTS = """
argument  angles
circuit   energy  lightning.qubit, 2 qubits  ← f64[5]
          with derivatives, engine, derivatives by adjoint, double precision, 5 times
host      dot_general, split                 ← f64[5,1,1]
result                                       ← f64[5]
"""


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        (chain, (1.0, 2.0), CHAIN),
        (two_devices, (jnp.ones(1000, jnp.float32),), TWO_DEVICES),
        (loop, (1.0, 2.0), LOOP),
        (conditional, (1.0,), CONDITIONAL),
        (gradients, (jnp.ones(5),), GRADIENTS),
    ],
)
def test_drawings_print_as_text(program, arguments, expected):
    assert str(bellhop.draw(bellhop.qjit(program))(*arguments)) == expected.strip().replace(
        "__", LINE
    )


IN_ASCII = """
argument  x
+- 3 times
|  carried                                                    <- f64[]
|  host      add                                              <- i64[]
|  callback  look_up  pure_callback, test_text_drawing.py:__  <- carried: f64[]
+- back to carried                                            <- host: i64[]; look_up: f64[]
result                                                        <- carried: f64[]
"""


def test_frames_are_ascii_where_standard_output_is(monkeypatch):
    drawing = bellhop.draw(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: LOOKUP(x), x))(1.0)
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
    assert str(drawing) == IN_ASCII.strip().replace("__", LINE)


def test_boxes_are_below_their_inputs_and_lines_fit():
    """An operation is merged into a box that begins before its other input."""

    def program(x, weights):
        y = 2 * LOOKUP(x)
        terms = [bellhop.pure_callback(name, float)(x) for name in (a_long_name,) * 5]
        return y * jnp.sin(x) + sum(terms)

    def a_long_name(x):
        return x

    a_long_name.__name__ = "name_" * 30
    lines = str(bellhop.draw(program)(1.0, 2.0)).splitlines()
    assert max(map(len, lines)) <= 100
    first = next(n for n, line in enumerate(lines) if line.startswith("host#1"))
    assert lines[first].split()[1] == "sin"
    assert lines[first + 1].startswith("host#2    mul ")
    assert lines[first + 1].endswith("← look_up, host#1: f64[]")
