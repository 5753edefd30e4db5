"""Calls of qjit functions where JAX's default device is a GPU: as fast as where it is not."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.standin.fixtures import Counts

import bellhop
from bellhop.compiled.call_fallback import CallInterface

pytestmark = pytest.mark.gpu
X = np.arange(3.0)


@pytest.fixture
def slow_calls(monkeypatch):
    """Count the calls that Python makes in place of C++."""
    made = []
    specially = CallInterface._call_slow_path

    def noted(self, *args):
        made.append(args)
        return specially(self, *args)

    monkeypatch.setattr(CallInterface, "_call_slow_path", noted)
    return made


def test_later_calls_are_fast(slow_calls, counts, is_on_host):
    f = bellhop.qjit(lambda x: x + 1)
    f(X)
    first = len(slow_calls)
    with counts() as counted:
        results = f(X), f(X)
    assert len(slow_calls) == first
    assert counted == Counts()
    assert is_on_host(results)
    np.testing.assert_array_equal(results[0], X + 1)
    # JAX's state is as before.
    assert jax.devices("gpu")[0] in jnp.zeros(1).devices()


def test_arrays_on_the_gpu_by_default_are_taken(slow_calls, counts, is_on_host):
    f = bellhop.qjit(lambda x: x + 1)
    x = jnp.asarray(X)
    f(x)
    first = len(slow_calls)
    with counts() as counted:
        result = f(x)
    assert len(slow_calls) == first
    # JAX copies it to the host itself.
    assert counted.executions == counted.to_device == 0
    assert is_on_host(result)


def test_other_default_devices_in_turn(gpu, slow_calls):
    f = bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin)(x))

    def device():
        np.testing.assert_allclose(f(X), np.sin(X))
        text = f.mlir_opt
        return text.partition('device = "')[2].partition('"')[0]

    others = [each for each in jax.devices("gpu") if each != gpu]
    assert device() == "gpu:0"
    for other in others:
        with jax.default_device(other):
            assert device() == f"gpu:{other.id}"
    with jax.default_device(jax.devices("cpu")[0]):
        # It is part of the program.
        assert f(X).devices() == {jax.devices("cpu")[0]}
        assert not device()
    for name, expected in {"cpu": "", "gpu": "gpu:0"}.items():
        with jax.default_device(name):
            np.testing.assert_allclose(f(X), np.sin(X))
            assert device() == expected


def test_callback_runs_on_the_host():
    seen = []

    def look(x):
        value = jnp.sin(x)
        seen.extend(value.devices())
        return np.asarray(value)

    f = bellhop.qjit(bellhop.pure_callback(look, jax.ShapeDtypeStruct(X.shape, X.dtype)))
    for _ in range(3):
        np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)
    assert {device.platform for device in seen} == {"cpu"}


def test_exception_leaves_the_state_of_jax():
    def fail(x):
        raise KeyError("no")

    f = bellhop.qjit(bellhop.pure_callback(fail, jax.ShapeDtypeStruct((), float)))
    for _ in range(3):
        with pytest.raises(KeyError, match="no"):
            f(1.0)
        assert jnp.zeros(1).devices() == {jax.devices("gpu")[0]}


def test_first_calls_from_threads_of_callbacks():
    inner = bellhop.qjit(lambda x: 2 * x)
    several = threading.Barrier(4)

    def call(x):
        results = [None] * 4

        def run(i):
            several.wait(60)
            results[i] = float(inner(float(x) + i))

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return np.array(results)

    outer = bellhop.qjit(bellhop.pure_callback(call, jax.ShapeDtypeStruct((4,), float)))
    for _ in range(2):
        np.testing.assert_array_equal(outer(1.0), [2, 4, 6, 8])
