"""Where programs run, and what happens where JAX would run them elsewhere."""

import jax
import jax.numpy as jnp
import pytest

import bellhop
import bellhop_runtime
from bellhop.compiler import host_placement
from bellhop.execution import cpu_client_pool
from bellhop_runtime import begin_run, end_run


def on_second(value):
    return jax.device_put(value, jax.devices("cpu")[1])


def test_results_are_committed_where_those_of_jax_jit_are():
    key = jax.random.key(0)
    for x, function in (
        (1.0, jnp.sin),
        (jnp.ones(3), jnp.sin),
        (on_second(1.0), jnp.sin),
        (key, jax.random.split),
        (on_second(key), jax.random.split),
    ):
        ours, theirs = bellhop.qjit(function)(x), jax.jit(function)(x)
        assert (ours.committed, ours.devices()) == (theirs.committed, theirs.devices())
        assert jax.typeof(ours) == jax.typeof(theirs)


def test_results_mix_with_arrays_elsewhere_and_are_fed_back_without_compiling_again():
    f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: v + 1, float)(x))
    y = f(jnp.float64(1))
    assert (y + on_second(1.0)).devices() == {jax.devices("cpu")[1]}
    assert f(f(y)) == 4
    assert f._runner.choose_fast_call()[0]._cache_size() == 1


def test_results_of_regions_on_the_default_device_are_committed_to_none():
    assert not bellhop.accelerate(jnp.sin)(jnp.ones(3)).committed
    assert bellhop.accelerate(jnp.sin, dev="cpu:1")(jnp.ones(3)).committed
    assert not bellhop.accelerate(jnp.sin)(on_second(1.0)).devices() - {jax.devices()[0]}


def test_crowded_programs_commit_as_others():
    f = bellhop.qjit(jax.random.fold_in)
    arguments = [(jax.random.key(0), 1), (on_second(jax.random.key(0)), 1)]
    expected = [f(*each) for each in arguments]
    for _ in range(cpu_client_pool.RUNS_PER_CLIENT):
        begin_run()
    try:
        results = [f(*each) for each in arguments]
    finally:
        for _ in range(cpu_client_pool.RUNS_PER_CLIENT):
            end_run()
    for one, other in zip(results, expected, strict=True):
        assert (one.committed, one.devices()) == (other.committed, other.devices())
        assert one == other


def test_where_jax_prefers_another_platform_programs_run_on_the_host(monkeypatch):
    # As on a machine with a GPU: JAX's default is elsewhere unless it is told.
    monkeypatch.setattr(host_placement, "_is_off_host", lambda default: default is None)
    monkeypatch.setattr(host_placement, "_states", {})
    traces = []

    @bellhop.qjit
    def f(x):
        traces.append(x)
        return bellhop.pure_callback(lambda v: 2 * v, float)(x)

    y = f(jnp.float64(1))
    assert (f(y), y.committed, len(traces)) == (4, False, 1)
    assert f.lower(y).compile() is not None
    assert len(traces) == 1


@pytest.mark.parametrize("text", ["incompatible devices", "Recursively calling jit"])
@pytest.mark.parametrize("error", [ValueError, RecursionError, TypeError])
def test_text_of_an_exception_does_not_run_a_program_again(error, text):
    seen = []

    @bellhop.io_callback
    def call(x) -> float:
        seen.append(float(x))
        if x > 1:
            raise error(text)
        return x

    f = bellhop.qjit(lambda x: call(x))
    f(1.0)
    for _ in range(2):
        with pytest.raises(error, match=text):
            f(2.0)
    assert seen == [1.0, 2.0, 2.0]


def test_text_of_an_exception_does_not_trace_a_function_again():
    seen = []
    f = bellhop.qjit(lambda x: seen.append(x) or raise_(RecursionError("Recursively calling jit")))
    with pytest.raises(RecursionError):
        f(1.0)
    assert len(seen) == 1


def raise_(error):
    raise error


def test_text_of_an_exception_does_not_fetch_what_waits_for_another():
    waiting = KeyError("of another run")
    number = bellhop_runtime.keep_failure(waiting)

    def fail(x):
        near = range(number - 100, number + 100)
        raise ValueError("".join(f"[bellhop failure {each}]" for each in near if each != number))

    # In a trace nothing of ours stands between the text and who reads it.
    with pytest.raises(ValueError, match="bellhop failure"):
        bellhop.qjit(fail)(1.0)
    following = bellhop_runtime.keep_failure(ValueError())
    assert abs(following - number) > 1000
    assert bellhop_runtime.take_failure(number) is waiting
