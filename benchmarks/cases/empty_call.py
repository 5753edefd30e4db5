"""The cost of entering and leaving a compiled program: x + 1.

Limit: `jax.jit`, whose C++ dispatch every program on XLA passes through.
"""

from typing import Any

from benchmarks.case import LIMIT, Case, Program, qjit_builders, synchronous


# Wrapped in a new lambda for each program: JAX keeps what it compiled by function object.
def _increment(x: Any) -> Any:
    return x + 1


def _jax() -> Program:
    import jax

    return synchronous(jax.jit(lambda x: _increment(x)), jax.numpy.asarray(0.5))


def _qjit(api: Any) -> Program:
    import jax.numpy as jnp

    return synchronous(api.qjit(lambda x: _increment(x)), jnp.asarray(0.5))


CASES = [
    Case(
        name="empty-call",
        title="empty call (x + 1)",
        limit="jax.jit of the same function",
        builders={"jax": _jax, **qjit_builders(_qjit), LIMIT: _jax},
        expected=lambda: 1.5,
    )
]
