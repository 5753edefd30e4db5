"""What users reported of JAX's callbacks, as tests named for the threads.

Reports that other tests hold:

* jax-ml/jax#24255, #25861 and pasteurlabs/tesseract-jax#177, hangs: ``test_stress.py``;
* jax-ml/jax#25123 and climate-analytics-lab/jax-gcm#827, unstable modules that are not cached:
  ``test_identical_modules.py`` and ``test_stable_plain_jit.py``;
* jax-ml/jax#29322, the time between chained callbacks: ``benchmarks/cases/callbacks.py``.
"""

import functools
import gc
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import bellhop

FORMS = {"qjit": bellhop.qjit, "jit": jax.jit}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices("cpu")[:2]), ("i",))


class UserError(Exception):
    def __init__(self, code, *, detail):
        super().__init__(code)
        self.detail = detail


def refuse(x):
    if x > 0:
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise UserError(3, detail=float(x)) from error
    return float(x)


FLAVOURS = {
    "pure": bellhop.pure_callback(refuse, float),
    "io": bellhop.io_callback(refuse, float),
    "ordered io": bellhop.io_callback(refuse, float, ordered=True),
    "debug": lambda x: (bellhop.debug.callback(refuse)(x), x)[1],
}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_jax_26102_exception_keeps_its_type_on_cached_calls(flavour):
    f = bellhop.qjit(lambda x: FLAVOURS[flavour](x) + 1)
    # The first call compiles, the others take JAX's fast path.
    for x in (1.0, 2.0, 3.0):
        with pytest.raises(UserError) as caught:
            f(x)
        assert caught.value.args == (3,)
        assert caught.value.detail == x
        assert type(caught.value.__cause__) is KeyError
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "refuse"
        assert f(-x) == 1 - x


def test_jax_34179_first_and_cached_calls_raise_the_same():
    f = bellhop.qjit(lambda x: FLAVOURS["pure"](x))
    raised = []
    for _ in range(3):
        with pytest.raises(UserError) as caught:
            f(1.0)
        raised.append((type(caught.value), caught.value.args, caught.value.__notes__))
    assert raised[0] == raised[1] == raised[2]


def test_jax_37973_a_failure_under_shard_map_does_not_poison_later_calls(mesh):
    def no_fives(x):
        if (x == 5).any():
            raise ValueError("No fives.")

    check = bellhop.io_callback(no_fives, ordered=True)
    spec = P("i")
    sharded = jax.jit(
        jax.shard_map(lambda x: (check(x), 2 * x)[1], mesh=mesh, in_specs=spec, out_specs=spec)
    )
    plain = jax.jit(lambda x: (check(x), x)[1])
    other = bellhop.qjit(lambda x: bellhop.io_callback(lambda v: v + 1, float, ordered=True)(x))
    for _ in range(2):
        np.testing.assert_array_equal(sharded(jnp.ones(4)), 2 * np.ones(4))
        with pytest.raises(Exception, match="No fives"):
            jax.block_until_ready(sharded(jnp.array([3.0, 4, 5, 6])))
        with pytest.raises(Exception, match="No fives"):
            jax.block_until_ready(plain(jnp.array(5.0)))
        assert plain(jnp.array(7.0)) == 7.0
        assert other(1.0) == 2.0


def test_jax_37973_a_process_that_failed_exits_cleanly(run_script):
    out = run_script(
        """
        import jax, jax.numpy as jnp, numpy as np, bellhop
        from jax.sharding import Mesh, PartitionSpec as P
        def fail(x):
            raise ValueError("no")
        check = bellhop.io_callback(fail, ordered=True)
        mesh = Mesh(np.array(jax.devices()), ("i",))
        f = jax.jit(jax.shard_map(lambda x: (check(x), x)[1], mesh=mesh, in_specs=P("i"),
                                  out_specs=P("i")))
        try:
            jax.block_until_ready(f(jnp.ones(4)))
        except ValueError as error:
            print(error)
        """
    )
    assert out == "no\n"


def test_jax_30401_derivatives_of_a_linear_callback_to_any_order(form):
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    vector = jax.ShapeDtypeStruct((2,), np.float64)

    # A linear callback whose transpose is a callback as well.
    times = bellhop.pure_callback(lambda x: matrix @ x, vector)
    transposed = bellhop.pure_callback(lambda y: matrix.T @ y, vector)
    for callback, other in ((times, transposed), (transposed, times)):
        callback.fwd(functools.partial(lambda c, x: (c(x), None), callback))
        callback.bwd(functools.partial(lambda o, _, dy: o(dy), other))

    def f(x):
        return jnp.sum(times(x) ** 2)

    x = jnp.array([0.5, -1.0])
    np.testing.assert_allclose(form(jax.grad(f))(x), 2 * matrix.T @ matrix @ x)
    np.testing.assert_allclose(form(jax.jacrev(jax.grad(f)))(x), 2 * matrix.T @ matrix)


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_jax_23624_nested_vmap_over_different_arguments(form, method):
    shapes = []

    def add(x, y, z):
        shapes.append((x.shape, y.shape, z.shape))
        return x + y + z

    callback = bellhop.pure_callback(add, float, vmap_method=method)
    inner = jax.vmap(callback, in_axes=(None, 0, None))
    table = form(jax.vmap(inner, in_axes=(0, None, None)))
    x, y, z = jnp.arange(4.0), jnp.arange(5.0), 1.0
    np.testing.assert_array_equal(table(x, y, z), x[:, None] + y + z)
    expected = [((), (), ())] * 20 if method == "sequential" else [((4, 5),) * 3]
    assert shapes == expected


@pytest.mark.parametrize(
    "method", ["sequential", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
def test_jax_24756_a_batch_may_be_shared_among_threads(form, method):
    # Who wants threads takes the whole batch at once and uses a pool.
    from concurrent.futures import ThreadPoolExecutor

    def slow(x):
        return float(np.sum(np.sin(x)))

    def batched(xs):
        if method == "sequential":
            return slow(xs)
        with ThreadPoolExecutor(4) as pool:
            return np.array(list(pool.map(slow, xs)))

    xs = np.arange(24.0).reshape(6, 4)
    f = form(jax.vmap(bellhop.pure_callback(batched, float, vmap_method=method)))
    np.testing.assert_allclose(f(xs), np.sin(xs).sum(1))


def test_jax_20701_a_callback_writes_into_the_programs_own_buffer():
    addresses = []

    def fill(context, out, x):
        addresses.append((out.ctypes.data, x.ctypes.data))
        np.multiply(x, 2, out=out)

    shape = jax.ShapeDtypeStruct((100_000,), np.float64)
    f = bellhop.qjit(lambda x: bellhop.buffer_callback(fill, shape, in_place=True)(x))
    x = jnp.arange(100_000.0)
    result = f(x)
    np.testing.assert_array_equal(result, 2 * x)
    assert addresses == [(result.unsafe_buffer_pointer(), x.unsafe_buffer_pointer())]


def test_jax_38173_the_example_of_buffer_callback_runs(form):
    def add_one_inplace(ctx, out, x):
        np.asarray(out)[...] = np.asarray(x) + 1

    shape = jax.ShapeDtypeStruct((4,), np.float64)
    f = form(bellhop.buffer_callback(add_one_inplace, shape, input_output_aliases={0: 0}))
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(f(x), np.arange(4.0) + 1)
    # The caller's own array is not the program's to overwrite.
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_jax_19867_prints_appear_although_the_process_ends_at_once(run_script):
    out = run_script(
        """
        import jax, bellhop
        @jax.jit
        def f(x):
            jax.lax.fori_loop(0, 20, lambda i, c: (bellhop.debug.print("plain {}", i), c)[1], 0)
            return x
        @bellhop.qjit
        def g(x):
            jax.lax.fori_loop(0, 20, lambda i, c: (bellhop.debug.print("ours {}", i), c)[1], 0)
            return x
        f(1.0); g(1.0)
        """
    )
    lines = [f"plain {i}" for i in range(20)] + [f"ours {i}" for i in range(20)]
    assert out.splitlines() == lines


def test_jax_19867_prints_appear_although_the_process_fails(run_script):
    out = run_script(
        """
        import os, sys, threading, bellhop
        f = bellhop.qjit(lambda x: (bellhop.debug.print("{}", x), x)[1])
        thread = threading.Thread(target=lambda: f(2.0))
        thread.start(); thread.join()
        sys.excepthook = lambda *error: (sys.stdout.flush(), os._exit(0))
        f(3.0)
        raise RuntimeError
        """
    )
    assert out.split() == ["2.0", "3.0"]


FLAVOURS_PER_SHARD = {
    "pure": lambda log: bellhop.pure_callback(log, float),
    "io": lambda log: bellhop.io_callback(log, float),
    "ordered io": lambda log: bellhop.io_callback(log, float, ordered=True),
    "debug": lambda log: lambda x: (bellhop.debug.callback(log)(x), jnp.sum(x))[1],
}


@pytest.mark.parametrize("flavour", FLAVOURS_PER_SHARD)
def test_jax_38968_shard_map_calls_once_on_each_device_with_its_shard(mesh, flavour):
    shards = []

    def log(x):
        shards.append(x.tolist())
        return float(x.sum())

    callback = FLAVOURS_PER_SHARD[flavour](log)
    f = jax.jit(
        jax.shard_map(lambda x: callback(x)[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    )
    np.testing.assert_array_equal(f(jnp.arange(6.0)), [3.0, 12.0])
    assert sorted(shards) == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_jax_25671_ordered_calls_with_shard_map_and_then_without(mesh):
    calls = []

    def f(x, y):
        bellhop.io_callback(lambda v: calls.append(v.shape), ordered=True)(x)
        return x + y[..., None]

    spec = P(None, "i")
    sharded = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=(spec, P(None)), out_specs=spec))
    for _ in range(2):
        np.testing.assert_array_equal(sharded(jnp.zeros((2, 16)), jnp.ones(2)), np.ones((2, 16)))
        np.testing.assert_array_equal(jax.jit(f)(jnp.zeros((2, 16)), jnp.ones(2)), np.ones((2, 16)))
        assert calls == [(2, 8), (2, 8), (2, 16)]
        calls.clear()


def test_jax_9970_functions_and_what_they_captured_are_freed(short_collections):
    class Captured:
        pass

    captured = weakref.WeakSet()

    def program():
        value = Captured()
        captured.add(value)
        return bellhop.qjit(lambda x: bellhop.io_callback(lambda v: (value, float(v))[1], float)(x))

    for i in range(5):
        assert program()(float(i)) == i
    gc.collect()
    assert len(captured) == 0
