"""Threads that trace, compile and call one qjit function: nobody's lock is held meanwhile."""

import functools
import os
import random
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import PATIENCE, run_at_once

import bellhop
from bellhop_runtime import keep_failure, take_failure


def test_eight_signatures_of_one_function_are_traced_at_the_same_time():
    # Nobody passes before all eight are being traced.
    barrier = threading.Barrier(8, timeout=PATIENCE)
    results = {}

    @bellhop.qjit
    def f(x):
        barrier.wait()
        return bellhop.pure_callback(lambda v: 2 * v, x)(x).sum()

    def work(size):
        results[size] = [float(f(jnp.ones(size))) for _ in range(3)]

    run_at_once(*(lambda size=size: work(size) for size in range(1, 9)))
    assert results == {size: [2.0 * size] * 3 for size in range(1, 9)}


def test_one_signature_is_traced_once_for_eight_threads():
    traces, results = [], []

    @bellhop.qjit
    def f(x):
        traces.append(x.shape)
        return bellhop.pure_callback(np.sin, float)(x)

    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        results.extend(float(f(0.5)) for _ in range(5))

    run_at_once(*[work] * 8)
    assert results == [float(np.sin(0.5))] * 40
    # Two that begin at the very same time may both trace; later calls never do.
    before = len(traces)
    f(0.5)
    assert len(traces) == before <= 8


@pytest.mark.parametrize("where", ["tracing", "callback"])
def test_function_waits_for_a_thread_that_calls_it_with_another_signature(where):
    results = []

    def other():
        run_at_once(lambda: results.append(float(f(jnp.ones(3)))))

    def callback(x):
        if x.ndim == 0:
            other()
        return x.sum()

    @bellhop.qjit
    def f(x):
        if where == "tracing" and x.ndim == 0:
            other()
        return bellhop.pure_callback(callback if where == "callback" else np.sum, float)(x)

    assert float(f(jnp.float64(2.0))) == 2.0
    assert results[0] == 3.0


def test_callback_waits_for_a_thread_that_calls_the_same_program():
    results = []

    def callback(x):
        if x > 0:
            run_at_once(lambda: results.append(float(f(x - 1))))
        return x

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x))
    assert float(f(3.0)) == 3.0
    assert results == [0.0, 1.0, 2.0]


def test_eight_threads_call_while_eight_others_compile():
    ready = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: v + 1, float)(x))
    ready(0.0)
    results = []

    def compile_and_call(number):
        function = bellhop.pure_callback(lambda v: v * number, float)
        results.append(float(bellhop.qjit(lambda x: function(x))(2.0)) == 2.0 * number)

    def call(number):
        results.append([float(ready(float(i))) for i in range(50)] == [i + 1.0 for i in range(50)])

    run_at_once(
        *(lambda n=n: compile_and_call(n) for n in range(8)),
        *(lambda n=n: call(n) for n in range(8)),
    )
    assert results == [True] * 16


# JAX's fast calls know these apart; the program is one for all but the first.
KINDS = {
    "float": float,
    "numpy": np.float64,
    "jax": jnp.float64,
    "elsewhere": lambda x: jax.device_put(jnp.float64(x), jax.devices("cpu")[1]),
}
MEET = 100.0


@functools.cache
def meeting_place():
    return threading.Barrier(2, timeout=PATIENCE)


def call_each_other(options):
    """Return a function by whose callbacks threads meet, and which calls itself."""

    def callback(x):
        if x == MEET:
            meeting_place().wait()
        elif x > 1:
            kind, by = list(KINDS.values())[int(x) % 4], int(x) % 3
            inner = []
            work = lambda: inner.append(float(f(kind(x - 1))))  # noqa: E731
            run_at_once(work) if by else work()
            return inner[0] + 1
        return x

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x), **options)
    return f


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["nothing", "by its callback", "lowered", "failed", "cleared"])
def test_threads_meet_in_the_callbacks_of_a_first_fast_call(before, kind):
    make = KINDS[kind]
    fails = before == "failed"

    def callback(x):
        if fails:
            raise KeyError("first")
        if x == MEET:
            meeting_place().wait()
        if x == 1:
            return float(f(make(2.0)))
        return x

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x))
    if before == "by its callback":
        f(jnp.ones(()))
    if before == "lowered":
        f.lower(make(2.0)).compile()
    if before == "failed":
        with pytest.raises(KeyError):
            f(make(2.0))
        fails = False
    if before == "cleared":
        f(make(2.0))
        jax.clear_caches()
    results = []
    run_at_once(*[lambda: results.append(float(f(make(MEET))))] * 2)
    assert results == [MEET, MEET]


@pytest.mark.parametrize("options", [{}, {"concurrent_callbacks": 2}], ids=["", "overlapping"])
def test_threads_signatures_and_nested_calls_in_any_order(options):
    def work(number):
        draw = random.Random(number)
        for _ in range(6):
            x, kind = draw.randint(0, 8), draw.choice(list(KINDS.values()))
            if draw.random() < 0.1:
                jax.clear_caches()
            assert float(f(kind(x))) == x
            if number < 2:
                assert float(f(kind(MEET))) == MEET

    f = call_each_other(options)
    run_at_once(*(functools.partial(work, number) for number in range(4)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.full(100_000, MEET),
        lambda: {"deep": [np.full(100_000, MEET)]},
        lambda: jax.device_put(np.full(9, MEET), jax.devices("cpu")[1]),
        lambda: jnp.sin(jnp.asarray(np.full(100_000, MEET))) * 0 + MEET,
    ],
    ids=["NumPy", "pytree", "elsewhere", "computed"],
)
def test_more_threads_than_processors_meet_in_callbacks_with_arrays_that_are_on_their_way(make):
    """XLA would run them on as many threads of its own as there are processors."""
    threads = (os.cpu_count() or 1) + 2
    barrier = threading.Barrier(threads, timeout=PATIENCE)
    is_warm = False

    def callback(x):
        if is_warm:
            barrier.wait()
        return x[0]

    f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(jax.tree.leaves(x)[0]))
    f(make())
    is_warm = True
    results = []
    run_at_once(*[lambda: results.append(float(f(make())))] * threads)
    assert results == [MEET] * threads


def test_three_hundred_threads_meet_in_callbacks_that_raise(run_script):
    """As many programs at once as several clients of XLA's run, and as many exceptions."""
    script = """
import os, threading
os.environ["XLA_FLAGS"] = ""
import bellhop

barrier, right = threading.Barrier(300, timeout=250), []

def callback(x):
    barrier.wait()
    raise KeyError(float(x))

f = bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x))

def work(number):
    for _ in range(2):
        try:
            f(float(number))
        except KeyError as error:
            right.append(error.args == (number,))

threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(300)]
[thread.start() for thread in threads]
[thread.join(250) for thread in threads]
print(right == [True] * 600)
"""
    assert run_script(script) == "True\n"


def test_an_exception_waits_while_a_hundred_others_do():
    """Of 64 that waited, the oldest was dropped for the next."""
    numbers = [keep_failure(KeyError(number)) for number in range(100)]
    assert [take_failure(number).args for number in numbers] == [(n,) for n in range(100)]


class Failed(Exception):
    """Can be referred to weakly."""


def test_what_fails_in_a_call_and_nobody_takes_goes_with_the_call():
    kept = []

    def callback(x):
        error = Failed()
        kept.append((keep_failure(error), weakref.ref(error)))
        return x

    assert bellhop.qjit(lambda x: bellhop.pure_callback(callback, float)(x))(1.0) == 1.0
    ((number, reference),) = kept
    assert reference() is None
    assert take_failure(number) is None


def test_rows_on_threads_call_the_function_that_maps_them():
    def callback(x):
        return float(f(np.float64(x - 1))) + 1 if 1 < x < 10 else float(x)

    row = bellhop.pure_callback(callback, float, vmap_method="sequential_threadpool")
    f = bellhop.qjit(lambda x: jax.vmap(row)(jnp.atleast_1d(x)).sum())
    results = []
    run_at_once(*[lambda: results.append(float(f(np.arange(6.0))))] * 3)
    assert results == [15.0] * 3
