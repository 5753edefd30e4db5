"""What it costs to look on: the bar of a loop, and a profile of callbacks.

Neither peer has one, so both are held to the same program without it, which is the limit: the
bar to 1 % of an iteration of 10 us, the profile to 1 us a crossing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target

ITERATIONS = 50_000
# Sines that take about 10 us.
WIDTH = 1400
CALLS = 1000

_ALONE = {
    "jax": "JAX has none; a loop of jax.debug.callback is the case printing",
    "catalyst": "Catalyst has none",
}


@contextlib.contextmanager
def _discard_stderr() -> Iterator[None]:
    """Send standard error nowhere, as a terminal that nobody looks at."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _hide_output(loop: Any) -> Program:
    import jax.numpy as jnp

    x = jnp.linspace(0.0, 1.0, WIDTH)

    def run() -> Any:
        with _discard_stderr():
            return loop(x).block_until_ready()

    return Program(run)


def _loop(progress: str | None) -> Program:
    import jax.numpy as jnp

    import bellhop

    @bellhop.qjit
    def loop(x: Any) -> Any:
        body = lambda i, x: jnp.sin(x) + 0.5
        return bellhop.for_loop(0, ITERATIONS, 1, progress=progress)(body)(x).sum()

    return _hide_output(loop)


def _callbacks(is_profiled: bool) -> Program:
    import jax.numpy as jnp

    import bellhop

    @bellhop.pure_callback
    def increment(x: Any) -> float:
        return x + 1.0

    @bellhop.qjit
    def program(x: Any) -> Any:
        return bellhop.for_loop(0, CALLS, 1)(lambda _, x: increment(x))(x)

    x = jnp.asarray(0.0)

    def run() -> Any:
        with bellhop.profile() if is_profiled else contextlib.nullcontext():
            return program(x).block_until_ready()

    return Program(run)


def _scan(is_shown: bool) -> Program:
    import jax
    import jax.numpy as jnp

    import bellhop

    @bellhop.qjit
    def loop(x: Any) -> Any:
        body = lambda x, _: (jnp.sin(x) + 0.5, None)
        if is_shown:
            body = bellhop.progress(ITERATIONS, "scan")(body)
        return jax.lax.scan(body, x, length=ITERATIONS)[0].sum()

    return _hide_output(loop)


CASES = [
    Case(
        name="progress-loop",
        title=f"bar of a loop of {ITERATIONS} iterations of 10 us",
        limit="the loop without a bar",
        builders={"bellhop": lambda: _loop("loop"), LIMIT: lambda: _loop(None)},
        unavailable=_ALONE,
        items=ITERATIONS,
        unit="iteration",
        targets=(Target(LIMIT, 0.99),),
    ),
    Case(
        name="progress-scan",
        title=f"bar of a jax.lax.scan of {ITERATIONS} iterations of 10 us",
        limit="the scan without a bar",
        builders={"bellhop": lambda: _scan(True), LIMIT: lambda: _scan(False)},
        unavailable=_ALONE,
        items=ITERATIONS,
        unit="iteration",
        targets=(Target(LIMIT, 0.99),),
    ),
    Case(
        name="profile-callbacks",
        title=f"profile of {CALLS} callbacks in a loop",
        limit="the loop without a profile",
        builders={"bellhop": lambda: _callbacks(True), LIMIT: lambda: _callbacks(False)},
        unavailable=_ALONE,
        expected=lambda: float(CALLS),
        items=CALLS,
        unit="callback",
        # A callback of NumPy's addition takes 1.3 us.
        targets=(Target(LIMIT, 1.3 / 2.3),),
    ),
]
