"""The end of a process: what was tapped is called, and what was raised is reported."""

import os
import re
import subprocess
import sys
import textwrap

import pytest
from tests.needs import FORK
from tests.patience import PATIENCE

pytestmark = pytest.mark.subprocess

BEGIN = """
    import bellhop, jax, os, sys, threading, time, numpy as np

    def record(i):
        time.sleep(0.001)
        print(int(i), flush=True)

    @bellhop.qjit
    def f(n):
        jax.lax.fori_loop(0, n, lambda i, _: bellhop.tap(record, i), None)
"""
# Ends of a program, and the status that the process ends with.
ENDS = {
    "normal end": ("f(50)", 0),
    "sys.exit": ("f(50); sys.exit(3)", 3),
    "uncaught exception": ("f(50); raise ValueError('uncaught')", 1),
    "KeyboardInterrupt": ("f(50); raise KeyboardInterrupt", -2),
    "another thread": ("threading.Thread(target=lambda: (time.sleep(0.3), f(50))).start()", 0),
    "main thread and another": (
        "threading.Thread(target=lambda: (time.sleep(0.2), f(10))).start(); f(40)",
        0,
    ),
    "plain jit": ("jax.jit(f.original_function)(50)", 0),
    "no program": ("for i in range(50): bellhop.tap(record, i)", 0),
    "asynchronous prints": (
        "jax.jit(lambda: jax.lax.fori_loop(0, 50, "
        "lambda i, _: bellhop.debug.print('{}', i, asynchronous=True), None))()",
        0,
    ),
}


def run(script: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", textwrap.dedent(script)]
    environment = {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment
    )


@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_everything_is_called_without_a_barrier(end, status):
    done = run(BEGIN + "\n    " + end)
    lines = done.stdout.split()
    assert sorted(map(int, lines)) == sorted([*range(40), *range(10)] if "40" in end else range(50))
    assert done.returncode == status, done.stderr


def test_exceptions_that_nobody_waited_for_are_reported():
    done = run(
        BEGIN
        + """
    class UserError(Exception):
        pass
    def fail(i):
        raise UserError(f"number {int(i)}")
    for i in range(3):
        bellhop.tap(fail, i)
        bellhop.tap(record, i)
    """
    )
    assert done.returncode == 0
    assert done.stdout.split() == ["0", "1", "2"]
    assert "bellhop: tapped functions raised 3 times; the last was" in done.stderr
    assert "The process ends without a call of bellhop.barrier_wait" in done.stderr
    for i in range(3):
        assert f"UserError: number {i}" in done.stderr
    assert "raised in callback 'fail', called from" in done.stderr


def test_exceptions_that_were_raised_before_are_not_reported():
    done = run(
        BEGIN
        + """
    bellhop.tap(lambda: 1 / 0)
    try:
        bellhop.barrier_wait()
    except bellhop.CallbackException:
        print("raised")
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "raised\n", "")


def test_taps_of_exit_handlers_are_called():
    # Handlers run last in, first out, so this one comes after bellhop's own.
    done = run(
        """
    import atexit
    @atexit.register
    def last():
        f(3)
        bellhop.tap(lambda: 1 / 0)
        bellhop.barrier_wait()
    """
        + BEGIN
        + "\n    f(2)"
    )
    assert done.returncode == 0
    assert done.stdout.split() == ["0", "1", "0", "1", "2"]
    assert "ZeroDivisionError" in done.stderr


def test_ctrl_c_at_exit_ends_a_function_that_never_returns():
    done = run(
        """
    import atexit, bellhop, os, signal, threading, time
    bellhop.tap(lambda: time.sleep(3600))
    ends = threading.Event()

    def interrupt():
        ends.wait()
        # Again where one came before bellhop's own handler was there.
        while True:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    atexit.register(ends.set)
    """
    )
    assert "KeyboardInterrupt" in done.stderr


# JAX crashes when the child of a fork ends in the ordinary way after JAX has run anything in
# the parent, bellhop or not; so the tests that do that tap no arrays.
FORKS = {
    "exit": "sys.exit(0)",
    "_exit": "os._exit(0)",
    "barrier": "bellhop.barrier_wait(); sys.exit(0)",
    "tap": "bellhop.tap(lambda: os.write(1, b'7\\n')); bellhop.barrier_wait(); os._exit(0)",
    "tap without barrier": "bellhop.tap(lambda: os.write(1, b'7\\n')); sys.exit(0)",
}


@FORK.unless(hasattr(os, "fork"))
@pytest.mark.parametrize("child", FORKS.values(), ids=FORKS)
def test_child_of_a_fork_neither_hangs_nor_repeats(child):
    done = run(
        BEGIN
        + f"""
    import warnings
    warnings.simplefilter("ignore")
    bellhop.tap(lambda: 1 / 0)
    for i in range(20):
        # Not print: the child would inherit its lock from a thread that is no more.
        bellhop.tap(lambda i=i: (time.sleep(0.001), os.write(1, b"%d\\n" % i)))
    if os.fork() == 0:
        {child}
    assert os.wait()[1] == 0
    """
    )
    assert done.returncode == 0, done.stderr
    numbers = sorted(map(int, done.stdout.split()))
    assert numbers == sorted([*range(20), 7] if "tap" in child else range(20))
    assert done.stderr.count("without a call of bellhop.barrier_wait") == 1


def test_program_in_the_child_of_a_fork():
    done = run(
        BEGIN
        + """
    import warnings
    warnings.simplefilter("ignore")
    f(1)
    bellhop.barrier_wait()
    if os.fork() == 0:
        f(3)
        bellhop.barrier_wait()
        os._exit(0)
    assert os.wait()[1] == 0
    """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0", "1", "2"]


def test_daemon_threads_that_tap_for_ever_end_with_what_they_tapped_before():
    done = run(
        BEGIN
        + """
    bellhop.tap_queue_limit(300_000)
    f(1)
    for _ in range(3):
        threading.Thread(target=f, args=(10**9,), daemon=True).start()
    time.sleep(0.3)
    """
    )
    assert done.returncode == 0, done.stderr
    assert "taps that wait are called, in 60 s at the latest" in done.stderr


@pytest.mark.parametrize("record", ["time.sleep(0.05)", "time.sleep(3600)"], ids=["slow", "stuck"])
def test_taps_that_take_too_long_at_the_end_are_left_and_counted(record):
    script = f"""
    import bellhop, jax, threading, time
    begun = threading.Event()

    def record(i):
        begun.set()
        {record}

    @bellhop.qjit
    def f(n):
        jax.lax.fori_loop(0, n, lambda i, _: bellhop.tap(record, i), None)

    f(10_000)
    # Those that wait for room, and one that is a thread of Python's.
    threading.Thread(target=f, args=(10**9,), daemon=True).start()
    bellhop.tap_queue_limit(1000)
    begun.wait()
    """
    done = run(script, BELLHOP_TAP_EXIT_SECONDS="3")
    assert done.returncode == 0, done.stderr
    assert "called, in 3 s at the latest (BELLHOP_TAP_EXIT_SECONDS)" in done.stderr
    assert re.search(r"the last \d{4,} taps are not called", done.stderr)


def test_seconds_of_the_end_are_a_number():
    done = run("import bellhop", BELLHOP_TAP_EXIT_SECONDS="soon")
    assert "BELLHOP_TAP_EXIT_SECONDS='soon' is not a number of seconds" in done.stderr
