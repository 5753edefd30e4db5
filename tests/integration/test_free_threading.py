"""Free-threaded Pythons: the GIL stays off, and what it guarded elsewhere is whole."""

import subprocess
import sys
import sysconfig
import threading

import numpy as np
import pytest
from tests.needs import Need
from tests.patience import PATIENCE, run_at_once

import bellhop
import bellhop_runtime

FREE_THREADED = Need("a Python without a GIL", "make test-full PYTHON=python3.13t")
_THREADS = 8


@pytest.mark.subprocess
@FREE_THREADED.unless(bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
def test_importing_and_calling_leaves_the_gil_off():
    program = (
        "import sys, bellhop\n"
        "f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: 2 * v, float)(x))\n"
        "assert f(1.0) == 2.0\n"
        "assert not sys._is_gil_enabled()\n"
    )
    # Python warns of a module that turns the GIL on.
    command = [sys.executable, "-X", "gil=0", "-W", "error::RuntimeWarning", "-c", program]
    subprocess.run(command, check=True, timeout=PATIENCE)


def test_calls_of_many_threads_are_counted_up_and_down():
    # A count that others overwrite never comes back, and each later call takes the long way.
    before = bellhop_runtime.runs_under_way()
    f = bellhop.qjit(lambda x: x + 1)
    f(1.0)

    def work():
        for _ in range(200):
            f(1.0)

    run_at_once(*[work] * _THREADS)
    assert bellhop_runtime.runs_under_way() == before


def test_arguments_of_threads_that_call_at_once_are_their_own():
    # An array that was filled for one call serves the next one, of another thread.
    barrier = threading.Barrier(_THREADS)

    def check(x, y):
        here = x[0], y[0]
        np.sort(np.arange(100))
        return np.float64((x == here[0]).all() and (y == here[1]).all() and y[0] == -x[0])

    check = bellhop.pure_callback(check, float)
    f = bellhop.qjit(lambda x: check(x, -x))

    def work(number):
        barrier.wait()
        for step in range(200):
            assert f(np.full(16, float(1 + number + _THREADS * step))) == 1

    run_at_once(*(lambda number=number: work(number) for number in range(_THREADS)))


def test_the_newest_kind_of_program_is_not_lost():
    # Programs of two signatures that are made at once: one calls Python, and one does not.
    for _ in range(6):
        barrier = threading.Barrier(2)

        @bellhop.qjit
        def f(x, barrier=barrier):
            barrier.wait()
            return bellhop.pure_callback(np.sin, float)(x) if x.ndim == 0 else x

        run_at_once(lambda f=f: f(1.0), lambda f=f: f(np.ones(2)))
        assert f._programs.call_runtime


@pytest.mark.parametrize("is_compiled", [False, True], ids=["", "compiled"])
def test_first_calls_wait_for_one_another_in_their_callbacks(is_compiled):
    barrier = threading.Barrier(_THREADS, timeout=PATIENCE)
    results = {}

    @bellhop.pure_callback
    def meet(x) -> float:
        barrier.wait()
        return x

    f = bellhop.qjit(lambda x: 2 * meet(x))
    if is_compiled:
        f.jit_compile((0.0,))

    def work(number):
        results[number] = float(f(float(number)))

    run_at_once(*(lambda number=number: work(number) for number in range(_THREADS)))
    assert results == {number: 2.0 * number for number in range(_THREADS)}
