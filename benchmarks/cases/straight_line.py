"""Compiling 1000 callbacks that stand one after another in the program.

What a callback costs a compiler must not exceed what an ordinary operation
costs it.  Limit: `jax.jit` of 1000 sines; its run time holds no Python calls
and is no limit of theirs.  With arithmetic between the callbacks, as programs
have it, each sum is a kernel, and there is no limit but JAX.
"""

from __future__ import annotations

import functools
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


def _repeat(function: Callable[[Any], Any], *, adds: bool = False) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        for i in range(COUNT):
            x = function(x) + i if adds else function(x)
        return x

    return program


def _limit() -> Program:
    import jax
    import jax.numpy as jnp

    return synchronous(jax.jit(_repeat(jnp.sin)), jnp.asarray(START))


def _jax(*, adds: bool) -> Program:
    import jax
    import jax.numpy as jnp

    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    program = jax.jit(_repeat(lambda x: jax.pure_callback(_sine, scalar, x), adds=adds))
    return synchronous(program, jnp.asarray(START))


def _qjit(api: Any, *, adds: bool) -> Program:
    import jax.numpy as jnp

    program = _repeat(api.pure_callback(_sine, float), adds=adds)
    return synchronous(api.qjit(program), jnp.asarray(START))


def _case(name: str, title: str, *, adds: bool, limited: bool) -> Case:
    builders = {
        "jax": functools.partial(_jax, adds=adds),
        **qjit_builders(functools.partial(_qjit, adds=adds)),
    }
    targets = (Target("jax", 1, "compile"),)
    if limited:
        builders[LIMIT] = _limit
        targets = (Target(LIMIT, 1 / 2, "compile"), *targets)
    return Case(
        name=name,
        title=f"{COUNT} callbacks in straight-line code{title}",
        limit=f"jax.jit of {COUNT} sines, for the compile time only" if limited else "none",
        builders=builders,
        expected=lambda: _repeat(math.sin, adds=adds)(START),
        items=COUNT,
        unit="callback",
        targets=targets,
    )


CASES = [
    _case("callbacks-unrolled", "", adds=False, limited=True),
    _case("callbacks-unrolled-sums", ", a number added to each", adds=True, limited=False),
]
