"""Python that a program calls computes with subnormal numbers, as it does elsewhere.

XLA's threads replace them by zero.
"""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.frontend.circuits.python_devices.counting_device import CountingDevice

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere

SMALL = 5e-310
# log(exp(x)) of a number whose exponential is subnormal.
X = -740.0
LOG = float(np.log(np.exp(np.float64(X))))


@pytest.fixture
def seen():
    return {}


@pytest.fixture
def record(seen):
    """Make a function that notes under a name what it computes of a subnormal number."""

    def make(name):
        def compute(*args):
            seen.setdefault(name, set()).add(SMALL * 1.0)
            return args[0] if args else None

        return compute

    return make


class Finalized:
    """Computes when it is collected."""

    def __init__(self, compute):
        self.compute = compute

    def __del__(self):
        self.compute()


def every_kind(record):
    """Return a function that calls Python in every way that has no result of interest."""

    def in_thread(x):
        thread = threading.Thread(target=record("thread"))
        thread.start()
        thread.join()
        return x

    def collected(x):
        Finalized(record("finalizer"))
        return x

    def write(ctx, out, x):
        record("buffer_callback")()
        out[...] = x

    class Shown:
        def __format__(self, spec):
            return str(record("print")(spec))

    def program(x):
        struct = jax.ShapeDtypeStruct((), float)
        for name, flavour in (
            ("pure_callback", bellhop.pure_callback),
            ("io_callback", bellhop.io_callback),
        ):
            x = flavour(record(name), float)(x)
        x = bellhop.io_callback(record("ordered"), float, ordered=True)(x)
        x = bellhop.pure_callback(in_thread, float)(x)
        x = bellhop.pure_callback(collected, float)(x)
        x = bellhop.buffer_callback(write, struct)(x)
        bellhop.debug.callback(record("debug.callback"))(x)
        bellhop.tap(record("tap"), x)
        bellhop.debug.print("{} {x}", Shown(), x=x)
        x = jax.pure_callback(record("jax.pure_callback"), struct, x)
        x = jax.experimental.io_callback(record("jax.io_callback"), struct, x)
        jax.debug.callback(record("jax.debug.callback"), x)
        mapped = bellhop.pure_callback(record("vmap"), float, vmap_method="sequential")
        x = x + jnp.sum(jax.vmap(mapped)(x * jnp.ones(2)))
        in_loop = bellhop.pure_callback(record("loop"), float)
        return jax.lax.fori_loop(0, 2, lambda _, y: in_loop(y), x)

    return program


def test_every_kind_of_callback_in_a_program(record, seen):
    bellhop.qjit(every_kind(record))(1.0)
    bellhop.barrier_wait()
    assert len(seen) == 14
    assert {name for name, values in seen.items() if values != {SMALL}} == set()


def test_a_plain_jit_and_what_it_delegates(record, seen):
    pure = bellhop.pure_callback(record("jit"), float)
    effect = bellhop.io_callback(record("ordered in jit"), float, ordered=True)
    jax.jit(lambda x: effect(pure(x)))(1.0)
    pure = bellhop.pure_callback(record("delegated"), float)

    def write(ctx, out, x):
        np.asarray(out)[...] = record("delegated buffers")(np.asarray(x))

    buffers = bellhop.buffer_callback(write, jax.ShapeDtypeStruct((), float))
    with delegate_everywhere():
        jax.jit(lambda x: buffers(pure(x)))(1.0)
    assert seen == dict.fromkeys(
        ("jit", "ordered in jit", "delegated", "delegated buffers"), {SMALL}
    )


def test_numpy_and_derivatives():
    log = bellhop.pure_callback(lambda x: np.log(np.exp(x)), float)
    assert float(bellhop.qjit(log)(X)) == LOG
    derived = bellhop.pure_callback(lambda x: x, float)
    derived.jvp(lambda primals, tangents: (derived(*primals), log(*tangents)))
    _, tangent = bellhop.qjit(lambda x, t: jax.jvp(derived, (x,), (t,)))(1.0, X)
    assert float(tangent) == LOG


def test_a_device_in_python(record, seen):
    import pennylane as qml

    class Device(CountingDevice):
        def execute(self, *args, **kwargs):
            record("device")()
            return super().execute(*args, **kwargs)

    @bellhop.qjit
    @qml.qnode(Device(wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    circuit(0.3)
    assert seen == {"device": {SMALL}}


def test_the_plugin_of_a_device_gives_the_state_that_it_gives_elsewhere():
    import pennylane as qml

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.state()

    expected = circuit(2 * SMALL)
    assert expected[1] != 0
    np.testing.assert_array_equal(bellhop.qjit(circuit, engine="plugin")(2 * SMALL), expected)


def test_a_program_goes_on_in_the_mode_of_xla():
    half = bellhop.pure_callback(lambda x: x, float)
    without = bellhop.qjit(lambda x: jnp.sin(x) * 0.5)(SMALL)
    assert float(bellhop.qjit(lambda x: half(jnp.sin(x)) * 0.5)(SMALL)) == float(without) == 0.0
