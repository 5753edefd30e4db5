"""A callback raises on one device while the others wait for the device in a collective."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from tests.patience import PATIENCE

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere

AXIS = PartitionSpec("i")


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.fixture
def on_devices(mesh):
    """Make a program of what each device computes of its part of an array."""

    def make(part):
        return jax.jit(
            jax.shard_map(part, mesh=mesh, in_specs=AXIS, out_specs=AXIS, check_vma=False)
        )

    return make


def test_the_exception_comes_when_all_devices_have_finished(on_devices):
    error = KeyError("second")
    seen = []

    def fails_on_second(i, t):
        seen.append((int(i), int(t)))
        if i == 1 and t == 2 and failing:
            raise error
        return 1.0

    call = bellhop.io_callback(fails_on_second, float)

    def part(x):
        i = lax.axis_index("i")
        return lax.fori_loop(0, 20, lambda t, y: y + lax.psum(call(i, t), "i"), x)

    f = on_devices(part)
    failing = True
    with pytest.raises(KeyError) as raised:
        f(np.zeros(2))
    assert raised.value is error
    assert raised.value.__context__ is None
    assert sum("raised in callback" in note for note in error.__notes__) == 1
    # Nothing is called after that; the first device may have been one iteration ahead.
    assert max(t for _, t in seen) <= 3
    failing = False
    np.testing.assert_array_equal(f(np.zeros(2)), [40, 40])


def test_a_program_without_collectives_stops_where_its_callback_raises(on_devices):
    seen = []

    def fails_on_second(i):
        if i == 1:
            raise KeyError("second")
        return float(i)

    first = bellhop.pure_callback(fails_on_second, float)
    second = bellhop.io_callback(lambda y: seen.append(float(y)) or y, float)
    with pytest.raises(KeyError, match="second"):
        on_devices(lambda x: x + second(first(lax.axis_index("i"))))(np.zeros(2))
    assert set(seen) <= {0.0}


def test_another_program_fails_meanwhile_as_it_does_elsewhere(on_devices):
    @bellhop.qjit
    def other(x):
        return bellhop.pure_callback(lambda x: 1 / int(x), float)(x)

    def call_other(i):
        with pytest.raises(ZeroDivisionError):
            other(0)
        return float(i)

    call = bellhop.pure_callback(call_other, float)
    f = on_devices(lambda x: x + lax.psum(call(lax.axis_index("i")), "i"))
    np.testing.assert_array_equal(f(np.zeros(2)), [1, 1])


@pytest.mark.parametrize("path", ["as on a GPU", "partitioned"])
def test_calls_that_jax_makes_for_us(mesh, on_devices, path):
    error = KeyError("second")
    seen = []

    def fails_on_second(i):
        if np.ravel(i)[0] == 1 and failing:
            raise error
        return np.ravel(i)[0] * 1.0

    call = bellhop.pure_callback(fails_on_second, float)
    later = bellhop.io_callback(lambda y: seen.append(float(y)) or y, float)
    x = np.arange(2.0)
    if path == "partitioned":
        x = jax.device_put(x, jax.NamedSharding(mesh, AXIS))

        @jax.jit
        def f(x):
            bellhop.debug.callback(fails_on_second, x, partitioned=True)
            return x + x.sum()

    else:
        f = on_devices(lambda x: x + later(lax.psum(call(lax.axis_index("i")), "i")))
    failing = True
    with delegate_everywhere(), pytest.raises(KeyError) as raised:
        f(x)
    assert raised.value is error
    assert raised.value.__context__ is None
    assert seen == []
    failing = False
    np.testing.assert_array_equal(f(x), [1, 2])


# Each case is a function of the index of the device, in which the callback of device 1 raises.
CASES = """
import sys, threading
import bellhop, jax, jax.numpy as jnp, numpy as np
from jax import lax
count = int(sys.argv[1])
jax.config.update("jax_num_cpu_devices", count)
AXIS = jax.sharding.PartitionSpec("i")
mesh = jax.make_mesh((count,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
scalar = jax.ShapeDtypeStruct((), float)
failing = True

def check(i):
    if failing and int(i) == 1:
        raise KeyError("one")
    return np.float64(i)

def write(context, out, i):
    np.asarray(out)[...] = check(np.asarray(i))

pure = bellhop.pure_callback(check, float)
ordered = bellhop.io_callback(check, float, ordered=True)
buffer = bellhop.buffer_callback(write, scalar)
debug = bellhop.debug.callback(check)
differentiable = bellhop.pure_callback(check, float)
differentiable.jvp(lambda x, t: (differentiable(*x), pure(*x) * t[0]))
mapped = bellhop.pure_callback(check, float, vmap_method="sequential")
steps = [(k, (k + 1) % count) for k in range(count)]
wide = lambda y: jnp.broadcast_to(y, (count,))
meeting = threading.Barrier(2)

def both(i):
    if failing and int(i) < 2:
        meeting.wait(60)
        raise KeyError("one")
    return float(i)

cases = {
    "psum": lambda i: lax.psum(pure(i), "i"),
    "all_gather": lambda i: jnp.sum(lax.all_gather(pure(i), "i")),
    "ppermute": lambda i: lax.ppermute(pure(i), "i", steps),
    "all_to_all": lambda i: jnp.sum(lax.all_to_all(wide(pure(i)), "i", 0, 0)),
    "psum_scatter": lambda i: lax.psum_scatter(wide(pure(i)), "i"),
    "io": lambda i: lax.psum(bellhop.io_callback(check, float)(i), "i"),
    "buffer": lambda i: lax.psum(buffer(i), "i"),
    "debug": lambda i: (debug(i), lax.psum(i * 1.0, "i"))[1],
    "ordered": lambda i: lax.psum(ordered(i), "i"),
    "grad": lambda i: lax.psum(jax.grad(differentiable)(i * 1.0), "i"),
    "vmap": lambda i: lax.psum(jnp.sum(jax.vmap(mapped)(wide(i))), "i"),
    "scan": lambda i: lax.scan(lambda y, _: (y + lax.psum(pure(i), "i"), None), 0.0, length=3)[0],
    "interrupt": lambda i: lax.psum(bellhop.pure_callback(interrupt, float)(i), "i"),
    "both": lambda i: lax.psum(bellhop.pure_callback(both, float)(i), "i"),
}

def interrupt(i):
    if failing and int(i) == 1:
        raise KeyboardInterrupt("one")
    return float(i)

for name, case in cases.items():
    part = lambda x: x + case(lax.axis_index("i"))
    f = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=AXIS, out_specs=AXIS, check_vma=False))
    try:
        failing = True
        f(np.zeros(count)).block_until_ready()
    except (KeyError, KeyboardInterrupt) as error:
        failing = False
        later = f(np.zeros(count)).block_until_ready()
        notes = sum("another call raised" in note for note in error.__notes__)
        print(name, type(error).__name__, *error.args, notes, bool(jnp.all(later >= 0)))
"""


def run(program, *args):
    completed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.splitlines()


@pytest.mark.subprocess
@pytest.mark.parametrize("count", ["2", "4", "8"])
def test_kinds_of_callbacks_and_collectives(count):
    raised = dict.fromkeys(re.findall(r'^    "(\w+)": lambda', CASES, re.M), "KeyError one 0")
    raised |= {"interrupt": "KeyboardInterrupt one 0", "both": "KeyError one 1"}
    assert run(CASES, count) == [f"{name} {outcome} True" for name, outcome in raised.items()]


ENDLESS = """
import bellhop, jax, numpy as np
from jax import lax
jax.config.update("jax_num_cpu_devices", 4)
AXIS = jax.sharding.PartitionSpec("i")
mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

def check(i):
    if i == 2:
        raise KeyError("two")
    return 1.0

call = bellhop.io_callback(check, float)

def part(x):
    i = lax.axis_index("i")
    # Of zeros, the condition holds for ever.
    return lax.while_loop(lambda y: lax.psum(call(i) + call(i), "i") < 8, lambda y: y + 1, x)

f = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=AXIS, out_specs=AXIS, check_vma=False))
try:
    f(np.zeros(4))
except KeyError as error:
    print("raised", *error.args)
"""


@pytest.mark.subprocess
def test_a_loop_that_would_never_end_is_stopped():
    assert run(ENDLESS) == ["raised two"]


# Each case is a function of a wire, which device 1 alone lacks.
CIRCUITS = """
import sys
import bellhop, jax, jax.numpy as jnp, numpy as np, pennylane as qml
from jax import lax
count = int(sys.argv[1])
jax.config.update("jax_num_cpu_devices", count)
AXIS = jax.sharding.PartitionSpec("i")
mesh = jax.make_mesh((count,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

def qnode(quantum_function, shots=None):
    device = qml.device("lightning.qubit", wires=2)
    return bellhop.qjit(qml.set_shots(qml.QNode(quantum_function, device), shots))

def rotate(x, wire):
    qml.RX(x, wires=wire)
    return qml.expval(qml.PauliZ(0))

def rotate_in_loop(x, wire):
    qml.for_loop(0, wire + 3)(lambda _: qml.RX(x, wires=wire))()
    return qml.expval(qml.PauliZ(0))

def measure(x, wire):
    qml.RX(x, wires=wire)
    qml.measure(0, reset=True)
    return qml.expval(qml.PauliZ(0))

whole, loop, shots = qnode(rotate), qnode(rotate_in_loop), qnode(measure, 3)
cases = {
    "whole": lambda wire: lax.psum(whole(0.3, wire), "i"),
    "loop": lambda wire: lax.psum(loop(0.3, wire), "i"),
    "shots": lambda wire: lax.psum(shots(0.3, wire), "i"),
    "grad": lambda wire: lax.psum(jax.grad(whole)(0.3, wire), "i"),
    "vmap": lambda wire: lax.psum(jnp.sum(jax.vmap(whole, (0, None))(jnp.ones(3), wire)), "i"),
    "scan": lambda wire: lax.scan(
        lambda y, _: (y + lax.psum(whole(y, wire), "i"), None), 0.3, length=3
    )[0],
}
for name, case in cases.items():
    part = lambda x: x + case(x[0].astype(int))
    f = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=AXIS, out_specs=AXIS, check_vma=False))
    wires = np.zeros(count)
    try:
        f(np.where(np.arange(count) == 1, 5.0, wires)).block_until_ready()
    except bellhop.CircuitError as error:
        print(name, "wire 5" in str(error), bool(jnp.all(jnp.isfinite(f(wires)))))
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("count", ["2", "4"])
def test_a_circuit_fails_before_a_collective(count):
    names = re.findall(r'^    "(\w+)": lambda wire', CIRCUITS, re.M)
    assert run(CIRCUITS, count) == [f"{name} True True" for name in names]
