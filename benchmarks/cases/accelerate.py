"""A JAX region inside a program, on the program's own device and on another one.

The other device is a second CPU device of the same process, so what is timed is
the hand-over and not a bus.  On the same device none is needed, so the region does
enough for the program to be timed and not the call of it; a chain is of scalars, so
that ten links do not take ten times as long to compute.

Limits: on the same device one `jax.jit` of the whole; on another device a `jax.jit`
call there plus one `np.copyto` each way; for a chain a program with a single region.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous

ELEMENTS = 256
MANY_ELEMENTS = 100_000
LINKS = 10
START = 0.5


def _input(elements: int = ELEMENTS) -> np.ndarray:
    return np.linspace(0.0, 1.0, elements)


# Wrapped in a new lambda for each program: JAX keeps what it compiled by function object.
def _region(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sin(x)


def _expected() -> Any:
    return np.sin(_input())


def _same_expected() -> Any:
    return np.sin(_input(MANY_ELEMENTS))


def _same_jax() -> Program:
    import jax

    return synchronous(jax.jit(lambda x: _region(x)), jax.numpy.asarray(_input(MANY_ELEMENTS)))


def _other_jax() -> Program:
    """Hand over, run and fetch, as one writes it without an accelerate."""
    import jax

    region, device = jax.jit(lambda x: _region(x)), jax.devices("cpu")[1]
    x = jax.numpy.asarray(_input())
    return Program(lambda: np.asarray(region(jax.device_put(x, device))))


def _other_limit() -> Program:
    import jax

    region = jax.jit(lambda x: _region(x))
    x = jax.device_put(_input(), jax.devices("cpu")[1])
    source, there, back = _input(), np.zeros(ELEMENTS), np.zeros(ELEMENTS)

    def run() -> Any:
        np.copyto(there, source)
        np.copyto(back, region(x))
        return back

    return Program(run, compiles=False)


def _qjit(api: Any, index: int, argument: Any) -> Program:
    import jax

    region = api.accelerate(lambda x: _region(x), dev=jax.devices("cpu")[index])
    return synchronous(api.qjit(lambda x: region(x)), jax.numpy.asarray(argument))


def _chain_expected() -> Any:
    x = START
    for _ in range(LINKS):
        x = np.sin(x) * 2
    return x


def _chain_qjit(api: Any) -> Program:
    import jax

    region = api.accelerate(lambda x: _region(x), dev=jax.devices("cpu")[1])

    def chain(x: Any) -> Any:
        for _ in range(LINKS):
            x = region(x) * 2
        return x

    return synchronous(api.qjit(chain), jax.numpy.asarray(START))


def _chain_jax() -> Program:
    """Hand over once, run link after link there, and fetch."""
    import jax

    link, device = jax.jit(lambda x: _region(x) * 2), jax.devices("cpu")[1]
    x = jax.numpy.asarray(START)

    def run() -> Any:
        y = jax.device_put(x, device)
        for _ in range(LINKS):
            y = link(y)
        return np.asarray(y)

    return Program(run)


def _chain_limit() -> Program:
    import bellhop

    single = _qjit(bellhop, 1, START)
    return Program(single.run, comparable=False)


CASES = [
    Case(
        name="accelerate-same",
        title="accelerate on the same device",
        limit="one jax.jit of the whole program",
        builders={
            "jax": _same_jax,
            **qjit_builders(lambda api: _qjit(api, 0, _input(MANY_ELEMENTS))),
            LIMIT: _same_jax,
        },
        expected=_same_expected,
        targets=(Target("jax", 0.95),),
    ),
    Case(
        name="accelerate-other",
        title="accelerate on another device",
        limit="jax.jit call there + one np.copyto each way",
        builders={
            "jax": _other_jax,
            **qjit_builders(lambda api: _qjit(api, 1, _input())),
            LIMIT: _other_limit,
        },
        expected=_expected,
        devices=2,
        targets=(Target("jax", 0.77),),
    ),
    Case(
        name="accelerate-chain",
        title=f"{LINKS} regions in a row on another device",
        limit="a program with one region",
        builders={"jax": _chain_jax, **qjit_builders(_chain_qjit), LIMIT: _chain_limit},
        expected=_chain_expected,
        devices=2,
        targets=(Target(LIMIT, 0.67),),
    ),
]
