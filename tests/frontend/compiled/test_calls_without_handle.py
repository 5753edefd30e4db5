"""Calls of functions whose programs do not call the runtime pass no table handle to JAX."""

import threading

import jax.numpy as jnp
import numpy as np
import pytest
from tests.frontend.compiled.test_static_fast_calls import count_slow_calls

import bellhop


@pytest.mark.parametrize("static", [{}, {"static_argnums": 1}], ids=["dynamic", "static"])
def test_the_second_call_of_a_classical_function_is_fast(static, monkeypatch):
    function = bellhop.qjit(lambda x, n: x * n, **static)
    assert function(jnp.asarray(2.0), 3) == 6
    slow = count_slow_calls(function, monkeypatch)
    assert function(jnp.asarray(4.0), 3) == 12
    assert not slow
    assert function._runner.choose_fast_call()[1] is None


def test_a_function_passes_its_handle_once_a_program_calls_the_runtime():
    def double(x):
        if x.dtype == jnp.int64:
            return bellhop.pure_callback(lambda x: 2 * x, int)(x)
        return 2 * x

    function = bellhop.qjit(double)
    arguments = [jnp.asarray(2.0), jnp.asarray(3), jnp.asarray(2.5)]
    for _ in range(3):
        assert [function(x).item() for x in arguments] == [4, 6, 5]
    assert function._runner.choose_fast_call()[1] is not None


def test_the_first_calls_of_several_threads_donate_their_own_arguments_once():
    function = bellhop.qjit(lambda x: x + 1, donate_argnums=0)
    barrier, results = threading.Barrier(6), {}

    def call(size):
        x = jnp.zeros(size)
        barrier.wait()
        results[size] = np.asarray(function(x)), x.is_deleted()

    threads = [threading.Thread(target=call, args=(1000 + size // 2,)) for size in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [1000, 1001, 1002]
    for size, (result, is_deleted) in results.items():
        np.testing.assert_array_equal(result, np.ones(size))
        assert is_deleted
    assert function(jnp.zeros(4)).tolist() == [1, 1, 1, 1]
