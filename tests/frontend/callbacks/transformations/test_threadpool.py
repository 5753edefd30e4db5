"""vmap_method="sequential_threadpool": elements of a mapped axis are called on threads."""

import contextvars
import threading

import jax
import numpy as np
import pytest
from tests.patience import PATIENCE

import bellhop

THREADS = "sequential_threadpool"
POINTS = np.arange(8.0)
MAKERS = {"pure": bellhop.pure_callback, "io": bellhop.io_callback}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request):
    return lambda function, types: request.param(function, types, vmap_method=THREADS)


@pytest.fixture
def together():
    """Waits until eight callers are here at once."""
    barrier = threading.Barrier(8)
    return lambda: barrier.wait(PATIENCE)


def test_elements_are_called_at_once_and_their_results_come_in_order(form, make, together):
    def function(x, pair):
        together()
        return {"sum": x + pair[0], "is": bool(x > 3)}

    call = make(function, {"sum": float, "is": bool})
    found = form(jax.vmap(lambda x, y: call(x, (y, None)), (0, None)))(POINTS, 5.0)
    np.testing.assert_array_equal(found["sum"], POINTS + 5)
    np.testing.assert_array_equal(found["is"], POINTS > 3)


def test_axes_that_are_mapped_one_after_another_are_one_batch(form, make, together):
    def function(row, y):
        together()
        return row * y

    call = make(function, jax.ShapeDtypeStruct((3,), float))
    rows, ys = np.arange(6.0).reshape(3, 2), np.arange(4.0)
    found = form(jax.vmap(jax.vmap(call, (None, 0)), (1, None), out_axes=1))(rows, ys)
    np.testing.assert_array_equal(found, np.einsum("ri,y->yir", rows, ys))


def test_the_first_exception_in_order_is_raised_and_no_call_begins_after_it(form):
    calls = []
    second = threading.Event()

    def function(x):
        calls.append(float(x))
        if x == 3:
            assert second.wait(PATIENCE)
        if x in (3, 5):
            second.set()
            raise ValueError(float(x))
        return x

    call = bellhop.pure_callback(function, float, vmap_method=THREADS)
    with pytest.raises(ValueError, match=r"3\.0") as raised:
        form(jax.vmap(call))(np.arange(1000.0))
    assert any("raised in callback 'function'" in note for note in raised.value.__notes__)
    assert len(calls) < 1000
    assert sorted(calls) == list(range(len(calls)))


def test_what_ends_python_waits_for_nobody():
    begun, end = threading.Event(), threading.Event()
    caller = threading.get_ident()

    def function(x):
        if threading.get_ident() == caller:
            assert begun.wait(PATIENCE)
            raise KeyboardInterrupt
        begun.set()
        assert end.wait(PATIENCE)
        return x

    f = bellhop.qjit(jax.vmap(bellhop.pure_callback(function, float, vmap_method=THREADS)))
    with pytest.raises(KeyboardInterrupt):
        f(POINTS)
    assert not end.is_set()
    end.set()
    double = bellhop.pure_callback(lambda x: 2 * x, float, vmap_method=THREADS)
    np.testing.assert_array_equal(bellhop.qjit(jax.vmap(double))(POINTS), 2 * POINTS)


def test_each_call_has_a_copy_of_the_callers_context(together):
    variable = contextvars.ContextVar("variable", default="nobody's")

    def function(x):
        together()
        seen.append(variable.get())
        variable.set(str(x))
        return x

    seen = []
    token = variable.set("the caller's")
    try:
        call = bellhop.pure_callback(function, float, vmap_method=THREADS)
        bellhop.qjit(jax.vmap(call))(POINTS)
    finally:
        variable.reset(token)
    assert seen == ["the caller's"] * 8


def test_more_programs_wait_for_elements_than_there_are_threads():
    inner = bellhop.qjit(
        jax.vmap(bellhop.pure_callback(lambda x: x + 1, float, vmap_method=THREADS))
    )
    outer = bellhop.pure_callback(lambda x: inner(x + POINTS).sum(), float, vmap_method=THREADS)
    points = np.arange(50.0)
    np.testing.assert_array_equal(bellhop.qjit(jax.vmap(outer))(points), 8 * points + 36)


def test_derivative_of_elements_on_threads(form):
    sine = bellhop.pure_callback(np.sin, float, vmap_method=THREADS)
    cosine = bellhop.pure_callback(np.cos, float, vmap_method=THREADS)
    sine.jvp(lambda primals, tangents: (sine(*primals), cosine(*primals) * tangents[0]))
    np.testing.assert_allclose(form(jax.vmap(jax.grad(sine)))(POINTS), np.cos(POINTS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: bellhop.io_callback(f, float, ordered=True, vmap_method=THREADS),
            "ordered io_callback 'sin' has vmap_method='sequential_threadpool', expected one",
        ),
        (
            lambda f: bellhop.io_callback(f, float, vmap_method="expand_dims"),
            "io_callback 'sin' has vmap_method='expand_dims', expected one of 'sequential', ",
        ),
        (
            lambda f: bellhop.buffer_callback(f, float, vmap_method=THREADS),
            "buffer_callback 'sin' has vmap_method='sequential_threadpool', expected one of",
        ),
    ],
    ids=["ordered", "all at once", "buffers"],
)
def test_methods_that_a_flavour_has_not(make, message):
    with pytest.raises(ValueError, match=message):
        make(np.sin)


def test_decorator_of_io_callback_takes_a_method(together):
    @bellhop.io_callback(result_type=float, vmap_method=THREADS)
    def log(x):
        together()
        return x

    np.testing.assert_array_equal(bellhop.qjit(jax.vmap(log))(POINTS), POINTS)
