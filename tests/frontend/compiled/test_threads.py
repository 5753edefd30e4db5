"""Threads that trace, compile and call one qjit function: nobody's lock is held meanwhile."""

import threading

import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import PATIENCE, run_at_once

import bellhop


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
