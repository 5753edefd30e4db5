"""Printing and logging from compiled loops, with standard output going nowhere.

All frameworks print in program order, and a call ends when its last line is
written.  Limit: a bare Python call that makes a NumPy array, formats and prints
it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, qjit_builders, synchronous

ITERATIONS = 100
# Halves print the same digits whatever precision a framework prints with.
STEP = 0.5
# An iteration of about a microsecond, as short as a step of a small optimisation.
LOGGED_ITERATIONS, LOGGED_EVERY, WIDTH = 10**6, 1000, 1000


def _flush() -> None:
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _printed(run: Callable[[], Any]) -> np.ndarray:
    """Run once and return the numbers that reached file descriptor 1."""
    _flush()
    saved = os.dup(1)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 1)
            run()
            _flush()
            file.seek(0)
            return np.array([float(line) for line in file.read().split()])
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _checked(run: Callable[[], Any], compiles: bool = True) -> Program:
    return Program(run, observe=lambda: _printed(run), compiles=compiles)


def _limit() -> Program:
    def run() -> None:
        for index in range(ITERATIONS):
            print(f"{np.array(index * STEP)}")

    return _checked(run, compiles=False)


def _jax() -> Program:
    import jax

    def body(_: Any, x: Any) -> Any:
        jax.debug.print("{x}", x=x, ordered=True)
        return x + STEP

    program = jax.jit(lambda x: jax.lax.fori_loop(0, ITERATIONS, body, x))
    x = jax.numpy.asarray(0.0)

    def run() -> None:
        program(x).block_until_ready()
        jax.effects_barrier()

    return _checked(run)


def _qjit(api: Any) -> Program:
    import jax.numpy as jnp

    def body(_: Any, x: Any) -> Any:
        api.debug.print("{x}", x=x)
        return x + STEP

    program = api.qjit(lambda x: api.for_loop(0, ITERATIONS, 1)(body)(x))
    x = jnp.asarray(0.0)
    return _checked(lambda: program(x).block_until_ready())


def _logged(every: int | None) -> Program:
    """Make a loop that logs one of ``every`` iterations, or none."""
    import jax
    import jax.numpy as jnp

    import bellhop

    logger = logging.getLogger("benchmarks")
    logger.setLevel("INFO")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False

    def body(_: Any, x: Any) -> Any:
        x = jnp.tanh(0.9 * x) + jnp.linspace(0.0, 0.1, WIDTH)
        if every is not None:
            bellhop.debug.log("INFO", "loss {:.4f}", x[0], every=every, logger=logger)
        return x

    program = bellhop.qjit(lambda x: jax.lax.fori_loop(0, LOGGED_ITERATIONS, body, x))
    return synchronous(program, jnp.ones(WIDTH))


def _jax_logged() -> Program:
    import jax
    import jax.numpy as jnp

    def body(i: Any, x: Any) -> Any:
        x = jnp.tanh(0.9 * x) + jnp.linspace(0.0, 0.1, WIDTH)
        show = lambda: jax.debug.callback(lambda x: f"loss {x:.4f}", x[0], ordered=True)
        jax.lax.cond(i % LOGGED_EVERY == 0, show, lambda: None)
        return x

    program = jax.jit(lambda x: jax.lax.fori_loop(0, LOGGED_ITERATIONS, body, x))
    return synchronous(program, jnp.ones(WIDTH))


CASES = [
    Case(
        name="print-loop",
        title=f"print in a compiled loop of {ITERATIONS}",
        limit="bare Python print of an array",
        builders={"jax": _jax, **qjit_builders(_qjit), LIMIT: _limit},
        expected=lambda: np.arange(ITERATIONS) * STEP,
        items=ITERATIONS,
        unit="line",
    ),
    Case(
        name="log-loop",
        title=f"log one of {LOGGED_EVERY} iterations of a loop of {LOGGED_ITERATIONS}",
        limit="the same loop without logging",
        builders={
            "bellhop": lambda: _logged(LOGGED_EVERY),
            "jax": _jax_logged,
            LIMIT: lambda: _logged(None),
        },
        unavailable={"catalyst": "has no logging"},
        items=LOGGED_ITERATIONS,
        unit="iteration",
    ),
]
