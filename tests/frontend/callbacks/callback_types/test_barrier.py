"""barrier_wait: what it waits for, and what it raises."""

import _thread
import math
import sys
import threading
import time
import traceback
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from tests.patience import PATIENCE, join, run_at_once, wait_until

import bellhop
from bellhop import CallbackException


class UserError(Exception):
    pass


def test_waits_for_everything_so_far():
    seen = []

    def slow(x):
        time.sleep(0.01)
        seen.append(float(x))

    f = bellhop.qjit(lambda x: bellhop.tap(slow, x))
    for i in range(10):
        f(float(i))
    bellhop.barrier_wait()
    assert seen == list(range(10))


def test_without_any_tap_returns():
    assert bellhop.barrier_wait() is None


def test_raises_what_was_raised_as_the_same_object(form):
    error = UserError("text", 3)

    def record(x):
        raise error

    def traced(x):
        bellhop.tap(record, x)  # the line
        return 2 * x

    line = traced.__code__.co_firstlineno + 1
    assert form(traced)(2.0) == 4.0
    with pytest.raises(
        CallbackException, match="a tapped function raised; this was .*UserError"
    ) as caught:
        bellhop.barrier_wait()
    assert caught.value.exceptions == (error,)
    assert caught.value.__cause__ is error
    assert error.__notes__ == [f"raised in callback 'record', called from {__file__}:{line}"]
    text = "".join(traceback.format_exception(caught.value))
    assert "in record" in text
    assert f"{__file__}:{line}" in text
    # It was raised once, and that is that.
    bellhop.barrier_wait()
    error.__traceback__ = None


def test_raises_all_that_were_raised(form):
    errors = [UserError(i) for i in range(5)]
    seen = []

    def record(i):
        seen.append(int(i))
        if i < 5:
            raise errors[int(i)]

    form(lambda n: jax.lax.fori_loop(0, n, lambda i, _: bellhop.tap(record, i), None))(8)
    with pytest.raises(
        CallbackException, match="raised 5 times; the last was .*UserError: 4"
    ) as caught:
        bellhop.barrier_wait()
    assert caught.value.exceptions == tuple(errors)
    assert caught.value.__cause__ is errors[-1]
    # One that fails does not stop those after it.
    assert seen == list(range(8))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), StopIteration(1)], ids=repr)
def test_unusual_exceptions_wait_for_the_barrier_too(error):
    def record():
        raise error

    bellhop.tap(record)
    bellhop.tap(lambda: None)
    with pytest.raises(CallbackException) as caught:
        bellhop.barrier_wait()
    assert caught.value.exceptions == (error,)
    error.__traceback__ = None


def test_wrong_arguments_of_a_function_are_its_exception():
    # Where its signature tells, that is an error at once.
    bellhop.qjit(lambda x: bellhop.tap(lambda *args: math.sin(*args, 1), x))(1.0)
    with pytest.raises(CallbackException, match="TypeError"):
        bellhop.barrier_wait()


def test_program_that_fails_afterwards_has_tapped():
    seen = []

    def fail(x):
        raise UserError("sync")

    @bellhop.qjit
    def f(x):
        bellhop.tap(seen.append, x)
        bellhop.debug.callback(fail)(x)

    with pytest.raises(UserError, match="sync"):
        f(1.0)
    bellhop.barrier_wait()
    assert seen == [1.0]


def test_inside_a_tapped_function_returns_at_once():
    order = []
    may_go = threading.Event()

    def first(x):
        assert may_go.wait(PATIENCE)
        bellhop.tap(order.append, 3)
        bellhop.barrier_wait()
        order.append("first")

    def f(x):
        bellhop.tap(first, x)
        bellhop.tap(lambda v: order.append("second"), x)

    bellhop.qjit(f)(1.0)
    may_go.set()
    bellhop.barrier_wait()
    bellhop.barrier_wait()
    assert order == ["first", "second", 3]


def test_tapped_function_may_run_programs_that_tap(form):
    seen = []
    inner = form(lambda x: (bellhop.tap(seen.append, x), 3 * x)[1])
    f = form(lambda x: bellhop.tap(lambda v: seen.append(float(inner(v)) + 0.5), x))
    f(1.0)
    f(2.0)
    bellhop.barrier_wait()
    bellhop.barrier_wait()
    assert sorted(seen) == [1.0, 2.0, 3.5, 6.5]


def test_tapped_function_may_call_its_own_program(form):
    seen = []

    def record(x):
        seen.append(float(x))
        if x > 0:
            f(x - 1)

    f = form(lambda x: (bellhop.tap(record, x), x)[1])
    f(5.0)
    for _ in range(6):
        bellhop.barrier_wait()
    assert seen == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def test_tapped_function_may_use_jax():
    sums = []
    f = bellhop.qjit(lambda x: bellhop.tap(lambda v: sums.append(float(jnp.sum(v @ v))), x))
    for i in range(10):
        f(jnp.full((50, 50), float(i)))
    bellhop.barrier_wait()
    assert sums == [50.0**3 * i**2 for i in range(10)]


def test_programs_with_full_queues_in_a_tapped_function():
    # The program may run its taps on a thread of XLA's, of which nobody knows whose it is.
    before = bellhop.tap_queue_limit(10_000)
    try:
        seen = []

        @bellhop.qjit
        def inner(x):
            y = x @ x
            jax.lax.fori_loop(
                0, 30, lambda i, _: bellhop.tap(lambda v: seen.append(v.size), y[0]), None
            )
            return y.sum() + (x @ x.T @ x).sum()

        inner(jnp.ones((200, 200)))
        f = bellhop.qjit(lambda x: bellhop.tap(inner, x))
        f(jnp.ones((200, 200)))
        bellhop.barrier_wait()
        bellhop.barrier_wait()
        assert seen == [200] * 60
    finally:
        assert bellhop.tap_queue_limit(before) == 10_000


def test_ctrl_c_interrupts_the_waiting():
    may_go = threading.Event()
    bellhop.tap(may_go.wait)
    main = threading.get_ident()

    def interrupt():
        wait_until(lambda: sys._current_frames()[main].f_code.co_name == "barrier_wait")
        time.sleep(0.1)  # into the runtime
        _thread.interrupt_main()

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            bellhop.barrier_wait()
    finally:
        may_go.set()
    join([interrupter])
    bellhop.barrier_wait()


def test_eight_threads_tap_and_wait():
    seen = {number: [] for number in range(8)}
    failures = []

    def work(number):
        f = bellhop.qjit(lambda x: bellhop.tap(lambda v: seen[number].append(int(v)), x))
        for i in range(50):
            f(i)
            if i % 10 == 9:
                bellhop.barrier_wait()
                if len(seen[number]) != i + 1:
                    failures.append((number, i))

    run_at_once(*(partial(work, number) for number in range(8)))
    assert failures == []
    assert all(values == list(range(50)) for values in seen.values())


def test_limit_is_set_and_read():
    before = bellhop.tap_queue_limit()
    assert bellhop.tap_queue_limit(5_000) == before
    assert bellhop.tap_queue_limit() == 5_000
    assert bellhop.tap_queue_limit(before) == 5_000
    with pytest.raises(ValueError, match="bytes is -1, expected at least 0"):
        bellhop.tap_queue_limit(-1)


def test_limit_of_the_environment(run_script):
    script = "import bellhop; print(bellhop.tap_queue_limit())"
    assert run_script(script, BELLHOP_TAP_QUEUE_BYTES="12345").strip() == "12345"
    with pytest.raises(
        AssertionError, match="BELLHOP_TAP_QUEUE_BYTES='much' is not a number of bytes"
    ):
        run_script(script, BELLHOP_TAP_QUEUE_BYTES="much")
