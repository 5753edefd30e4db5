"""Many calls in flight: from threads, loops, derivatives and devices, some of which fail."""

import gc
import itertools
import threading
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from tests.needs import PYTORCH
from tests.patience import PATIENCE, join, run_at_once

import bellhop
from bellhop import host_callback

THREADS, CALLS = 8, 12
SIZE = 1000


class Refusal(Exception):
    """Raised by callbacks for what they were given."""


def double(x):
    """Double a vector, and refuse one whose first element is a multiple of seven."""
    if x.flat[0] % 7 == 0:
        raise Refusal(float(x.flat[0]))
    return 2 * x


VECTOR = jax.ShapeDtypeStruct((SIZE,), np.float64)


def pure():
    callback = bellhop.pure_callback(double, VECTOR)
    callback.fwd(lambda x: (callback(x), None))
    callback.bwd(lambda _, cotangent: 2 * cotangent)
    return callback


def torch_double():
    import torch

    def double_tensor(x):
        return torch.from_numpy(double(x.numpy()))

    return bellhop.call_torch(double_tensor, VECTOR)


def write(context, out, x):
    out[...] = double(x)


FLAVOURS = {
    "pure_callback": pure,
    "io_callback": lambda: bellhop.io_callback(double, VECTOR),
    "ordered io_callback": lambda: bellhop.io_callback(double, VECTOR, ordered=True),
    "callback": lambda: lambda x: (bellhop.callback(double)(x), 2 * x)[1],
    "buffer_callback": lambda: bellhop.buffer_callback(write, VECTOR, vmap_method="sequential"),
    "host_callback.call": lambda: lambda x: host_callback.call(double, x, result_shape=VECTOR),
    "call_torch": torch_double,
}

TAPS = {
    "tap": lambda record: lambda x: (bellhop.tap(record, x), 2 * x)[1],
    "id_tap": lambda record: lambda x: 2 * host_callback.id_tap(lambda v, _: record(v), x),
    "asynchronous callback": lambda record: (
        lambda x: (bellhop.debug.callback(record, asynchronous=True)(x), 2 * x)[1]
    ),
}


def looped(call):
    # Divided by what is exact, so that the callback sees the same number in each iteration.
    return lambda x: jax.lax.fori_loop(0, 3, lambda i, v: call(v) / 2, x) * 2


def mapped(call):
    def f(x):
        rows = jax.lax.fori_loop(0, 2, lambda i, rows: jax.vmap(call)(rows) / 2, jnp.stack([x, x]))
        return rows[0] + rows[1]

    return f


def differentiated(call):
    """Add what is zero but for the derivative of a value that the callback took part in."""

    def f(x):
        slope = jax.grad(lambda s: jnp.sum(s * call(jax.lax.stop_gradient(x))))(1.0)
        return jnp.full(SIZE, slope / SIZE)

    return f


def elsewhere(call):
    return bellhop.accelerate(call, dev="cpu:1")


PROGRAMS = {
    "straight": lambda call: call,
    "loop": looped,
    "vmap in a loop": mapped,
    "grad": differentiated,
    "second device": elsewhere,
}
# How often a tap is called, where not once.
ITERATIONS = {
    **{(flavour, "loop"): 3 for flavour in TAPS},
    # Once for the batch, in each iteration.
    **{(flavour, "vmap in a loop"): 2 for flavour in ("tap", "id_tap")},
    ("asynchronous callback", "vmap in a loop"): 4,
}
NO_VMAP = {
    ("ordered io_callback", "vmap in a loop"),
    ("host_callback.call", "vmap in a loop"),
}
CASES = [
    pytest.param(*case, marks=[PYTORCH.mark] * (case[0] == "call_torch"))
    for case in itertools.product(FLAVOURS, PROGRAMS)
    if case not in NO_VMAP
]


def in_threads(work):
    """Run `work(number)` in threads at once; raise what the first of them raised."""
    barrier = threading.Barrier(THREADS)

    def run(number):
        barrier.wait()
        work(number)

    run_at_once(*(partial(run, number) for number in range(THREADS)))


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
@pytest.mark.parametrize(("flavour", "program"), CASES)
def test_each_thread_gets_its_results_and_its_failures(flavour, program, form):
    f = form(PROGRAMS[program](FLAVOURS[flavour]()))

    def work(number):
        for i in range(CALLS):
            x = float(number * 100 + i)
            if x % 7 == 0:
                with pytest.raises(Refusal) as caught:
                    jax.block_until_ready(f(np.full(SIZE, x)))
                assert caught.value.args == (x,)
            else:
                np.testing.assert_array_equal(f(np.full(SIZE, x)), np.full(SIZE, 2 * x))

    in_threads(work)


def failures_at_barrier():
    """Wait for all taps; return what they raised, if anything."""
    try:
        bellhop.barrier_wait()
    except bellhop.CallbackException as failure:
        return [error.args for error in failure.exceptions]
    return []


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flavour", TAPS)
def test_taps_of_all_threads_arrive_in_order_and_failures_do_once(flavour, program, form):
    seen, failures = [], []

    def record(x):
        seen.append(float(x.flat[0]))
        double(x)

    f = form(PROGRAMS[program](TAPS[flavour](record)))

    def values(number):
        return [float(number * 100 + i) for i in range(CALLS)]

    def work(number):
        for i, x in enumerate(values(number)):
            # The program does not fail, whatever becomes of its taps.
            np.testing.assert_array_equal(f(np.full(SIZE, x)), np.full(SIZE, 2 * x))
            if i % 4 == number % 4:
                # Those of other threads too.
                failures.extend(failures_at_barrier())

    in_threads(work)
    failures += failures_at_barrier()
    n_iterations = ITERATIONS.get((flavour, program), 1)
    issued = [[x for x in values(n) for _ in range(n_iterations)] for n in range(THREADS)]
    assert [[x for x in seen if x // 100 == n] for n in range(THREADS)] == issued
    expected = [(x,) for x in itertools.chain(*issued) if x % 7 == 0]
    assert sorted(failures) == expected
    assert failures_at_barrier() == []


class Counted(Exception):
    pass


def failures_that_are_counted():
    """Return the errors that are alive, and a callback that raises one at each call."""
    kept = weakref.WeakSet()

    def fail(x):
        error = Counted(x)
        kept.add(error)
        raise error

    return kept, fail


def test_failures_in_threads_leave_nothing_behind():
    kept, fail = failures_that_are_counted()
    f = bellhop.qjit(lambda x: bellhop.pure_callback(fail, VECTOR)(x))

    def work(number):
        for _ in range(CALLS):
            with pytest.raises(Counted):
                f(np.full(SIZE, float(number)))

    in_threads(work)
    gc.collect()
    assert len(kept) == 0


def test_failures_on_both_devices_at_once():
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("i",))
    callback = bellhop.pure_callback(double, VECTOR)
    f = jax.jit(
        jax.shard_map(lambda x: callback(x[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    )
    rows = lambda a, b: np.stack([np.full(SIZE, float(a)), np.full(SIZE, float(b))])
    for failing in ((7, 14), (7, 1), (1, 7)):
        with pytest.raises(Refusal):
            np.asarray(f(rows(*failing)))
        np.testing.assert_array_equal(f(rows(1, 2)), 2 * rows(1, 2))


def test_failures_of_taps_leave_nothing_behind():
    kept, fail = failures_that_are_counted()
    f = bellhop.qjit(lambda x: bellhop.tap(fail, x))

    def work(number):
        for _ in range(CALLS):
            f(np.full(SIZE, float(number)))

    in_threads(work)
    assert len(failures_at_barrier()) == THREADS * CALLS
    gc.collect()
    assert len(kept) == 0


def test_failures_of_taps_on_both_devices_at_once():
    mesh = Mesh(np.array(jax.devices("cpu")[:2]), ("i",))
    seen = []

    def record(x):
        seen.append(float(x.flat[0]))
        double(x)

    def body(x):
        bellhop.tap(record, x[0])
        return 2 * x

    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    rows = lambda a, b: np.stack([np.full(SIZE, float(a)), np.full(SIZE, float(b))])
    for pair, failing in (((7, 14), {7, 14}), ((7, 1), {7}), ((1, 14), {14}), ((1, 2), set())):
        np.testing.assert_array_equal(f(rows(*pair)), 2 * rows(*pair))
        assert sorted(failures_at_barrier()) == [(x,) for x in sorted(failing)]
        assert sorted(seen) == sorted(pair)
        seen.clear()


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "cached call"])
def test_recursion_to_depth_fifty(warm):
    depths = []

    def function(n) -> float:
        depths.append(float(n))
        return 0.0 if n < 1 else 1 + float(depth(n - 1))

    depth = bellhop.qjit(lambda n: bellhop.pure_callback(function)(n))
    if warm:
        depth(0.0)
        depths.clear()
    assert depth(50.0) == 50.0
    assert depths == [float(i) for i in range(50, -1, -1)]


@pytest.mark.large
def test_an_exception_through_fifty_programs():
    def function(n) -> float:
        if n < 1:
            raise Refusal("at the bottom")
        return float(down(n - 1))

    down = bellhop.qjit(lambda n: bellhop.pure_callback(function)(n))
    for _ in range(2):
        with pytest.raises(Refusal, match="at the bottom"):
            down(50.0)


def test_callbacks_that_start_threads_that_outlive_the_program():
    results, threads = [], []

    def start(x):
        thread = threading.Thread(target=lambda: results.append(float(x.sum() + f(-x))))
        threads.append(thread)
        if x[0] > 0:
            thread.start()

    f = bellhop.qjit(lambda x: (bellhop.callback(start)(x), jnp.sum(x))[1])
    for i in range(5):
        f(np.full(SIZE, i + 1.0))
    join(thread for thread in threads if thread.ident is not None)
    assert results == [0.0] * 5


def test_more_threads_than_jax_runs_programs_at_once():
    # All are in their callbacks before any of these uses JAX: 32 is what a client of JAX's runs.
    barrier = threading.Barrier(40, timeout=PATIENCE)
    inner = bellhop.qjit(lambda x: 2 * bellhop.pure_callback(lambda v: v + 1, float)(x))

    def callback(x):
        barrier.wait()
        return float(inner(x)) + float(jnp.sum(jnp.asarray(x) * jnp.ones(10)))

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x))
    inner(0.0)
    results = {}

    def run(number):
        results[number] = f(float(number))

    run_at_once(*(partial(run, number) for number in range(40)))
    assert {n: float(r) for n, r in results.items()} == {n: 12.0 * n + 2 for n in range(40)}
    # All results are where programs run, whatever ran them.
    assert float(sum(results.values())) == sum(12.0 * n + 2 for n in range(40))


def test_deep_programs_with_effects_circuits_and_arrays(capsys):
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.PauliZ(0))

    shape = jax.ShapeDtypeStruct((3,), np.float64)

    def deeper(n, x) -> shape:
        return x if n < 1 else np.asarray(f(n - 1, jnp.asarray(x) + 1)["result"])

    @bellhop.qjit
    def f(n, x):
        bellhop.debug.print("{}", n)
        return {"result": bellhop.pure_callback(deeper)(n, x) * circuit(0.0 * x[0])}

    result = f(40, np.arange(3.0))["result"]
    np.testing.assert_allclose(result, np.arange(3.0) + 40)
    # A pure call has no order with effects.
    assert sorted(map(int, capsys.readouterr().out.split())) == list(range(41))
    assert result.devices() == {jax.devices("cpu")[0]}
    assert jnp.sum(result) == 123.0
