"""Programs of the kinds that hang elsewhere, many times and from 16 threads at once.

``make stress`` runs the complete count; the suite runs a few rounds.
"""

import textwrap
import threading

import pytest
from tests.integration.under_load.random_calls import run_random_calls
from tests.patience import PATIENCE, join

THREADS = 16

# Each has a `work(thread, round)` that returns whether the result is right.
PROGRAMS = {
    # jax-ml/jax#24255: a callback that gives big arrays to JAX.
    "jax_24255_big_arrays_go_to_jax_in_a_callback": """
        @jax.jit
        def product(m):
            return m @ m
        @bellhop.pure_callback(result_type=jax.ShapeDtypeStruct((300, 300), np.float64))
        def squared(m):
            return np.asarray(product(jnp.asarray(m)))
        @bellhop.qjit
        def f(m):
            return jnp.sum(squared(m) + squared(m + 1))
        ones = np.ones((300, 300))
        def work(thread, round):
            x = thread + round % 3
            return np.isclose(float(f(ones * x)), 300**3 * (x**2 + (x + 1) ** 2))
    """,
    "jax_24255_eigenvalues_by_jax_in_a_callback_under_plain_jit": """
        eigenvalues = jax.jit(jnp.linalg.eigvalsh)
        @bellhop.pure_callback(result_type=jax.ShapeDtypeStruct((40,), np.float64))
        def callback(m):
            return eigenvalues(m)
        f = jax.jit(lambda m: jnp.sum(callback(m @ m)))
        matrix = np.diag(np.arange(40.0))
        def work(thread, round):
            return np.isclose(float(f(matrix + thread * np.eye(40))),
                              np.sum((np.arange(40.0) + thread) ** 2))
    """,
    # jax-ml/jax#25861: a loop that logs, among other computations on big arrays.
    "jax_25861_a_loop_that_logs_among_big_arrays": """
        lines = []
        def log(info):
            lines.append(int(info["iteration"]))
        @bellhop.qjit
        def minimise(x):
            def step(state):
                x, i = state
                jax.lax.cond(i % 5 == 0, lambda: bellhop.debug.callback(log)({"iteration": i}),
                             lambda: None)
                return x + 1, i + 1
            return jax.lax.while_loop(lambda state: state[1] < 25, step, (x, 0))[0]
        def work(thread, round):
            start = jnp.sin(jnp.ones((200, 200)) * thread)
            samples = [minimise(start + k) for k in range(2)]
            return np.allclose(samples[1] - samples[0], 1) and np.allclose(samples[0] - start, 25)
    """,
    "a_callback_that_calls_programs_and_starts_threads": """
        inner = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: 2 * v, float)(x))
        @bellhop.pure_callback
        def middle(x) -> float:
            results = []
            helpers = [threading.Thread(target=lambda i=i: results.append(float(inner(x + i))))
                       for i in range(2)]
            [helper.start() for helper in helpers]
            [helper.join() for helper in helpers]
            return sum(results)
        outer = bellhop.qjit(lambda x: middle(x) + inner(x))
        def work(thread, round):
            return float(outer(float(thread))) == 6 * thread + 2
    """,
    "failures_in_flight": """
        class Failure(Exception):
            pass
        def fail(x):
            if x % 3 == 1:
                raise Failure(float(x))
            return float(jnp.sum(jnp.full(100, float(x))))
        f = bellhop.qjit(lambda x: bellhop.pure_callback(fail, float)(x))
        def work(thread, round):
            x = float(thread + round)
            try:
                return float(f(x)) == 100 * x and x % 3 != 1
            except Failure as error:
                return error.args == (x,)
    """,
}

ROUNDS = """
import os, sys, threading, faulthandler
import bellhop, jax, jax.numpy as jnp, numpy as np
{program}
def round_of(number):
    barrier = threading.Barrier({threads})
    wrong = []
    def run(thread):
        barrier.wait()
        try:
            if not work(thread, number):
                wrong.append((thread, "result"))
        except BaseException as error:
            wrong.append((thread, repr(error)))
    threads = [threading.Thread(target=run, args=(t,)) for t in range({threads})]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong, (number, wrong)
for number in range({rounds}):
    # A round that hangs shows where every thread stands, and fails.
    faulthandler.dump_traceback_later(300, exit=True)
    round_of(number)
faulthandler.cancel_dump_traceback_later()
print("done")
"""


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_hangs(run_script, program, rounds):
    script = ROUNDS.format(
        program=textwrap.dedent(PROGRAMS[program]), rounds=rounds, threads=THREADS
    )
    assert run_script(script, timeout=PATIENCE + 20 * rounds).strip() == "done"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nested_calls_in_all_ways_return_what_they_must(seed):
    run_random_calls(seed, size=8, threads=3)


# Ten threads may have more programs under way than JAX runs on one device.
MANY = """
from tests.integration.under_load.random_calls import run_random_calls
for seed in range({first}, {first} + 10):
    run_random_calls(seed, size=40, threads=10)
print("done")
"""


@pytest.mark.long
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("first", range(1000, 1050, 10))
def test_many_nested_calls_in_all_ways_return_what_they_must(run_script, first, devices):
    flags = f"--xla_force_host_platform_device_count={devices}"
    assert run_script(MANY.format(first=first), timeout=10 * PATIENCE, XLA_FLAGS=flags) == "done\n"


def test_a_thread_that_hangs_is_shown_with_its_stack():
    ends = threading.Event()

    def a_function_that_waits():
        ends.wait()

    thread = threading.Thread(target=a_function_that_waits)
    thread.start()
    try:
        with pytest.raises(AssertionError, match="a_function_that_waits"):
            join([thread], seconds=0.01)
    finally:
        ends.set()
