"""Printing from a compiled loop, with standard output going nowhere.

All frameworks print in program order, and a call ends when its last line is
written.  Limit: a bare Python call that makes a NumPy array, formats and prints
it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, qjit_builders

ITERATIONS = 100
# Halves print the same digits whatever precision a framework prints with.
STEP = 0.5


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


CASES = [
    Case(
        name="print-loop",
        title=f"print in a compiled loop of {ITERATIONS}",
        limit="bare Python print of an array",
        builders={"jax": _jax, **qjit_builders(_qjit), LIMIT: _limit},
        expected=lambda: np.arange(ITERATIONS) * STEP,
        items=ITERATIONS,
        unit="line",
    )
]
