"""C functions without Python: in a compiled loop, and over a batch.

The function is `fabs` of the C library, which returns its argument here, so that the time is that
of the call. JAX and Catalyst have no such callback; their columns are a `pure_callback` of
`math.fabs`.

Limits: in a loop, a custom call that does nothing in the same loop; over a batch, the same loop in
C, by NumPy's `np.fabs` with an output array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous
from benchmarks.native_limits import noop_in_loop

START = 0.5
ITERATIONS = 1000
ROWS = 100_000


def _fabs(api: Any) -> Any:
    """Return the callback: native where the framework has native callbacks."""
    if hasattr(api, "native_callback"):
        return api.native_callback(library="libm.so.6", symbol="fabs", result_type=float)
    return api.pure_callback(lambda x: np.float64(math.fabs(x)), float)


def _loop_qjit(api: Any) -> Program:
    import jax.numpy as jnp

    fabs = _fabs(api)
    program = api.qjit(lambda x: api.for_loop(0, ITERATIONS, 1)(lambda _, x: fabs(x))(x))
    return synchronous(program, jnp.asarray(START))


def _loop_jax() -> Program:
    import jax

    scalar = jax.ShapeDtypeStruct((), "float64")
    fabs = lambda x: jax.pure_callback(lambda x: np.float64(math.fabs(x)), scalar, x)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, ITERATIONS, lambda _, x: fabs(x), x))
    return synchronous(program, jax.numpy.asarray(START))


def _loop_limit() -> Program:
    import jax

    return synchronous(noop_in_loop(ITERATIONS), jax.numpy.asarray(START))


def _rows() -> np.ndarray:
    return np.linspace(0.0, 1.0, ROWS)


def _batch_bellhop() -> Program:
    import jax
    import jax.numpy as jnp

    import bellhop

    return synchronous(bellhop.qjit(jax.vmap(_fabs(bellhop))), jnp.asarray(_rows()))


def _batch_limit() -> Program:
    rows = _rows()
    out = np.empty(ROWS)
    return Program(lambda: np.fabs(rows, out=out), comparable=False, compiles=False)


CASES = [
    Case(
        name="native-loop",
        title=f"C function in a compiled loop of {ITERATIONS}",
        limit="a custom call that does nothing",
        builders={"jax": _loop_jax, **qjit_builders(_loop_qjit), LIMIT: _loop_limit},
        expected=lambda: START,
        items=ITERATIONS,
        unit="iteration",
        # 15 ns above the custom call's 92.
        targets=(Target(LIMIT, 92 / 107),),
    ),
    Case(
        name="native-batch",
        title=f"C function over a batch of {ROWS}",
        limit="numpy.fabs into an array",
        builders={"bellhop": _batch_bellhop, LIMIT: _batch_limit},
        unavailable={"jax": "no native callback", "catalyst": "no native callback"},
        items=ROWS,
        unit="element",
    ),
]
