"""debug.log: records of Python's logging, and what the compiled program leaves out."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop.observers.log import LevelCheck, LogRecorder

log = bellhop.debug.log
LOGGER = logging.getLogger("tests.log")


@pytest.fixture(autouse=True)
def records():
    """Collect what the logger of these tests is given."""

    class Collector(logging.Handler):
        def emit(self, record):
            found.append(record)

    found, handler = [], Collector()
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    yield found
    LOGGER.removeHandler(handler)


def messages(records):
    return [record.getMessage() for record in records]


@pytest.mark.parametrize("jit", [bellhop.qjit, bellhop.qjit(autograph=True), jax.jit, lambda f: f])
def test_a_record_has_the_line_of_the_call(jit, records):
    def f(x):
        log("INFO", "100 % of {x:.1f} {what}", x=x, what="text", logger=LOGGER)
        return x

    jit(f)(2.0)
    jax.effects_barrier()
    (record,) = records
    line = f.__code__.co_firstlineno + 1
    assert record.getMessage() == "100 % of 2.0 text"
    assert (record.pathname, record.lineno, record.levelname) == (__file__, line, "INFO")
    assert record.funcName == "f"


def test_a_record_in_a_loop_of_autograph_has_the_function_of_the_user(records):
    @bellhop.qjit(autograph=True)
    def outer(n):
        for i in range(n):
            if i > 0:
                log("INFO", "{}", i, logger=LOGGER)

    outer(2)
    assert [record.funcName for record in records] == ["outer"]


def test_every_counts_in_the_program(records, monkeypatch):
    """Through nested loops and conditionals, anew in each run; what is left out calls no Python."""
    calls = []
    original = LogRecorder.__call__
    monkeypatch.setattr(
        LogRecorder, "__call__", lambda self, *args: calls.append(args) or original(self, *args)
    )

    def f(n):
        def outer(i, x):
            def inner(j, x):
                log("INFO", "{}", 3 * i + j, every=4, when=i != 1, logger=LOGGER)
                return x + 1

            return jax.lax.fori_loop(0, 3, inner, x)

        return jax.lax.fori_loop(0, n, outer, 0)

    compiled = bellhop.qjit(f)
    expected = ["0", "7", "11"]
    for run in (1, 2):
        assert compiled(4) == 12
        assert messages(records) == expected * run
    assert len(calls) == 6


def test_the_level_is_read_in_each_run(records, monkeypatch):
    checks = []
    original = LevelCheck.__call__
    monkeypatch.setattr(LevelCheck, "__call__", lambda self: checks.append(self) or original(self))

    @bellhop.qjit
    def f(x):
        def step(i, x):
            log("DEBUG", "{}", i, logger="tests.log")
            return x

        return jax.lax.fori_loop(0, 3, step, x)

    f(1.0)
    assert not records
    LOGGER.setLevel("DEBUG")
    f(1.0)
    assert messages(records) == ["0", "1", "2"]
    assert len(checks) == 2


def test_transformations(records):
    def f(x):
        log("INFO", "{:.0f}", x, when=x > 1, logger=LOGGER)
        bellhop.callback(lambda y: records.append(logging.makeLogRecord({"msg": "next"})))(x)
        return x**2

    bellhop.qjit(bellhop.vmap(f))(jnp.arange(4.0))
    assert messages(records) == ["2", "3", *["next"] * 4]
    records.clear()
    np.testing.assert_allclose(bellhop.qjit(bellhop.grad(f))(3.0), 6)
    assert messages(records) == ["3", "next"]
    records.clear()
    bellhop.qjit(lambda x: bellhop.accelerate(f, dev="cpu:0")(x))(3.0)
    assert messages(records) == ["3", "next"]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda x: log("LOUD", "{}", x), ValueError, "log: there is no level 'LOUD'; there are"),
        (lambda x: log(x, "{}"), TypeError, "expected a number or a name, such as"),
        (lambda x: log("INFO", x), TypeError, "expected a format string"),
        (lambda x: log("INFO", "{x}"), ValueError, "has no value for x"),
        (lambda x: log("INFO", "", every=0), ValueError, "expected an integer of at least 1"),
        (lambda x: log("INFO", "", when=x), TypeError, r"expected a bool of shape \(\)"),
        (lambda x: log("INFO", "", logger=3), TypeError, "expected a logger from logging"),
    ],
)
def test_wrong_arguments(wrong, error, message):
    with pytest.raises(error, match=message):
        bellhop.qjit(wrong)(1.0)
