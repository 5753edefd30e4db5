"""Tapping a scalar in a compiled loop: what the program pays for leaving it to Python.

A call ends when the program does; what it tapped is consumed meanwhile and before the next
round.  JAX has no tap: its column is the unordered `jax.debug.callback`, Catalyst's its
`debug.callback`, which it waits for.

Limit: a custom call that does nothing, in the same loop.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from benchmarks import native_limits
from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous

ITERATIONS = 1000


def _sink() -> Any:
    return deque(maxlen=1).append


def _limit() -> Program:
    import jax

    program = native_limits.noop_in_loop(ITERATIONS)
    return Program(synchronous(program, jax.numpy.asarray(0.5)).run, comparable=False)


def _jax() -> Program:
    import jax

    sink = _sink()

    def body(_: Any, x: Any) -> Any:
        jax.debug.callback(sink, x)
        return x + 0.5

    program = jax.jit(lambda x: jax.lax.fori_loop(0, ITERATIONS, body, x))
    return synchronous(program, jax.numpy.asarray(0.5))


def _qjit(api: Any) -> Program:
    import jax.numpy as jnp

    sink = _sink()
    tap = getattr(api, "tap", None) or (lambda function, x: api.debug.callback(function)(x))

    def program(x: Any) -> Any:
        def body(_: Any, x: Any) -> Any:
            tap(sink, x)
            return x + 0.5

        return api.for_loop(0, ITERATIONS, 1)(body)(x)

    return synchronous(api.qjit(program), jnp.asarray(0.5))


CASES = [
    Case(
        name="tap-loop",
        title=f"tap in a compiled loop of {ITERATIONS}",
        limit="a custom call that does nothing",
        builders={"jax": _jax, **qjit_builders(_qjit), LIMIT: _limit},
        expected=lambda: 0.5 + 0.5 * ITERATIONS,
        items=ITERATIONS,
        unit="iteration",
        # 0.15 us where the custom call takes 0.07.
        targets=(Target(LIMIT, 0.07 / 0.15),),
    ),
]
