"""Compiling 1000 callbacks that stand one after another in the program.

What a callback costs a compiler must not exceed what an ordinary operation
costs it.  Limit: `jax.jit` of 1000 sines; its run time holds no Python calls
and is no limit of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous

COUNT = 1000
START = 0.5


# Catalyst takes no Python float as a result of type float64.
def _sine(x: Any) -> np.float64:
    return np.float64(math.sin(x))


def _repeat(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        for _ in range(COUNT):
            x = function(x)
        return x

    return program


def _limit() -> Program:
    import jax
    import jax.numpy as jnp

    return synchronous(jax.jit(_repeat(jnp.sin)), jnp.asarray(START))


def _jax() -> Program:
    import jax
    import jax.numpy as jnp

    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    program = jax.jit(_repeat(lambda x: jax.pure_callback(_sine, scalar, x)))
    return synchronous(program, jnp.asarray(START))


def _qjit(api: Any) -> Program:
    import jax.numpy as jnp

    return synchronous(api.qjit(_repeat(api.pure_callback(_sine, float))), jnp.asarray(START))


CASES = [
    Case(
        name="callbacks-unrolled",
        title=f"{COUNT} callbacks in straight-line code",
        limit=f"jax.jit of {COUNT} sines, for the compile time only",
        builders={"jax": _jax, **qjit_builders(_qjit), LIMIT: _limit},
        expected=lambda: _repeat(math.sin)(START),
        items=COUNT,
        unit="callback",
        targets=(Target(LIMIT, 1 / 2, "compile"), Target("jax", 1, "compile")),
    )
]
