"""Callbacks of all flavours in regions on another platform than the program's own.

The reference is the program without regions, which the CPU runs.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from multiprocessing.pool import ThreadPool

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from tests.patience import PATIENCE

import bellhop

pytestmark = pytest.mark.gpu

STRUCT = jax.ShapeDtypeStruct
SCALAR = STRUCT((), np.float64)
NESTED = ["region in a region", "chain"]


@pytest.fixture(params=["region", *(pytest.param(p, marks=pytest.mark.matrix) for p in NESTED)])
def on(request):
    """Put a function on the GPU, in one of several ways."""
    gpu = lambda f: bellhop.accelerate(f, dev="gpu")
    host = lambda f: bellhop.accelerate(f, dev="cpu:1")
    return {
        "region": gpu,
        "region in a region": lambda f: gpu(host(gpu(f))),
        "chain": lambda f: lambda x: gpu(jnp.abs)(gpu(f)(gpu(jnp.abs)(x))),
    }[request.param]


class Log:
    """What functions were called with, in order."""

    def __init__(self):
        self.calls = []

    def note(self, *values):
        self.calls.append(tuple(np.asarray(value).tolist() for value in values))

    def returning(self, *values):
        self.note(*values)
        return values[0] + 1

    def write(self, context, out, x):
        self.note(np.asarray(x))
        np.asarray(out)[...] = np.asarray(x) + 1

    def callback(self, flavour):
        """Return a function of ``x`` that calls by a flavour, and returns ``x`` or ``x + 1``."""
        reports = {
            "debug": lambda x: bellhop.debug.callback(self.note)(x),
            "tap": lambda x: bellhop.tap(self.note, x),
            "id_tap": lambda x: bellhop.host_callback.id_tap(lambda x, _: self.note(x), x),
            "asynchronous": lambda x: bellhop.debug.callback(self.note, asynchronous=True)(x),
            "jax debug": lambda x: jax.debug.callback(self.note, x),
            "jax ordered debug": lambda x: jax.debug.callback(self.note, x, ordered=True),
        }
        if flavour in reports:
            return lambda x: (reports[flavour](x), x + 1)[1]
        return {
            "pure": bellhop.pure_callback(self.returning, SCALAR),
            "io": bellhop.io_callback(self.returning, SCALAR),
            "ordered io": bellhop.io_callback(self.returning, SCALAR, ordered=True),
            "buffer": bellhop.buffer_callback(self.write, SCALAR),
            "buffer with effect": bellhop.buffer_callback(self.write, SCALAR, has_side_effect=True),
            "call": lambda x: bellhop.host_callback.call(self.returning, x, result_shape=x),
            "jax pure": lambda x: jax.pure_callback(self.returning, SCALAR, x),
            "jax io": lambda x: io_callback(self.returning, SCALAR, x),
            "jax ordered io": lambda x: io_callback(self.returning, SCALAR, x, ordered=True),
            "jax buffer": lambda x: buffer_callback(self.write, SCALAR)(x),
        }[flavour]


REPORTS = ["debug", "tap", "id_tap", "asynchronous", "jax debug", "jax ordered debug"]
RETURNING = ["pure", "io", "ordered io", "call", "jax pure", "jax io", "jax ordered io"]
BUFFERS = ["buffer", "buffer with effect", "jax buffer"]
ORDERED = ["debug", "tap", "id_tap", "asynchronous", "ordered io", "call", "jax ordered debug"]
ORDERED += ["jax ordered io"]


@pytest.mark.parametrize("flavour", REPORTS + RETURNING + BUFFERS)
def test_each_flavour_is_called_once_for_each_run(on, flavour):
    log = Log()
    f = bellhop.qjit(on(log.callback(flavour)))
    for x in (1.0, 2.0):
        assert f(x) == x + 1
    bellhop.barrier_wait()
    jax.effects_barrier()
    assert log.calls == [(1.0,), (2.0,)]


def looped(callback):
    def f(x):
        def step(x, y):
            return jax.lax.cond(y > 0, callback, lambda x: callback(-x) + 2, callback(x)), x

        return jax.lax.scan(step, x, jnp.array([1.0, -1.0, 1.0]))[0]

    return f


def before_and_after(callback):
    def f(x):
        bellhop.debug.print("before {}", x)
        x = jax.lax.while_loop(lambda x: x < 6, callback, x)
        bellhop.debug.print("after {}", x)
        return x

    return f


def switched(callback):
    return lambda x: jax.lax.switch(
        jnp.int32(x), [callback, lambda x: x, lambda x: callback(callback(x))], x
    )


PROGRAMS = {"looped": looped, "before and after": before_and_after, "switched": switched}


@pytest.mark.parametrize(
    ("flavour", "program"),
    [(flavour, "looped") for flavour in ORDERED] + [("debug", program) for program in PROGRAMS],
)
def test_effects_are_in_program_order(on, flavour, program, capfd):
    def run(place):
        log = Log()
        f = bellhop.qjit(place(PROGRAMS[program](log.callback(flavour))))
        values = [f(x) for x in (0.0, 2.0)]
        bellhop.barrier_wait()
        jax.effects_barrier()
        return values, log.calls, capfd.readouterr().out

    assert run(on) == run(lambda f: f)


@pytest.mark.parametrize("flavour", ["pure", "io", "debug", "tap", "jax debug"])
def test_under_vmap(on, flavour):
    def run(place):
        log = Log()
        f = bellhop.qjit(jax.vmap(place(log.callback(flavour))))
        np.testing.assert_array_equal(f(np.array([1.0, 2.0, 3.0])), [2, 3, 4])
        bellhop.barrier_wait()
        jax.effects_barrier()
        return sorted(log.calls)

    assert run(on) == run(lambda f: f)


@pytest.mark.parametrize("flavour", REPORTS)
def test_under_grad(on, flavour):
    log = Log()
    callback = log.callback(flavour)
    f = bellhop.qjit(jax.value_and_grad(on(lambda x: callback(x) ** 2)))
    value, slope = f(3.0)
    bellhop.barrier_wait()
    jax.effects_barrier()
    assert (value, slope) == (16, 8)
    assert log.calls == [(3.0,)]


def test_effects_of_several_orders_are_in_one(on, capfd):
    def f(x):
        jax.debug.print("first {}", x, ordered=True)
        bellhop.debug.print("second {}", x)
        y = io_callback(lambda x: (print("third", x), x + 1)[1], SCALAR, x, ordered=True)
        jax.debug.print("fourth {}", y, ordered=True)
        return bellhop.io_callback(lambda x: (print("fifth", x), x)[1], SCALAR, ordered=True)(y)

    def program(x):
        jax.debug.print("zeroth {}", x, ordered=True)
        y = on(f)(x)
        bellhop.debug.print("sixth {}", y)
        return y

    assert bellhop.qjit(program)(1.0) == 2
    words = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert words == ["zeroth", "first", "second", "third", "fourth", "fifth", "sixth"]


@pytest.mark.parametrize("print_", [bellhop.debug.print, jax.debug.print])
@pytest.mark.parametrize("same", [True, False])
def test_print_in_both_branches(on, print_, same, capfd):
    def f(x):
        return jax.lax.cond(
            x > 0,
            lambda x: (print_("{}", x, ordered=True), x)[1],
            lambda x: (print_("{}" if same else "below {}", x, ordered=True), -x)[1],
            x,
        )

    g = bellhop.qjit(lambda x: (on(lambda x: f(x - 2))(x), f(x - 2))[1])
    assert [g(3.0), g(1.0)] == [1, 1]
    below = "-1.0" if same else "below -1.0"
    assert capfd.readouterr().out.splitlines() == ["1.0", "1.0", below, below]


@pytest.mark.parametrize("beside", ["alone", "a circuit"])
@pytest.mark.parametrize("flavour", ["pure", "io", "ordered io", "debug", "buffer", "jax pure"])
def test_exception_is_the_object_itself(on, flavour, beside, capfd, caplog):
    import pennylane as qml

    error = LookupError("nothing there")
    log, fails = Log(), [True]

    def note(*values):
        if fails[0]:
            raise error

    log.note = note

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    region = on(log.callback(flavour))
    f = bellhop.qjit(lambda x: (region(x), circuit(x) if beside == "a circuit" else x))
    for _ in range(2):
        with pytest.raises(LookupError) as caught, caplog.at_level(logging.DEBUG, "jax"):
            f(1.0)
        assert caught.value is error
    assert "Traceback" not in caplog.text + capfd.readouterr().err
    fails[0] = False
    assert f(1.0)[0] == 2


def test_callback_computes_with_jax_on_the_host(on):
    places = []

    def look(x):
        y = jnp.sin(x)
        places.extend(y.devices())
        return np.asarray(y)

    f = bellhop.qjit(on(bellhop.pure_callback(look, SCALAR)))
    np.testing.assert_allclose(f(0.5), np.sin(0.5))
    assert [device.platform for device in places] == ["cpu"]


def test_device_of_a_tap_is_refused():
    def look(x, transforms, *, device):
        """Take what is called for with the device."""

    tap = lambda x: bellhop.host_callback.id_tap(look, x, tap_with_device=True)
    with pytest.raises(
        NotImplementedError, match="id_tap 'look' .* passes the device to its function, which"
    ):
        bellhop.qjit(bellhop.accelerate(tap, dev="gpu"))(1.0)


@pytest.mark.parametrize("program", [bellhop.qjit, lambda region: region], ids=["qjit", "eager"])
def test_region_of_a_device_that_waits_is_refused(program):
    inner = program(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(inner, SCALAR), dev="gpu"))
    with pytest.raises(RuntimeError, match=r"runs on \w+:0, which waits for the callback"):
        outer(1.0)
    beside = bellhop.qjit(bellhop.pure_callback(inner, SCALAR))
    assert inner(1.0) == beside(1.0) == 2


def in_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.mark.parametrize("depth", [1, 2])
def test_region_of_a_device_that_waits_is_refused_in_threads_of_the_callback(depth):
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))

    def call(x):
        function = lambda: inner(x)
        for _ in range(depth):
            function = partial(in_thread, function)
        return np.asarray(function())

    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(call, SCALAR), dev="gpu"))
    with pytest.raises(RuntimeError, match=r"runs on \w+:0, which waits for the callback"):
        outer(1.0)
    assert bellhop.qjit(bellhop.pure_callback(call, SCALAR))(1.0) == 2


def test_threads_that_outlive_a_callback_run_regions_of_its_device():
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    over, pool, later = threading.Event(), ThreadPoolExecutor(1), []

    def call(x):
        later.append(pool.submit(lambda: (over.wait(PATIENCE), inner(x))[1]))
        return x

    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(call, SCALAR), dev="gpu"))
    with pool:
        assert outer(1.0) == 1
        over.set()
        assert later[0].result() == 2


HANDED_TO = {
    "submit": (ThreadPoolExecutor, lambda pool, f, x: pool.submit(f, x).result()),
    "map": (ThreadPoolExecutor, lambda pool, f, x: next(pool.map(f, [x]))),
    "apply": (ThreadPool, lambda pool, f, x: pool.apply(f, (x,))),
    "apply_async": (ThreadPool, lambda pool, f, x: pool.apply_async(args=(x,), func=f).get()),
    "starmap_async": (ThreadPool, lambda pool, f, x: pool.starmap_async(f, [(x,)]).get()[0]),
    "imap": (ThreadPool, lambda pool, f, x: next(pool.imap(f, [x]))),
}


@pytest.mark.parametrize("name", HANDED_TO)
def test_region_of_a_device_that_waits_is_refused_in_threads_of_before(name):
    """A callback hands work to a pool that is there already, and waits for it."""
    make, hand = HANDED_TO[name]
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    with make(1) as pool:
        assert hand(pool, inner, 1.0) == 2
        call = bellhop.pure_callback(lambda x: np.asarray(hand(pool, inner, x)), SCALAR)
        outer = bellhop.qjit(bellhop.accelerate(call, dev="gpu"))
        with pytest.raises(RuntimeError, match=r"runs on \w+:0, which waits for the callback"):
            outer(1.0)
        # The thread is as it was.
        assert hand(pool, inner, 1.5) == 3


def test_threads_beside_a_callback_wait_for_its_device():
    under_way = threading.Event()
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    inner(1.0)

    def call(x):
        under_way.set()
        return x

    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(call, SCALAR), dev="gpu"))
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(lambda: (under_way.wait(PATIENCE), inner(3.0))[1])
        assert outer(1.0) == 1
        assert beside.result() == 6


def test_threads_that_a_callback_started_wait_for_its_device_in_the_work_of_others():
    under_way, over, pool = threading.Event(), threading.Event(), ThreadPoolExecutor(1)
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    inner(1.0)

    def call(x):
        pool.submit(int).result()
        under_way.set()
        over.wait(PATIENCE)
        return x

    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(call, SCALAR), dev="gpu"))
    with pool, ThreadPoolExecutor(1) as other:
        running = other.submit(outer, 1.0)
        under_way.wait(PATIENCE)
        beside = pool.submit(inner, 3.0)
        # Long enough for it to be refused.
        wait([beside], 0.2)
        over.set()
        assert (running.result(), beside.result()) == (1, 6)


@pytest.mark.parametrize("threads", ["concurrent_callbacks", "sequential_threadpool"])
def test_region_of_a_device_that_waits_is_refused_on_threads_of_programs(threads):
    inner = bellhop.qjit(bellhop.accelerate(lambda x: 2 * x, dev="gpu"))
    call = bellhop.pure_callback(inner, SCALAR, vmap_method="sequential_threadpool")
    if threads == "sequential_threadpool":
        middle = bellhop.qjit(lambda x: jnp.sum(jax.vmap(call)(jnp.stack([x, 2 * x]))))
    else:
        middle = bellhop.qjit(lambda x: call(x) + call(2 * x), concurrent_callbacks=2)
    outer = bellhop.qjit(bellhop.accelerate(bellhop.pure_callback(middle, SCALAR), dev="gpu"))
    with pytest.raises(RuntimeError, match=r"runs on \w+:0, which waits for the callback"):
        outer(1.0)
    assert middle(1.0) == 6


def test_effects_can_be_waited_for_after_several_failed(gpu):
    import pennylane as qml

    @qml.qnode(qml.device("default.qubit", wires=3))
    def circuit(x, wire):
        qml.RX(x, wire)
        qml.CNOT([wire, (wire + 1) % 3])
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(bellhop.accelerate(circuit, dev=gpu))
    with pytest.raises(bellhop.CircuitError):
        f(0.7, 5)
    jax.effects_barrier()
