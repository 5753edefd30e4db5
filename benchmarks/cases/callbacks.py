"""Calling Python from a compiled program: once, in a loop, with 8 MB, under grad.

The scalar callback is `math.sin`, and in a second loop a function that returns
its argument, so that the time is that of the traffic.

Limits: for one callback, a call of `jax.jit` plus a bare Python call that makes
a NumPy array; in a loop, a loop in C++ that makes an array, calls the same
function and copies the result, plus a custom call that does nothing in the same
compiled loop; for 8 MB, one `np.copyto` each way; under grad, a `jax.jit` call
and the two bare Python calls that the forward and the backward pass need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Builder, Case, Program, Target, qjit_builders, synchronous

START = 0.5
ITERATIONS = 1000
ELEMENTS = 1 << 20


# Catalyst takes no Python float as a result of type float64.
def _sine(x: Any) -> np.float64:
    return np.float64(math.sin(x))


def _cosine(x: Any) -> np.float64:
    return np.float64(math.cos(x))


def _scalar_callback_jax(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import jax
    import jax.numpy as jnp

    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    return lambda x: jax.pure_callback(function, scalar, x)


def _enter_and_call(*callbacks: Callable[[Any], Any]) -> Program:
    """Call `jax.jit(x + 1)` and then every callback with a new NumPy array."""
    import jax

    function, x = jax.jit(lambda x: x + 1), jax.numpy.asarray(START)

    def run() -> None:
        function(x).block_until_ready()
        for callback in callbacks:
            callback(np.array(START))

    return Program(run, comparable=False, compiles=False)


def _once_jax() -> Program:
    import jax

    return synchronous(jax.jit(_scalar_callback_jax(_sine)), jax.numpy.asarray(START))


def _once_qjit(api: Any) -> Program:
    import jax.numpy as jnp

    callback = api.pure_callback(_sine, float)
    return synchronous(api.qjit(lambda x: callback(x)), jnp.asarray(START))


def _identity(x: Any) -> Any:
    return x


def _loop_limit(function: Callable[[Any], Any]) -> Program:
    import jax.numpy as jnp

    from benchmarks.native_limits import call_in_loop, noop_in_loop

    noop, x = noop_in_loop(ITERATIONS), jnp.asarray(START)

    def run() -> Any:
        noop(x).block_until_ready()
        return call_in_loop(function, START, ITERATIONS)

    return Program(run, compiles=False)


def _loop_jax(function: Callable[[Any], Any]) -> Program:
    import jax

    callback = _scalar_callback_jax(function)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, ITERATIONS, lambda _, x: callback(x), x))
    return synchronous(program, jax.numpy.asarray(START))


def _loop_qjit(api: Any, function: Callable[[Any], Any]) -> Program:
    import jax.numpy as jnp

    callback = api.pure_callback(function, float)

    def program(x: Any) -> Any:
        return api.for_loop(0, ITERATIONS, 1)(lambda _, x: callback(x))(x)

    return synchronous(api.qjit(program), jnp.asarray(START))


def _loop(function: Callable[[Any], Any]) -> dict[str, Builder]:
    return {
        "jax": lambda: _loop_jax(function),
        **qjit_builders(lambda api: _loop_qjit(api, function)),
        LIMIT: lambda: _loop_limit(function),
    }


def _loop_expected() -> float:
    x = START
    for _ in range(ITERATIONS):
        x = math.sin(x)
    return x


def _ramp() -> np.ndarray:
    return np.linspace(0.0, 1.0, ELEMENTS)


def _negate() -> Callable[[Any], Any]:
    """Make a callback whose result stands in memory it owns, as a library's would."""
    owned = np.zeros(ELEMENTS)

    def negate(x: Any) -> Any:
        return np.negative(x, out=owned)

    return negate


def _large_limit() -> Program:
    source, inside, outside = _ramp(), np.zeros(ELEMENTS), np.zeros(ELEMENTS)

    def run() -> None:
        np.copyto(inside, source)
        np.copyto(outside, inside)

    return Program(run, comparable=False, compiles=False)


def _large_jax() -> Program:
    import jax
    import jax.numpy as jnp

    kind, negate = jax.ShapeDtypeStruct((ELEMENTS,), jnp.float64), _negate()
    program = jax.jit(lambda x: jax.pure_callback(negate, kind, x))
    return synchronous(program, jnp.asarray(_ramp()))


def _large_qjit(api: Any) -> Program:
    import jax
    import jax.numpy as jnp

    callback = api.pure_callback(_negate(), jax.ShapeDtypeStruct((ELEMENTS,), jnp.float64))
    return synchronous(api.qjit(lambda x: callback(x)), jnp.asarray(_ramp()))


def _vjp_jax() -> Program:
    import jax

    derivative = _scalar_callback_jax(_cosine)
    callback = jax.custom_vjp(_scalar_callback_jax(_sine))
    callback.defvjp(lambda x: (callback(x), x), lambda x, dy: (derivative(x) * dy,))
    program = jax.jit(jax.grad(lambda x: callback(x) ** 2))
    return synchronous(program, jax.numpy.asarray(START))


def _vjp_qjit(api: Any) -> Program:
    import jax.numpy as jnp

    derivative = api.pure_callback(_cosine, float)
    callback = api.pure_callback(_sine, float)
    callback.fwd(lambda x: (callback(x), x))
    callback.bwd(lambda x, dy: (derivative(x) * dy,))
    program = api.qjit(lambda x: api.grad(lambda x: callback(x) ** 2)(x))
    return synchronous(program, jnp.asarray(START))


_LOOP_LIMIT = "loop in C++ making an array + compiled loop of a custom call that does nothing"

CASES = [
    Case(
        name="callback",
        title="one callback",
        limit="jax.jit call + bare Python call making an array",
        builders={
            "jax": _once_jax,
            **qjit_builders(_once_qjit),
            LIMIT: lambda: _enter_and_call(_sine),
        },
        expected=lambda: math.sin(START),
    ),
    Case(
        name="callback-loop",
        title=f"callback in a compiled loop of {ITERATIONS}",
        limit=_LOOP_LIMIT,
        builders=_loop(_sine),
        expected=_loop_expected,
        items=ITERATIONS,
        unit="iteration",
    ),
    Case(
        name="callback-traffic",
        title=f"callback that returns its argument, in a compiled loop of {ITERATIONS}",
        limit=_LOOP_LIMIT,
        builders=_loop(_identity),
        expected=lambda: START,
        items=ITERATIONS,
        unit="iteration",
        targets=(Target(LIMIT, 1 / 1.6), Target("jax", 100), Target("catalyst", 500)),
    ),
    Case(
        name="callback-8mb",
        title="callback with 8 MB in and out",
        limit="one np.copyto each way",
        builders={"jax": _large_jax, **qjit_builders(_large_qjit), LIMIT: _large_limit},
        expected=lambda: -_ramp(),
        targets=(Target(LIMIT, 1 / 1.2),),
    ),
    Case(
        name="callback-vjp",
        title="callback with a VJP under grad",
        limit="jax.jit call + two bare Python calls",
        builders={
            "jax": _vjp_jax,
            **qjit_builders(_vjp_qjit),
            LIMIT: lambda: _enter_and_call(_sine, _cosine),
        },
        expected=lambda: 2 * math.sin(START) * math.cos(START),
    ),
]
