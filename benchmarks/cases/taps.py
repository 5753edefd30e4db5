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


def _show_cotangent_jax(sink: Any) -> Any:
    """Return an identity that calls a function with its cotangent, by `jax.custom_vjp`."""
    import jax

    @jax.custom_vjp
    def identity(x: Any) -> Any:
        return x

    def backward(_: None, cotangent: Any) -> tuple[Any]:
        jax.debug.callback(sink, cotangent)
        return (cotangent,)

    identity.defvjp(lambda x: (x, None), backward)
    return identity


def _gradient(observe: Any) -> Any:
    """Return the gradient of a scan of `ITERATIONS` sines with observed cotangents."""
    import jax
    import jax.numpy as jnp

    def loss(x: Any) -> Any:
        step = lambda x, _: (jnp.sin(observe(x)), None)
        return jax.lax.scan(step, x, length=ITERATIONS)[0]

    return jax.grad(loss)


def _cotangent_bellhop() -> Program:
    """Return the gradient with a tap of each cotangent."""
    import jax.numpy as jnp

    import bellhop

    sink = _sink()
    show = lambda cotangent: bellhop.tap(sink, cotangent)
    program = bellhop.qjit(_gradient(lambda x: bellhop.debug.cotangent(x, show)))
    return synchronous(program, jnp.asarray(0.5))


def _cotangent_jax() -> Program:
    import jax

    program = jax.jit(_gradient(_show_cotangent_jax(_sink())))
    return synchronous(program, jax.numpy.asarray(0.5))


def _cotangent_limit() -> Program:
    import jax

    program = jax.jit(_gradient(lambda x: x))
    return synchronous(program, jax.numpy.asarray(0.5))


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
    Case(
        name="tap-cotangent",
        title=f"tap of each cotangent of a scan of {ITERATIONS}",
        limit="the gradient without taps",
        builders={"bellhop": _cotangent_bellhop, "jax": _cotangent_jax, LIMIT: _cotangent_limit},
        unavailable={"catalyst": "no observer of cotangents"},
        items=ITERATIONS,
        unit="iteration",
    ),
]
