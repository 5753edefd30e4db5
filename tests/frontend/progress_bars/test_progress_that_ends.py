"""The ends of bars: of loops that fail, of threads, of functions that go, and of saved ones."""

import gc
import time
import weakref

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest
from tests.frontend.progress_bars.bars import summed
from tests.patience import run_at_once

import bellhop
from bellhop_runtime import wait_for_taps


@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_an_exception_closes_the_bar(compiler, shown):
    def fail(i):
        if i == limit:
            raise KeyError("stop")
        return float(i)

    f = compiler(
        lambda: bellhop.for_loop(0, 9, 1, progress="fails")(
            lambda i, x: x + bellhop.pure_callback(fail, float)(i)
        )(0.0)
    )
    limit = 5
    with pytest.raises(KeyError, match="stop"):
        f()
    ((name, count, total),) = shown(wait=True)
    assert (name, total) == ("fails", 9)
    assert count <= 5
    limit = 10
    assert f() == 36
    assert shown(wait=True) == [("fails", 9, 9)]


def test_a_failing_circuit_closes_the_bar(shown):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def f(wire):
        bellhop.for_loop(0, 4, 1, progress="gates")(lambda i: qml.RX(0.1, wires=wire + i))()
        return qml.expval(qml.Z(0))

    with pytest.raises(Exception, match="wire"):
        f(jnp.array(0))
    assert [line[0] for line in shown()] == ["gates"]


def test_threads_have_a_bar_each(shown):
    def wait(i):
        time.sleep(0.01)
        return float(i)

    @bellhop.qjit
    def f(x):
        def body(i, x):
            return x + bellhop.io_callback(wait, float)(i)

        return bellhop.for_loop(0, 5, 1, progress="thread")(body)(x)

    results = []
    run_at_once(*[lambda: results.append(float(f(0.0)))] * 4)
    assert results == [10.0] * 4
    assert sorted(shown(wait=True)) == [("thread", 5, 5)] * 4


def test_a_bar_does_not_outlive_its_function():
    def make():
        f = bellhop.qjit(lambda: summed(3))
        f()
        (callback,) = f._table.callbacks
        return weakref.ref(f)

    dropped = make()
    wait_for_taps()
    gc.collect()
    assert dropped() is None


def test_saved_programs_have_bars(tmp_path, shown):
    bellhop.qjit(lambda: summed(4))
    f = bellhop.qjit(lambda: summed(4))
    f()
    f.save(tmp_path / "f")
    assert bellhop.load(tmp_path / "f")() == 6
    assert shown() == [("sum", 4, 4)] * 2
