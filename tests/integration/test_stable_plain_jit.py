"""In a plain ``jax.jit`` too, equal source is an equal module, and no closure is another's."""

import gc
import re
import threading
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.patience import run_at_once

import bellhop
from bellhop.compiler import lower_in_jax_jit

pytestmark = pytest.mark.usefixtures("short_collections")

# One source for processes that differ in what they did before, and in what `factor` is.
SOURCE = """
import jax, jax.numpy as jnp, numpy as np
import pennylane as qml
import bellhop

factor = {factor}
shift = bellhop.pure_callback(lambda v: factor + v, float)
square = bellhop.pure_callback(lambda v: factor * v * v, float)
square.fwd(lambda x: (square(x), x))
square.bwd(lambda x, dy: 2 * shift(x) * dy)
cube = bellhop.pure_callback(lambda v: factor * v**3, float)
cube.jvp(lambda p, t: (cube(*p), shift(p[0]) * t[0]))
batch = bellhop.pure_callback(lambda v: factor * v, float, vmap_method="expand_dims")
seen = []

def effect(make):
    def program(x):
        make(lambda v: seen.append(factor * float(v)))(x)
        return x
    return program

def twins(x):
    # Three programs of one text, alive in one module.
    return sum(bellhop.pure_callback(lambda v, i=i: factor * i * v, float)(x) for i in range(3))

@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(shift(x), 0)
    return qml.expval(qml.Z(0))

programs = {{
    "pure": lambda x: shift(x),
    "vjp": jax.grad(square),
    "jvp": jax.grad(cube),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, v: shift(v), x),
    "branch": lambda x: jax.lax.cond(x > 0, shift, square, x),
    "batch": lambda x: jax.vmap(batch)(jnp.ones(3) * x),
    "one by one": lambda x: jax.vmap(shift)(jnp.ones(3) * x),
    "debug": effect(bellhop.debug.callback),
    "io": effect(lambda f: bellhop.io_callback(f, None)),
    "ordered io": effect(lambda f: bellhop.io_callback(f, None, ordered=True)),
    "twins": twins,
    "region": lambda x: bellhop.accelerate(lambda v: shift(v), dev="cpu:1")(x),
    "circuit": circuit,
}}
"""

TEXTS = """
padding = [jax.jit(lambda x: bellhop.pure_callback(lambda v: v * i, float)(x)) for i in range({n})]
for program in padding:
    program(1.0)
for name, program in programs.items():
    print(name, jax.jit(program).lower(0.5).as_text())
"""


def first_difference(one, other):
    for left, right in zip(one.splitlines(), other.splitlines(), strict=False):
        if left != right:
            return f"{left[:500]}\n{right[:500]}"
    return "" if len(one) == len(other) else "one has more lines"


def test_two_processes_make_the_same_modules(run_script):
    one = run_script(SOURCE.format(factor=1) + TEXTS.format(n=0))
    other = run_script(SOURCE.format(factor=2) + TEXTS.format(n=3), PYTHONHASHSEED="7")
    assert one.count("@bellhop_callback") >= 13
    assert first_difference(one, other) == ""


CACHED = """
x = jnp.asarray(0.5)
ones = jnp.ones(3)
jax.config.update("jax_compilation_cache_dir", {directory!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
for name, program in programs.items():
    result = np.asarray(jax.jit(program)(x))
    print(name, result.reshape(-1)[-1], *seen, sep=",")
    seen.clear()
print(*(events.count("/jax/compilation_cache/cache_" + what) for what in ("misses", "hits")))
"""


def expected(a):
    x = 0.5
    return {
        "pure": [a + x], "vjp": [2 * (a + x)], "jvp": [a + x], "loop": [3 * a + x],
        "branch": [a + x], "batch": [a * x], "one by one": [a + x], "debug": [x, a * x],
        "io": [x, a * x], "ordered io": [x, a * x], "twins": [3 * a * x], "region": [a + x],
        "circuit": [np.cos(a + x)],
    }  # fmt: skip


def test_second_process_compiles_nothing_and_calls_its_own_functions(run_script, tmp_path):
    for factor in (2, 5):
        out = run_script(SOURCE.format(factor=factor) + CACHED.format(directory=str(tmp_path)))
        *lines, counts = out.splitlines()
        results = {name: values for name, *values in (line.split(",") for line in lines)}
        assert results.keys() == expected(factor).keys()
        for name, values in expected(factor).items():
            np.testing.assert_allclose(np.array(results[name], float), values, rtol=1e-12)
        misses, hits = map(int, counts.split())
        assert (misses, hits) != (0, 0)
        assert factor == 2 or misses == 0


def times(factor):
    return jax.jit(lambda x: bellhop.pure_callback(lambda v: factor * v, float)(x))


def key(lowered):
    """Return what names the program in a module with one callback."""
    return int(lowered.as_text().partition("program = ")[2].split()[0])


def test_equal_modules_that_are_alive_at_once_keep_their_functions():
    functions = [times(factor) for factor in range(5)]
    lowered = [function.lower(1.0) for function in functions]
    first = key(lowered[0])
    assert [key(each) - first for each in lowered] == [0, 1, 2, 3, 4]
    # Compiled in another order than they were lowered in.
    compiled = [each.compile() for each in reversed(lowered)][::-1]
    assert [float(each(2.0)) for each in compiled] == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert [float(function(3.0)) for function in functions] == [0.0, 3.0, 6.0, 9.0, 12.0]


def test_place_of_a_dropped_program_is_taken_by_the_next_one():
    one, two = times(1), times(2)
    first, second = key(one.lower(1.0)), key(two.lower(1.0))
    assert second == first + 1
    assert [float(one(1.0)), float(two(1.0))] == [1.0, 2.0]
    del one
    gc.collect()
    three = times(3)
    assert key(three.lower(1.0)) == first
    assert [float(three(1.0)), float(two(1.0))] == [3.0, 2.0]


def test_equal_calls_in_a_module_are_one_function_of_the_table():
    triple = bellhop.pure_callback(lambda v: 3 * v, float)
    text = jax.jit(lambda x: triple(x) + triple(triple(x))).lower(1.0).as_text()
    assert text.count("@bellhop_callback") == 3
    assert len(set(re.findall(r"program = (\d+)", text))) == 1


def test_a_callback_is_lowered_into_the_module_of_jax(monkeypatch):
    """To compile a program of each takes ten milliseconds."""
    monkeypatch.setattr(lower_in_jax_jit, "compile_program", None)

    def program(x):
        for number in range(3):
            x = bellhop.pure_callback(lambda v, n=number: v + n, float)(x)
            bellhop.debug.print("{}", x)
        return jax.vmap(bellhop.pure_callback(lambda v: 2 * v, float))(x * jax.numpy.ones(2))

    function = jax.jit(program)
    assert function(1.0).tolist() == [8.0, 8.0]
    text = function.lower(1.0).as_text()
    assert text.count("func.func public @main") == 1
    assert "@bellhop_main" not in text


def test_executable_outlives_function_and_lowering():
    function = times(7)
    lowered = function.lower(1.0)
    compiled = lowered.compile()
    del function, lowered
    jax.clear_caches()
    gc.collect()
    others = [times(factor) for factor in range(3)]
    assert [float(other(1.0)) for other in others] == [0.0, 1.0, 2.0]
    assert float(compiled(1.0)) == 7.0


def test_cleared_caches_make_the_program_anew():
    function = times(4)
    assert float(function(1.0)) == 4.0
    jax.clear_caches()
    assert float(function(2.0)) == 8.0


def test_functions_are_freed_with_the_program():
    callbacks = weakref.WeakSet()

    def make(factor):
        def scale(v):
            return factor * v

        callbacks.add(scale)
        return jax.jit(lambda x: bellhop.pure_callback(scale, float)(x))

    for factor in range(5):
        assert float(make(factor)(1.0)) == factor
    gc.collect()
    assert len(callbacks) == 0


def test_eight_threads_lower_equal_programs():
    barrier = threading.Barrier(8)
    wrong = []

    def work(number):
        function = times(number)
        barrier.wait()
        for x in range(1, 4):
            if float(function(float(x))) != number * x:
                wrong.append((number, x))

    run_at_once(*(partial(work, number) for number in range(8)))
    assert wrong == []


def test_serializing_is_refused_by_name():
    from jax.experimental import serialize_executable

    def mine(v):
        return v

    compiled = jax.jit(lambda x: bellhop.pure_callback(mine, float)(x)).lower(1.0).compile()
    with pytest.raises(TypeError, match=rf"cannot be serialized.*'mine' \({__file__}:"):
        serialize_executable.serialize(compiled)
    assert float(compiled(2.0)) == 2.0


def test_exporting_is_refused():
    with pytest.raises(NotImplementedError, match="jax.export of a program with bellhop"):
        jax.export.export(times(2))(1.0)


def test_program_without_its_functions_is_an_error_by_name():
    scalar = jax.ShapeDtypeStruct((), float)
    alone = jax.ffi.ffi_call("bellhop_callback", scalar)
    attributes = {"program": np.int64(1), "index": np.int64(0), "python": "module.gone"}
    with pytest.raises(jax.errors.JaxRuntimeError, match="'module.gone' does not exist in this"):
        alone(jnp.zeros(2, jnp.uint32), 1.0, **attributes)
