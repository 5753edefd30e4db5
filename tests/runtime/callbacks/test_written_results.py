"""Callbacks that write their results, called as a program calls them."""

import gc
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from tests.patience import PATIENCE, join

import bellhop_runtime
from bellhop_runtime import Callback


def writing(function, in_place=True):
    return Callback(
        function=function,
        convert=lambda *_: pytest.fail("written results are not converted"),
        description="callback 'f'",
        site="f.py:1",
        writes=True,
        in_place=in_place,
    )


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("size", [0, 1, 512, 513, 4096])
def test_results_come_before_arguments(size, in_place):
    x, first, second = np.arange(float(size)), np.empty(size), np.empty(2 * size)
    seen = []

    def write(a, b, c):
        seen.extend([a.flags.writeable, b.flags.writeable, c.flags.writeable])
        a[...] = c
        b[:size] = -c
        b[size:] = 1

    writing(write, in_place)([x], [first, second])
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, [*-x, *np.ones(size)])
    assert seen == [True, True, False]


@pytest.mark.parametrize("in_place", [False, True])
def test_argument_at_the_address_of_a_result_is_writable(in_place):
    shared, other = np.arange(600.0), np.ones(600)
    writable = []

    def write(out, x, y):
        writable.extend([x.flags.writeable, y.flags.writeable])
        x += y

    writing(write, in_place)([shared, other], [shared])
    assert writable == [True, False]
    np.testing.assert_array_equal(shared, np.arange(600.0) + 1)


def test_nothing_is_held_after_the_call():
    x, out = np.arange(600.0), np.empty(600)
    before = sys.getrefcount(x), sys.getrefcount(out)
    callback = writing(lambda out, x: np.copyto(out, x))
    for _ in range(3):
        callback([x], [out])
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before


def test_a_reference_cycle_does_not_keep_an_output():
    def write(out):
        cycle = [out]
        cycle.append(cycle)
        out[...] = 1

    out = np.empty(3)
    gc.disable()
    try:
        writing(write)([], [out])
    finally:
        gc.enable()
    np.testing.assert_array_equal(out, np.ones(3))


def test_a_reference_cycle_is_found_while_another_thread_collects():
    # A second collection does nothing as long as the first one goes on.
    is_collecting, was_called = threading.Event(), threading.Event()

    def hold_up(phase, info):
        if phase == "start" and threading.current_thread() is collector:
            is_collecting.set()
            was_called.wait(PATIENCE)
            time.sleep(0.05)

    def f(out):
        out[...] = 1
        cycle = [out]
        cycle.append(cycle)
        was_called.set()

    collector = threading.Thread(target=gc.collect)
    out = np.zeros(3)
    gc.callbacks.append(hold_up)
    try:
        collector.start()
        assert is_collecting.wait(PATIENCE)
        writing(f)([], [out])
    finally:
        gc.callbacks.remove(hold_up)
        was_called.set()
        join([collector])
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("keep", [lambda out: out, lambda out: out[1:], memoryview])
def test_kept_output_is_an_error(keep):
    kept = []
    with pytest.raises(
        RuntimeError, match=r"kept its output 1 \(or a view of it\), which is the program's memory"
    ):
        writing(lambda a, b: kept.append(keep(b)))([], [np.empty(3), np.empty(3)])


def test_returned_value_and_exception():
    with pytest.raises(TypeError, match="callback 'f' returned a value of type float"):
        writing(lambda out: 1.5)([], [np.empty(3)])
    error = ValueError("mine")

    def fail(out):
        raise error

    with pytest.raises(ValueError, match="mine") as caught:
        writing(fail)([], [np.empty(3)])
    assert caught.value is error
    assert error.__notes__ == ["raised in callback 'f', called from f.py:1"]


def test_arrays_of_narrow_types_are_not_packed():
    x = np.array([1, -2, 3, -4, 5]).astype(ml_dtypes.int4)
    out = np.empty(5, ml_dtypes.int4)
    writing(lambda out, x: np.copyto(out, x[::-1]))([x], [out])
    np.testing.assert_array_equal(out.astype(int), [5, -4, 3, -2, 1])


def test_a_kept_failure_is_taken_once():
    error = KeyError("waiting")
    number = bellhop_runtime.keep_failure(error)
    assert bellhop_runtime.look_at_failure(number) is error
    assert bellhop_runtime.take_failure(number) is error
    assert bellhop_runtime.take_failure(number) is None
    with pytest.raises(KeyError, match=str(number)):
        bellhop_runtime.look_at_failure(number)
