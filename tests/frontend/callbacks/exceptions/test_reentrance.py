"""Callbacks that use JAX, other programs, themselves and threads: none hangs."""

import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import run_at_once

import bellhop


def test_jax_inside_a_callback():
    def function(x) -> float:
        return float(jnp.sum(jnp.sin(jnp.asarray(x)) @ jnp.ones(100)))

    f = bellhop.qjit(lambda x: bellhop.pure_callback(function)(x))
    x = np.linspace(0, 1, 100)
    for _ in range(3):
        np.testing.assert_allclose(f(x), np.sin(x).sum())


def test_gradient_inside_a_callback():
    @bellhop.pure_callback
    def slope(x) -> float:
        return float(jax.jit(jax.grad(jnp.sin))(float(x)))

    f = bellhop.qjit(lambda x: slope(x) + 1)
    np.testing.assert_allclose([f(0.3), f(0.4)], np.cos([0.3, 0.4]) + 1)


def test_another_program_inside_a_callback():
    inner = bellhop.qjit(lambda x: 3 * bellhop.pure_callback(lambda v: 2 * v, float)(x))

    @bellhop.pure_callback
    def middle(x) -> float:
        return float(inner(x)) + 1

    outer = bellhop.qjit(lambda x: middle(x) ** 2)
    assert [float(outer(float(i))) for i in range(3)] == [1.0, 49.0, 169.0]


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "cached call"])
def test_program_that_calls_itself(warm):
    def function(n) -> float:
        return 1.0 if n < 1 else float(n * factorial(n - 1))

    factorial = bellhop.qjit(lambda n: bellhop.pure_callback(function)(n))
    if warm:
        factorial(0.0)
    assert factorial(20.0) == 2432902008176640000.0
    assert factorial(5.0) == 120.0


def test_program_that_calls_itself_with_a_new_signature():
    def function(x) -> float:
        return float(x.sum()) if x.size == 1 else float(x[0] + total(x[1:]))

    total = bellhop.qjit(lambda x: bellhop.pure_callback(function)(x))
    assert total(np.arange(6.0)) == 15.0
    assert total(np.arange(5.0)) == 10.0


def test_callback_compiles_a_new_program_each_time():
    def function(x) -> float:
        return float(bellhop.qjit(lambda v: v * 2)(x))

    f = bellhop.qjit(lambda x: bellhop.pure_callback(function)(x))
    assert [float(f(float(i))) for i in range(4)] == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("warm", [False, True], ids=["first call", "cached call"])
def test_callback_that_waits_for_a_thread_which_calls_the_program(warm):
    results = []

    def function(x) -> float:
        if x > 0:
            run_at_once(lambda: results.append(float(f(-x))))
        return 2 * float(x)

    f = bellhop.qjit(lambda x: bellhop.pure_callback(function)(x))
    if warm:
        f(-1.0)
    assert f(3.0) == 6.0
    assert results == [-6.0]
    assert f(-4.0) == -8.0


@pytest.mark.parametrize("size", [1, 1000])
def test_eight_threads_call_one_new_program(size):
    traces = []
    double = bellhop.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct((size,), np.float64))

    @bellhop.qjit
    def f(x):
        traces.append(1)
        return double(x) + 1

    results = {}
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()
        results[number] = [np.asarray(f(np.full(size, float(number)))) for _ in range(20)]

    run_at_once(*(partial(work, number) for number in range(8)))
    assert sorted(results) == list(range(8))
    for number, values in results.items():
        np.testing.assert_array_equal(values, np.full((20, size), 2.0 * number + 1))
    assert len(traces) == 1


SCRIPTS = {
    "many programs whose callbacks use jnp": """
        import bellhop, numpy as np, jax.numpy as jnp, threading
        @bellhop.pure_callback
        def cb(x) -> float:
            return float(jnp.sum(jnp.asarray(x) @ jnp.ones((300, 300))))
        f = bellhop.qjit(lambda x: cb(x) + cb(x + 1))
        x = np.ones((300, 300))
        expected = float(f(x))
        def work():
            for _ in range(10):
                assert float(f(x)) == expected
        threads = [threading.Thread(target=work) for _ in range(16)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print("done")
    """,
    "ordered callbacks that use jnp": """
        import bellhop, jax, jax.numpy as jnp
        seen = []
        @bellhop.qjit
        def f(x):
            def body(i, x):
                bellhop.debug.callback(lambda v: seen.append(float(jnp.sum(jnp.sin(v)))))(x)
                return x @ x * 1e-3
            return jax.lax.fori_loop(0, 50, body, x)
        f(jnp.ones((200, 200))); f(jnp.ones((200, 200)))
        assert len(seen) == 100
        print("done")
    """,
    "callbacks under plain jit that use jnp": """
        import bellhop, jax, jax.numpy as jnp
        @bellhop.pure_callback
        def cb(x) -> float:
            return float(jnp.sum(jnp.asarray(x) @ jnp.ones((300, 300))))
        f = jax.jit(lambda x: cb(x) + cb(x + 1))
        outs = [f(jnp.ones((300, 300)) * i) for i in range(50)]
        print("done" if float(outs[2]) > 0 else "wrong")
    """,
    "callback alive at exit": """
        import bellhop, threading, time
        @bellhop.pure_callback
        def cb(x) -> float:
            time.sleep(0.05)
            return float(x)
        f = bellhop.qjit(lambda x: cb(x))
        f(1.0)
        threading.Thread(target=lambda: [f(1.0) for _ in range(5)]).start()
        print("done")
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_nothing_hangs(run_script, script):
    assert run_script(script).strip() == "done"
