"""Callbacks that do not need each other: eight that wait, and eight that compute in Python.

Bellhop's column has `concurrent_callbacks=8`, and for the batch
`vmap_method="sequential_threadpool"`.  JAX and Catalyst make one call after another.

Limit: the same functions by a `concurrent.futures.ThreadPoolExecutor`, where they wait; where they
hold the GIL, one after another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, synchronous

CALLS = 8
SECONDS = 0.05
ROUNDS = 20_000


def _wait(x: Any) -> np.float64:
    time.sleep(SECONDS)
    return np.float64(2 * x)


def _compute(x: Any) -> np.float64:
    total = 0.0
    for _ in range(ROUNDS):
        total += 2.0 / ROUNDS
    return np.float64(round(total) * x)


def _program(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum(call(x + i) for i in range(CALLS))


def _bellhop(function: Callable[[Any], Any]) -> Program:
    import bellhop

    program = _program(bellhop.pure_callback(function, float))
    return synchronous(bellhop.qjit(program, concurrent_callbacks=CALLS), 1.0)


def _catalyst(function: Callable[[Any], Any]) -> Program:
    import catalyst

    return synchronous(catalyst.qjit(_program(catalyst.pure_callback(function, float))), 1.0)


def _in_jax(function: Callable[[Any], Any], method: str | None = None) -> Callable[[Any], Any]:
    import jax

    kind = jax.ShapeDtypeStruct((), float)
    return lambda x: jax.pure_callback(function, kind, x, vmap_method=method)


def _jax(function: Callable[[Any], Any]) -> Program:
    import jax

    return synchronous(jax.jit(_program(_in_jax(function))), jax.numpy.asarray(1.0))


def _points() -> Any:
    import jax

    return jax.numpy.arange(1.0, CALLS + 1)


def _bellhop_batch() -> Program:
    import bellhop

    call = bellhop.pure_callback(_wait, float, vmap_method="sequential_threadpool")
    return synchronous(bellhop.qjit(lambda xs: bellhop.vmap(call)(xs).sum()), _points())


def _catalyst_batch() -> Program:
    import catalyst

    call = catalyst.pure_callback(_wait, float)
    return synchronous(catalyst.qjit(lambda xs: catalyst.vmap(call)(xs).sum()), _points())


def _jax_batch() -> Program:
    import jax

    call = _in_jax(_wait, "sequential")
    return synchronous(jax.jit(lambda xs: jax.vmap(call)(xs).sum()), _points())


def _threads() -> Program:
    executor = ThreadPoolExecutor(CALLS)
    return Program(lambda: sum(executor.map(_wait, range(1, CALLS + 1))), compiles=False)


def _one_by_one() -> Program:
    return Program(lambda: sum(map(_compute, range(1, CALLS + 1))), compiles=False)


def _expected() -> float:
    return float(CALLS * (CALLS + 1))


CASES = [
    Case(
        name="concurrent-waiting",
        title=f"{CALLS} callbacks that sleep for {SECONDS * 1000:.0f} ms",
        limit="the same calls by a thread pool",
        builders={
            "bellhop": lambda: _bellhop(_wait),
            "jax": lambda: _jax(_wait),
            "catalyst": lambda: _catalyst(_wait),
            LIMIT: _threads,
        },
        expected=_expected,
        # 100 ms, of the 50 that one takes.
        targets=(Target(LIMIT, 0.5), Target("jax", 4.0)),
    ),
    Case(
        name="concurrent-computing",
        title=f"{CALLS} callbacks that hold the GIL",
        limit="the same calls, one after another",
        builders={
            "bellhop": lambda: _bellhop(_compute),
            "jax": lambda: _jax(_compute),
            "catalyst": lambda: _catalyst(_compute),
            LIMIT: _one_by_one,
        },
        expected=_expected,
        targets=(Target(LIMIT, 0.9), Target("jax", 0.9)),
    ),
    Case(
        name="threadpool-batch",
        title=f"batch of {CALLS} callbacks that sleep for {SECONDS * 1000:.0f} ms",
        limit="the same calls by a thread pool",
        builders={
            "bellhop": _bellhop_batch,
            "jax": _jax_batch,
            "catalyst": _catalyst_batch,
            LIMIT: _threads,
        },
        expected=_expected,
        targets=(Target(LIMIT, 0.5), Target("jax", 4.0)),
    ),
]
