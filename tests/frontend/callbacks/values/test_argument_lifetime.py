"""What becomes of argument arrays that a callback keeps after it returns."""

import concurrent.futures
import ctypes
import threading
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import PATIENCE

import bellhop

SMALL, LARGE = 8, 100_000


def pure(function):
    return bellhop.pure_callback(function, float)


filled = bellhop.qjit(lambda n: jnp.full(LARGE, -1.0) * n + 1)


def overwrite_freed_memory():
    for _ in range(3):
        filled(2.0).block_until_ready()
        np.full(LARGE, -7.0)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_debug_callback_may_keep_what_it_gets(size):
    kept = []

    @bellhop.qjit
    def f(x):
        for i in range(3):
            bellhop.debug.callback(lambda v: kept.append(v[::2]))(x * i)
        return x

    f(jnp.ones(size))
    overwrite_freed_memory()
    for i, view in enumerate(kept):
        np.testing.assert_array_equal(view, np.full(size // 2, float(i)))


@pytest.mark.parametrize("view", [False, True])
def test_small_argument_of_a_pure_callback_may_be_kept(view):
    kept = []

    def function(x):
        kept.append(x[1:] if view else x)
        return 0.0

    @bellhop.qjit
    def f(x):
        return jax.lax.fori_loop(0, 5, lambda i, s: s + pure(function)(x * i), 0.0)

    for _ in range(2):
        f(jnp.ones(SMALL))
    overwrite_freed_memory()
    for i, array in enumerate(kept):
        np.testing.assert_array_equal(array, np.full(SMALL - view, float(i % 5)))


@pytest.mark.parametrize("change", ["writeable", "shape", "dtype"])
def test_changes_to_an_argument_do_not_reach_the_next_call(change):
    seen = []

    def function(x):
        seen.append((x.copy(), x.shape, x.dtype, x.flags.writeable))
        if change == "writeable":
            x.flags.writeable = True
            x[...] = 99
        elif change == "shape":
            x = x.reshape(2, 4)
        else:
            x = x.view(np.uint8)
        return 0.0

    f = bellhop.qjit(lambda x: pure(function)(x))
    for i in range(3):
        f(jnp.full(SMALL, float(i)))
    for i, (value, shape, dtype, writeable) in enumerate(seen):
        np.testing.assert_array_equal(value, np.full(SMALL, float(i)))
        assert (shape, dtype, writeable) == ((SMALL,), np.float64, False)


def test_weakly_referenced_argument_is_not_used_again():
    references = []

    def function(x):
        references.append(weakref.ref(x))
        return 0.0

    f = bellhop.qjit(lambda x: pure(function)(x))
    for i in range(3):
        f(float(i))
    alive = [reference() for reference in references if reference() is not None]
    assert len(alive) <= 1
    assert len({id(array) for array in alive}) == len(alive)


def iterator(x):
    rows = iter(x.reshape(2, -1))
    next(rows)
    return lambda: np.concatenate([[7.0] * (x.size // 2), *rows])


def generator(x):
    def elements():
        yield x[0]
        yield from x[1:]

    elements = elements()
    first = next(elements)
    return lambda: np.array([first, *elements])


# What is kept of an argument; each is, or computes, the whole of it.
KEEPERS = {
    "array": lambda x: x,
    "slice": lambda x: x[:],
    "reversed": lambda x: x[::-1][::-1],
    "transpose": lambda x: x.reshape(2, -1).T.T.reshape(-1),
    "other type": lambda x: x.view(np.uint8).view(np.float64),
    "memoryview": memoryview,
    "frombuffer": lambda x: np.frombuffer(memoryview(x)),
    "closure": lambda x: lambda: x,
    "iterator": iterator,
    "generator": generator,
    "ctypes": lambda x: np.ctypeslib.as_array(x.ctypes.data_as(POINTER), x.shape),
    "lent to JAX": lambda x: jax.device_put(x, may_alias=True),
}
POINTER = ctypes.POINTER(ctypes.c_double)


def value_of(kept):
    return np.asarray(kept() if callable(kept) else kept)


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_what_is_kept_of_an_argument_stays(form, keep, raises):
    kept = []

    def greedy(x):
        if raises:
            raise ValueError("held", KEEPERS[keep](x))
        kept.append(KEEPERS[keep](x))
        return 0.0

    f = form(lambda x: pure(greedy)(2 * x))
    for value in (3.5, 4.5):
        if raises:
            with pytest.raises(ValueError, match="held") as caught:
                f(jnp.full(LARGE, value))
            kept.append(caught.value.args[1])
        else:
            f(jnp.full(LARGE, value))
    overwrite_freed_memory()
    for array, value in zip(kept, (7.0, 9.0), strict=True):
        expected = np.full(LARGE, value)
        if keep == "iterator":
            expected[: LARGE // 2] = 7.0
        np.testing.assert_array_equal(value_of(array), expected)


def test_a_view_may_go_to_another_thread():
    results = []
    f = bellhop.qjit(lambda x: pure(lambda x: results.append(pool.submit(late, x[1:])) or 0.0)(x))
    is_over = threading.Event()

    def late(view):
        assert is_over.wait(PATIENCE)
        return view.sum()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        f(jnp.ones(LARGE))
        overwrite_freed_memory()
        is_over.set()
        assert results[0].result() == LARGE - 1


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_exception_may_hold_the_argument(size):
    def function(x):
        view = x[2:]
        raise ValueError("held", x, view.sum())

    f = bellhop.qjit(lambda x: pure(function)(3 * x))
    with pytest.raises(ValueError, match="held") as caught:
        f(jnp.ones(size))
    overwrite_freed_memory()
    _, held, total = caught.value.args
    np.testing.assert_array_equal(held, np.full(size, 3.0))
    assert total == 3.0 * (size - 2)


def test_frames_of_an_exception_keep_their_arguments():
    def deep(x, depth):
        local = x[depth:]
        if depth == 0:
            raise KeyError(local.shape)
        return deep(local, depth - 1)

    f = bellhop.qjit(lambda x: pure(lambda x: deep(x, 3))(3 * x))
    with pytest.raises(KeyError) as caught:
        f(jnp.ones(LARGE))
    overwrite_freed_memory()
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    held = [frame.f_locals["local"] for frame in frames if "local" in frame.f_locals]
    assert [len(local) for local in held] == [LARGE - 3, LARGE - 5, LARGE - 6, LARGE - 6]
    assert all(np.all(local == 3.0) for local in held)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("back", "expected"),
    [(lambda x: x, 3), (lambda x: x[::-1], 3), (lambda x: x[:], 3)],
    ids=["itself", "reversed view", "view"],
)
def test_argument_may_be_the_result(size, back, expected):
    f = bellhop.qjit(lambda x: bellhop.pure_callback(back, jax.ShapeDtypeStruct((size,), float))(x))
    value = np.arange(float(size))
    np.testing.assert_array_equal(f(value), back(value))


def test_recursion_sees_its_own_arguments():
    def function(n):
        before = float(n)
        below = 0.0 if n == 0 else float(f(n - 1))
        assert float(n) == before
        return before + below

    f = bellhop.qjit(lambda n: pure(function)(n))
    assert f(20.0) == 210.0


JAX_USES = {
    "compiled": jax.jit(jnp.sum),
    "compiled, to a float": lambda x: float(jax.jit(jnp.sum)(x)),
    "jax.numpy": lambda x: float(jnp.sum(x)),
    "an array that is x itself": lambda x: np.asarray(jax.jit(lambda v: v)(x)).sum(),
    "device_put": lambda x: jax.device_put(x, may_alias=True).sum(),
    "derivative": lambda x: jax.grad(lambda v: jnp.sum(v * v))(x).sum() / 2,
}


@pytest.mark.parametrize("use", JAX_USES.values(), ids=JAX_USES)
@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", "eager"])
def test_arguments_may_be_given_to_jax(use, form):
    # JAX borrows the memory of large arrays, and gives it back when it sees fit.
    f = form(lambda x: pure(use)(x))
    for i in range(3):
        assert f(jnp.full(LARGE, float(i))) == LARGE * i
