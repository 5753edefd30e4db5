"""qjit(concurrent_callbacks=n): pure callbacks that do not need each other run at once."""

import contextvars
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import PATIENCE, run_at_once

import bellhop
from bellhop_runtime import pending_regions


def at_once(function):
    return bellhop.qjit(function, concurrent_callbacks=4)


@pytest.fixture
def meeting():
    """A callback of which four calls wait for each other."""
    barrier = threading.Barrier(4)

    @bellhop.pure_callback
    def meeting(x) -> float:
        barrier.wait(PATIENCE)
        return x * x

    return meeting


FORMS = {
    "straight": lambda f: lambda x: [f(x + i) for i in range(4)],
    "functions": lambda f: lambda x: [jax.jit(lambda x: f(x))(x + i) for i in range(4)],
    "one function": lambda f: lambda x: [jax.jit(f)(x + i) for i in range(4)],
    "loop": lambda f: (
        lambda x: jax.lax.fori_loop(0, 2, lambda _, y: [f(x + i) for i in range(4)], [x] * 4)
    ),
    "branch": lambda f: (
        lambda x: jax.lax.cond(x > 0, lambda x: [f(x + i) for i in range(4)], lambda x: [x] * 4, x)
    ),
    "JAX's own": lambda f: (
        lambda x: [jax.pure_callback(f, jax.ShapeDtypeStruct((), float), x + i) for i in range(4)]
    ),
    "between arithmetic": lambda f: (
        lambda x: [jnp.sqrt(f(y)) ** 2 for y in (x, x + 1, jnp.exp(jnp.log(x + 2)), x + 3)]
    ),
}


@pytest.mark.parametrize("program", FORMS.values(), ids=FORMS)
def test_calls_that_do_not_need_each_other_are_under_way_at_once(program, meeting):
    found = at_once(program(meeting))(1.0)
    np.testing.assert_allclose(found, [1.0, 4.0, 9.0, 16.0])


def test_derivatives_of_several_callbacks_are_computed_at_once(meeting):
    square = bellhop.pure_callback(lambda x: x * x, float)
    square.jvp(
        lambda primals, tangents: (
            square(*primals),
            meeting(jnp.sqrt(2 * primals[0])) * tangents[0],
        )
    )
    f = at_once(jax.grad(lambda x: sum(square(x[i]) for i in range(4))))
    np.testing.assert_allclose(f(np.arange(1.0, 5.0)), [2.0, 4.0, 6.0, 8.0])


def test_no_more_than_that_many_run_at_once():
    lock, running, most = threading.Lock(), [], []

    @bellhop.pure_callback
    def count(x) -> float:
        with lock:
            running.append(x)
            most.append(len(running))
        threading.Event().wait(0.005)
        with lock:
            running.pop()
        return x

    f = bellhop.qjit(lambda x: sum(count(x + i) for i in range(12)), concurrent_callbacks=3)
    assert f(1.0) == 78.0
    # The thread that waits takes what no other has.
    assert 1 < max(most) <= 4


def test_an_exception_reaches_the_caller_and_the_program_can_be_used_again():
    held = threading.Event()

    @bellhop.pure_callback
    def picky(x) -> float:
        if x == 2:
            raise ValueError("two")
        if x == 4:
            assert held.wait(PATIENCE)
        return x

    f = at_once(lambda x: sum(picky(x + i) for i in range(8)))
    with pytest.raises(ValueError, match="two") as raised:
        f(1.0)
    assert "raised in callback 'picky', called from" in raised.value.__notes__[0]
    held.set()
    assert f(10.0) == 108.0
    assert pending_regions() == 0


def test_calls_have_the_context_of_the_caller(meeting):
    variable = contextvars.ContextVar("variable", default="nobody's")
    seen = []
    read = bellhop.pure_callback(lambda x: (seen.append(variable.get()), meeting(x))[1], float)
    token = variable.set("the caller's")
    try:
        at_once(lambda x: sum(read(x + i) for i in range(4)))(1.0)
    finally:
        variable.reset(token)
    assert seen == ["the caller's"] * 4


def test_programs_in_callbacks_and_on_threads_do_not_wait_for_each_others_threads():
    inner = at_once(lambda x: sum(bellhop.pure_callback(np.sin, float)(x + i) for i in range(6)))
    middle = bellhop.pure_callback(lambda x: inner(x), float)
    outer = at_once(lambda x: sum(middle(x + 10 * i) for i in range(6)))
    expected = sum(np.sin(np.arange(6) + 10 * i).sum() for i in range(6))
    works = [lambda: np.testing.assert_allclose(outer(0.0), expected) for _ in range(4)]
    run_at_once(*works)


def test_effects_keep_their_order_beside_them(meeting):
    log = []
    note = bellhop.io_callback(lambda x: log.append(float(x)), ordered=True)

    def program(x):
        note(x)
        a = [meeting(x + i) for i in range(3)]
        note(2 * x)
        note(sum(a))
        return meeting(4 * x)

    assert at_once(program)(1.0) == 16.0
    assert log == [1.0, 2.0, 14.0]


def test_saved_programs_keep_it(tmp_path, meeting):
    f = at_once(lambda x: sum(bellhop.pure_callback(_times_two, float)(x + i) for i in range(4)))
    assert f(1.0) == 20.0
    f.save(tmp_path / "f.bellhop")
    g = bellhop.load(tmp_path / "f.bellhop", {f"{__name__}:_times_two": meeting._function})
    assert g(1.0) == 30.0
    assert g.compile_options.concurrent_callbacks == 4


def _times_two(x):
    return 2 * x


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "8"])
def test_how_many_is_an_integer(wrong):
    with pytest.raises(ValueError, match="concurrent_callbacks must be a positive integer"):
        bellhop.qjit(lambda x: x, concurrent_callbacks=wrong)
