"""Memory after many callbacks, and after many programs; ``make soak`` runs the full lengths."""

import pytest

# MiB
LIMIT_OF_CALLS, LIMIT_OF_ARRAYS, LIMIT_OF_PROGRAMS = 2, 20, 20

MEMORY = """
import weakref
import bellhop, jax, jax.numpy as jnp, numpy as np
from tests.memory import private_bytes

def grown(run, warm_up, count):
    # In several runs: allocators keep some memory for each thread that ever took part.
    for _ in range(8):
        run(warm_up)
    before = private_bytes()
    run(count)
    return (private_bytes() - before) / 2**20
"""

SCALARS = """
@bellhop.pure_callback
def double(x) -> float:
    return x * 2
io = bellhop.io_callback(lambda x: x + 1, float)
# Pure and with an effect, in turn; results and arguments are new arrays each time.
loop = bellhop.qjit(lambda n, x: jax.lax.fori_loop(
    0, n // 2, lambda i, x: io(double(x) / 2) - 1, x))
print(grown(lambda count: loop(count, 1.0).block_until_ready(), 10_000, {count}))
"""

ARRAYS = """
MEGABYTE = jax.ShapeDtypeStruct((2**17,), np.float64)
double = bellhop.pure_callback(lambda x: x * 2, MEGABYTE)
io = bellhop.io_callback(lambda x: x / 2, MEGABYTE)
loop = bellhop.qjit(lambda n, x: jax.lax.fori_loop(0, n // 2, lambda i, x: io(double(x)), x))
x = np.ones(2**17)
print(grown(lambda count: loop(count, x).block_until_ready(), 50, {count}))
"""

FAILURES = """
class Failure(Exception):
    pass
def fail(x):
    raise Failure(np.ones(1000))
f = bellhop.qjit(lambda x: bellhop.pure_callback(fail, float)(x.sum()))
x = np.ones(10_000)
def run(count):
    for _ in range(count):
        try:
            f(x)
        except Failure:
            pass
print(grown(run, 100, {count}))
"""

PROGRAMS = """
callables = weakref.WeakSet()
def run(count):
    for i in range(count):
        def function(x):
            return i * x
        callables.add(function)
        program = bellhop.qjit(lambda x: bellhop.pure_callback(function, float)(x) + 1)
        assert program(2.0) == 2.0 * i + 1
    del function, program
grown_by = grown(run, 5, {count})
assert len(callables) == 0, len(callables)
print(grown_by)
"""


RUNS = {
    "scalar arguments and results": (SCALARS, 100_000, 5_000_000, LIMIT_OF_CALLS),
    "arguments and results of 1 MB": (ARRAYS, 300, 20_000, LIMIT_OF_ARRAYS),
    "calls that fail": (FAILURES, 2_000, 20_000, LIMIT_OF_CALLS),
    "programs compiled and dropped": (PROGRAMS, 50, 2_000, LIMIT_OF_PROGRAMS),
}


@pytest.mark.parametrize("length", ["short", pytest.param("full", marks=pytest.mark.long)])
@pytest.mark.parametrize("run", RUNS)
def test_memory_after(run_script, run, length):
    script, short, full, limit = RUNS[run]
    count = full if length == "full" else short
    grown = float(run_script(MEMORY + script.format(count=count), timeout=1200))
    print(f"{count} {run}: {grown:.1f} MiB")
    assert grown < limit
