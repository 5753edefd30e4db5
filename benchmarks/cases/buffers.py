"""8 MB through callbacks that write their results, and through those that return them.

`numpy.negative` is the function.  A `buffer_callback` in place writes straight into the
result: the limit is `numpy.negative` alone, on memory that is there.  A pure callback returns
an array of its own, which has to be copied: see the case callback-8mb.  `in place` gives the
argument's memory up for the result, in a chain of eight calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, synchronous

ELEMENTS = 1 << 20
CHAIN = 8


def _ramp() -> np.ndarray:
    return np.linspace(0.0, 1.0, ELEMENTS)


def _negate(context: Any, out: Any, x: Any) -> None:
    del context
    np.negative(np.asarray(x), out=np.asarray(out))


def _kind() -> Any:
    import jax
    import jax.numpy as jnp

    return jax.ShapeDtypeStruct((ELEMENTS,), jnp.float64)


def _argument() -> Any:
    import jax.numpy as jnp

    return jnp.asarray(_ramp())


def _limit() -> Program:
    import jax

    enter, x = jax.jit(lambda x: x + 1), jax.numpy.asarray(0.5)
    source, target = _ramp(), np.zeros(ELEMENTS)

    def run() -> None:
        enter(x).block_until_ready()
        np.negative(source, out=target)

    return Program(run, comparable=False, compiles=False)


def _bellhop() -> Program:
    import bellhop

    callback = bellhop.buffer_callback(_negate, _kind(), in_place=True)
    return synchronous(bellhop.qjit(callback), _argument())


def _jax() -> Program:
    import jax
    from jax.experimental.buffer_callback import buffer_callback

    return synchronous(jax.jit(buffer_callback(_negate, _kind())), _argument())


def _chain(callback: Any) -> Any:
    def program(x: Any) -> Any:
        x = 2 * x
        for _ in range(CHAIN):
            x = callback(x)
        return x

    return program


def _chain_limit() -> Program:
    import jax

    double, x = jax.jit(lambda x: 2 * x), _argument()
    memory = _ramp()

    def run() -> None:
        double(x).block_until_ready()
        for _ in range(CHAIN):
            np.negative(memory, out=memory)

    return Program(run, comparable=False, compiles=False)


def _chain_bellhop() -> Program:
    import bellhop

    callback = bellhop.buffer_callback(_negate, _kind(), input_output_aliases={0: 0}, in_place=True)
    return synchronous(bellhop.qjit(_chain(callback)), _argument())


def _chain_jax() -> Program:
    import jax
    from jax.experimental.buffer_callback import buffer_callback

    callback = buffer_callback(_negate, _kind(), input_output_aliases={0: 0})
    return synchronous(jax.jit(_chain(callback)), _argument())


_UNAVAILABLE = {"catalyst": "no buffer_callback"}

CASES = [
    Case(
        name="buffer-8mb",
        title="buffer_callback with 8 MB in and out",
        limit="jax.jit call + numpy.negative",
        builders={"bellhop": _bellhop, "jax": _jax, LIMIT: _limit},
        unavailable=_UNAVAILABLE,
        expected=lambda: -_ramp(),
    ),
    Case(
        name="buffer-8mb-in-place",
        title=f"{CHAIN} buffer_callbacks one after another, 8 MB in place",
        limit="jax.jit of 2 * x + numpy.negative in place",
        builders={"bellhop": _chain_bellhop, "jax": _chain_jax, LIMIT: _chain_limit},
        unavailable=_UNAVAILABLE,
        expected=lambda: 2 * _ramp(),
        items=CHAIN,
    ),
]
