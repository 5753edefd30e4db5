"""What becomes of argument arrays that a callback keeps after it returns."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

SMALL, LARGE = 8, 100_000


def pure(function):
    return bellhop.pure_callback(function, float)


def overwrite_freed_memory():
    for _ in range(3):
        bellhop.qjit(lambda n: jnp.full(LARGE, -1.0) * n + 1)(2.0).block_until_ready()
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


KEEPERS = {
    "array": lambda x: x,
    "view": lambda x: x[10:],
    "view of view": lambda x: x[10:][::2],
    "memoryview": memoryview,
    "closure": lambda x: lambda: x,
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_large_argument_kept_by_a_pure_callback_is_an_error(keep):
    kept = []
    keeps = [True]

    def greedy(x):
        if keeps[0]:
            kept.append(keep(x))
        return float(x[0])

    f = bellhop.qjit(lambda x: pure(greedy)(x))
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            f(jnp.ones(LARGE))
        assert "callback 'greedy' kept its argument 0 (or a view of it)" in str(caught.value)
        assert "Keep a copy, np.array(x), instead." in str(caught.value)
        kept.clear()
    keeps[0] = False
    assert f(jnp.full(LARGE, 3.0)) == 3.0


def test_kept_large_argument_gets_memory_of_its_own():
    kept = []

    def greedy(x):
        kept.append(x)
        return 0.0

    f = bellhop.qjit(lambda x: pure(greedy)(2 * x))
    with pytest.raises(RuntimeError, match="kept its argument"):
        f(jnp.ones(LARGE))
    overwrite_freed_memory()
    np.testing.assert_array_equal(kept[0], np.full(LARGE, 2.0))


def test_copy_of_a_large_argument_may_be_kept():
    kept = []

    def modest(x):
        kept.append(np.array(x))
        return 0.0

    bellhop.qjit(lambda x: pure(modest)(2 * x))(jnp.ones(LARGE))
    overwrite_freed_memory()
    np.testing.assert_array_equal(kept[0], np.full(LARGE, 2.0))


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


def test_exception_from_deep_below_lets_go_of_large_arguments():
    def deep(x, depth):
        local = x[depth:]
        if depth == 0:
            raise KeyError(local.shape)
        return deep(local, depth - 1)

    f = bellhop.qjit(lambda x: pure(lambda x: deep(x, 10))(x))
    for _ in range(3):
        with pytest.raises(KeyError):
            f(jnp.ones(LARGE))
        gc.collect()


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


def test_large_arguments_are_not_copied():
    addresses = []

    def function(x):
        addresses.append(x.__array_interface__["data"][0])
        return 0.0

    x = jnp.ones(LARGE)
    bellhop.qjit(lambda x: pure(function)(x))(x)
    assert addresses == [x.unsafe_buffer_pointer()]


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


def test_jax_may_not_keep_a_large_argument_either():
    kept = []

    def function(x):
        kept.append(jax.device_put(x, may_alias=True))
        return 0.0

    f = bellhop.qjit(lambda x: pure(function)(x))
    with pytest.raises(RuntimeError, match="kept its argument 0"):
        f(jnp.ones(LARGE))
    kept.clear()
    assert bellhop.qjit(lambda x: pure(jnp.sum)(x))(jnp.ones(LARGE)) == LARGE
