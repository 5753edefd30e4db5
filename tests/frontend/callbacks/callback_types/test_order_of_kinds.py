"""Calls of every kind are in program order in a qjit program."""

import contextlib
import io

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop import host_callback

MAPPED = ["io", "callback", "buffer", "print", "io without results"]
ALL = [*MAPPED, "ordered io", "host", "jax io", "jax debug"]


class Calls:
    """Blocks of calls, each of which appends its number to ``seen``."""

    def __init__(self):
        self.seen = []

    def run(self, f, *args):
        stream = io.TextIOBase()
        stream.write = lambda text: text.strip() and self.seen.append(int(text.split()[0]))
        self.seen.clear()
        with contextlib.redirect_stdout(stream):
            return jax.block_until_ready(f(*args))

    def block(self, first, kinds, x):
        """Trace calls, of each kind before each other; the numbers begin with the first."""
        # Not differentiated.
        x = jax.lax.stop_gradient(x)
        for number, kind in enumerate((*kinds, *reversed(kinds)), first):
            self._call(number, kind, x)

    def _call(self, number, kind, x):
        def note(*values):
            self.seen.append(number)
            return np.float64(1.0)

        if kind == "callback":
            bellhop.callback(note)(x)
        elif kind == "print":
            bellhop.debug.print(f"{number} {{}}", x)
        elif kind == "io":
            bellhop.io_callback(note, float)(x)
        elif kind == "io without results":
            bellhop.io_callback(note)(x)
        elif kind == "ordered io":
            bellhop.io_callback(note, float, ordered=True)(x)
        elif kind == "buffer":
            into = lambda context, out, x: out.__setitem__(..., note())
            bellhop.buffer_callback(into, float, has_side_effect=True, vmap_method="sequential")(x)
        elif kind == "host":
            host_callback.call(note, x, result_shape=jax.ShapeDtypeStruct((), float))
        elif kind == "jax io":
            jax.experimental.io_callback(note, jax.ShapeDtypeStruct((), float), x, ordered=True)
        else:
            jax.debug.callback(note, x, ordered=True)


def numbers(first, kinds=ALL):
    """Return the numbers of a block."""
    return list(range(first, first + 2 * len(kinds)))


@pytest.fixture
def calls():
    return Calls()


def test_calls_of_every_kind(calls):
    """In straight-line code, in a loop, its condition, a branch, a region and a nested program."""

    def block(first):
        return lambda x: (calls.block(first, ALL, x), x)[1]

    def f(x):
        x = block(0)(x)
        x = jax.lax.fori_loop(0, 2, lambda i, x: block(100)(x) + 1, x)
        x = jax.lax.while_loop(lambda x: block(200)(x) < 4, lambda x: x + 1, x)
        x = jax.lax.cond(x > 0, block(300), block(400), x)
        x = bellhop.accelerate(block(500))(x)
        x = bellhop.qjit(block(600))(x)
        x = jax.checkpoint(block(700))(x)
        return block(800)(x)

    assert calls.run(bellhop.qjit(f), 1.0) == 4.0
    blocks = [0, 100, 100, 200, 200, 300, 500, 600, 700, 800]
    assert calls.seen == [number for first in blocks for number in numbers(first)]


def test_a_function_that_a_plain_jit_has_traced_before(calls):
    """JAX knows its jaxpr, in which calls have no order."""
    g = jax.jit(lambda x: (calls.block(0, MAPPED, x), x)[1])
    calls.run(g, 1.0)
    calls.run(bellhop.qjit(lambda x: g(g(x))), 1.0)
    assert calls.seen == 2 * numbers(0, MAPPED)


def test_calls_in_and_around_circuits(calls):
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        calls.block(100, ALL, x)
        qml.RX(x, wires=0)
        calls.block(200, ALL, x)
        return qml.expval(qml.Z(0))

    def f(x):
        calls.block(0, ALL, x)
        value = circuit(x)
        calls.block(300, ALL, x)
        return value

    calls.run(bellhop.qjit(bellhop.grad(f)), 0.3)
    assert calls.seen == [*numbers(0), *numbers(100), *numbers(200), *numbers(300)]


@pytest.mark.parametrize(
    "compiled",
    [lambda f: bellhop.qjit(jax.vmap(f)), lambda f: jax.vmap(bellhop.qjit(f))],
    ids=["inside", "outside"],
)
def test_a_mapped_call_goes_over_its_rows_before_the_next(calls, compiled):
    f = lambda x: (calls.block(0, MAPPED, x), x)[1]
    calls.run(compiled(f), jnp.arange(2.0))
    assert calls.seen == [number for number in numbers(0, MAPPED) for _ in range(2)]


def test_a_derivative_of_a_program(calls):
    """A transformation outside of all programs keeps the order of ours; JAX's have their own."""

    def f(x):
        def body(x, i):
            calls.block(0, MAPPED, x + i)
            return jnp.sin(x), None

        return jax.lax.scan(body, x, jnp.arange(2.0))[0]

    calls.run(jax.grad(bellhop.qjit(f)), 0.3)
    assert calls.seen == 2 * numbers(0, MAPPED)


def test_a_single_call_has_no_token(calls):
    """It has nothing to be before or after, but for itself in a loop that JAX unrolls."""

    def one(x, unroll=1):
        def body(x, i):
            bellhop.io_callback(lambda i: calls.seen.append(int(i)))(i)
            return x, None

        return jax.lax.scan(body, x, jnp.arange(4), unroll=unroll)[0]

    single = bellhop.qjit(one)
    unrolled = bellhop.qjit(lambda x: one(x, unroll=2))
    for program, has_token in ((single, False), (unrolled, True)):
        calls.run(program, 1.0)
        assert calls.seen == [0, 1, 2, 3]
        assert ("stablehlo.token" in str(program.mlir)) is has_token
