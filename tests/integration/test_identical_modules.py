"""A module holds nothing of the process that made it, and processes share compiled code."""

import textwrap

import pytest

SOURCES = {
    "callbacks": """
        @bellhop.qjit(keep_intermediate=True)
        def f(x):
            bellhop.debug.print("x = {}", x)
            y = bellhop.pure_callback(lambda v: np.sin(v), float)(x)
            z = jax.lax.fori_loop(0, 3, lambda i, v: bellhop.pure_callback(np.cos, float)(v), y)
            bellhop.debug.callback(seen.append)(z)
            return y + z
    """,
    "derivative": """
        @bellhop.pure_callback
        def square(x) -> float:
            return float(x) ** 2
        square.fwd(lambda x: (square(x), x))
        square.bwd(lambda x, dy: 2 * x * dy)
        @bellhop.qjit(keep_intermediate=True)
        @bellhop.grad
        def f(x):
            return square(jnp.sin(x)) + square(x)
    """,
    "regions": """
        @bellhop.qjit(keep_intermediate=True)
        def f(x):
            here = bellhop.accelerate(jnp.sin)(x)
            cosine = bellhop.pure_callback(np.cos, float)
            return here + bellhop.accelerate(lambda v: cosine(v), dev="cpu:1")(x)
    """,
}

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
import bellhop
# What another process may have done before must not show.
padding = [bytearray(1000 + i) for i in range({padding})]
for i in range({padding}):
    bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: v * i, float)(x))(1.0)
seen = []
{source}
f(1.0)
text = f.mlir + f.mlir_opt + str(f.jaxpr)
for stage in f._program().stages.values():
    text += stage
sys.stdout.write(text)
print(f._program().code.module.hex())
print(f.lower(1.0).as_text())
"""


def program(source, padding):
    return PROGRAM.format(source=textwrap.dedent(source), padding=padding)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_two_processes_make_the_same_module(run_script, own_directory, source):
    one = run_script(program(source, 0))
    other = run_script(program(source, 3), PYTHONHASHSEED="7")
    assert first_difference(one, other) == ""


def first_difference(one, other):
    for left, right in zip(one.splitlines(), other.splitlines(), strict=False):
        if left != right:
            return f"{left[:500]}\n{right[:500]}"
    return "" if len(one) == len(other) else "one has more lines"


CACHED = """
import jax, numpy as np
import bellhop
jax.config.update("jax_compilation_cache_dir", {directory!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
factor = {factor}
@bellhop.qjit
def f(x):
    bellhop.debug.print("x = {{}}", x)
    return bellhop.pure_callback(lambda v: factor * v, float)(x)
print(float(f(3.0)))
print(events.count("/jax/compilation_cache/cache_misses"))
"""


def test_second_process_compiles_nothing_and_calls_its_own_functions(run_script, tmp_path):
    first = run_script(CACHED.format(directory=str(tmp_path), factor=2)).split("\n")
    assert first[:2] == ["x = 3.0", "6.0"]
    assert int(first[2]) > 0
    second = run_script(CACHED.format(directory=str(tmp_path), factor=5)).split("\n")
    assert second[:3] == ["x = 3.0", "15.0", "0"]
