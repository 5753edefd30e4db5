"""The stand-in for a GPU is what it says: plain JAX on it, before anything of ours."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.buffer_callback import buffer_callback
from tests.needs import TWO_GPUS
from tests.standin.fixtures import Counts

pytestmark = pytest.mark.gpu
X = np.arange(4.0)


@pytest.fixture(autouse=True)
def _on_the_gpu(gpu):
    with jax.default_device(gpu):
        yield


def test_crossings_are_counted(counts):
    f = jax.jit(lambda x: 2 * x)
    with counts() as counted:
        np.testing.assert_array_equal(f(X), 2 * X)
    assert counted == Counts(executions=1, to_device=1, to_host=1, compilations=1)
    assert counted.to_device_bytes == counted.to_host_bytes == f(X).nbytes
    value = f(X)
    with counts() as counted:
        jax.block_until_ready(f(value))
    assert counted == Counts(executions=1)


def test_copies_between_devices_are_counted(counts, gpu):
    others = [device for device in jax.devices("gpu") if device != gpu]
    if not others:
        TWO_GPUS.skip()
    value = jax.block_until_ready(jnp.asarray(X) + 1)
    with counts() as counted:
        moved = jax.block_until_ready(jax.device_put(value, others[0]))
    assert counted == Counts(between_devices=1)
    np.testing.assert_array_equal(moved, X + 1)


def test_memory_is_its_own(gpu):
    given = X.copy()
    value = jax.device_put(given, gpu)
    jax.block_until_ready(value)
    given[:] = -1
    np.testing.assert_array_equal(value, X)
    assert np.asarray(value).ctypes.data != value.unsafe_buffer_pointer()


def test_program_runs_beside_what_started_it(busy):
    f = jax.jit(lambda x: busy(x, 300))
    jax.block_until_ready(f(X))
    value = f(X)
    assert not value.is_ready()
    jax.block_until_ready(value)


def test_results_arrive_late(delay):
    value = jax.block_until_ready(jnp.asarray(X) + 1)
    delay(to_host=50)
    begin = time.perf_counter()
    np.testing.assert_array_equal(value, X + 1)
    assert time.perf_counter() - begin >= 0.05


def test_callbacks_of_jax():
    seen = []

    def twice(x):
        seen.append(x)
        return 2 * x

    f = jax.jit(lambda x: jax.pure_callback(twice, x, x) + 1)
    assert f(3.0) == 7
    assert seen == [3.0]

    def write(context, out, x):
        np.asarray(out)[...] = 2 * np.asarray(x)

    double = jax.jit(lambda x: buffer_callback(write, x)(x))
    np.testing.assert_array_equal(double(X), 2 * X)


def test_ordered_callbacks_of_jax(capfd):
    def f(x):
        jax.debug.print("{}", x, ordered=True)
        jax.debug.print("{}", x + 1, ordered=True)
        return x

    jax.jit(f)(1.0)
    jax.effects_barrier()
    assert capfd.readouterr().out == "1.0\n2.0\n"


def test_linear_algebra():
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    np.testing.assert_allclose(jnp.linalg.inv(matrix), np.linalg.inv(matrix), rtol=1e-5)
    symmetric = matrix + matrix.T
    np.testing.assert_allclose(
        jnp.linalg.eigvalsh(symmetric), np.linalg.eigvalsh(symmetric), rtol=1e-5
    )


def test_what_xla_has_for_gpus_alone():
    np.testing.assert_allclose(jax.jit(jnp.cumsum)(X), np.cumsum(X))
    rows, groups = np.ones((4, 2)), np.arange(1.0, 5.0).reshape(2, 2, 1)
    products = jax.jit(jax.lax.ragged_dot)(rows, groups, np.array([1, 3], np.int32))
    np.testing.assert_allclose(products, [[3], [7], [7], [7]])


def test_random_numbers_are_those_of_the_cpu():
    drawn = jax.random.normal(jax.random.key(1), (3,))
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.random.normal(jax.random.key(1), (3,))
    np.testing.assert_allclose(drawn, np.asarray(expected), rtol=1e-6)
