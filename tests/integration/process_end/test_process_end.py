"""The end of a process while programs that nobody waits for still run on XLA's threads."""

import faulthandler
import re
import threading

import pytest
from tests.patience import PATIENCE, run_at_once

import bellhop

# JAX copies a large NumPy array on a thread of its own, and the program begins there after that.
BEGIN = """
import bellhop, jax, numpy as np

matrix = np.ones((600, 600))

def repeated(call):
    def body(i, carry):
        value, m = carry
        return call(value) / 2, m @ m * (1e-3 * value)
    return lambda n, m: jax.lax.fori_loop(0, n, body, (1.0, m))

def double(x) -> float:
    return 2 * float(x)
"""
# Enough to be at work when the process ends; where the copy was quick they run before that.
ITERATIONS = 300


def test_a_program_that_nobody_waits_for(run_script):
    script = f"""
f = jax.jit(repeated(bellhop.pure_callback(double)))
f({ITERATIONS}, matrix)
print("end")
"""
    assert run_script(BEGIN + script) == "end\n"


@pytest.mark.parametrize(
    "call",
    [
        "bellhop.io_callback(show, float)(x)",
        "bellhop.io_callback(show, float, ordered=True)(x)",
        "(bellhop.callback(show)(x), 2 * x)[1]",
        "(bellhop.tap(show, x), 2 * x)[1]",
    ],
)
def test_programs_with_effects_run_to_their_ends(call, run_script):
    script = f"""
def show(x):
    print("called", flush=True)
    return double(x)

f = jax.jit(repeated(lambda x: {call}))
f(30, matrix)
"""
    assert run_script(BEGIN + script) == "called\n" * 30


def test_a_daemon_thread_in_a_callback_does_not_hold_the_process(run_script):
    script = """
import threading
began = threading.Event()
def wait(x) -> float:
    began.set()
    threading.Event().wait()

f = bellhop.qjit(lambda x: bellhop.pure_callback(wait)(x))
threading.Thread(target=f, args=(1.0,), daemon=True).start()
assert began.wait(300)
print("end")
"""
    assert run_script(BEGIN + script) == "end\n"


@pytest.mark.parametrize(
    "repeats",
    [
        "bellhop.qjit(lambda x: jax.lax.fori_loop(0, 10**9, lambda i, x: call(x), x))",
        "lambda x: [f(x) for f in itertools.repeat(bellhop.qjit(call))]",
        "lambda x: [f(x) for f in itertools.repeat(jax.jit(jnp.sin))]",
    ],
    ids=["calls of Python", "calls", "calls of plain JAX"],
)
def test_daemon_threads_that_compute_do_not_abort_the_process(repeats, run_script):
    """Python before 3.14 ends them by unwinding the frames of C++, which let nothing through."""
    script = f"""
import itertools, jax, jax.numpy as jnp, threading, time
import bellhop

inner = jax.jit(jnp.sin)
begun = threading.Semaphore(0)
def python(x) -> float:
    begun.release()
    return float(inner(x))

call = lambda x: bellhop.pure_callback(python)(x)
bellhop.qjit(call)(1.0)
for _ in range(3):
    threading.Thread(target={repeats}, args=(1.0,), daemon=True).start()
for _ in range(3):
    begun.acquire(timeout=1)
time.sleep(0.1)
print("end")
"""
    assert run_script(script) == "end\n"


def test_faulthandler_shows_the_callback_that_a_program_waits_for(tmp_path):
    """On whichever thread it runs."""
    entered, leave = threading.Barrier(3, timeout=PATIENCE), threading.Event()

    def waits_for_ever(x) -> float:
        entered.wait()
        leave.wait(PATIENCE)
        return float(x)

    waits = bellhop.pure_callback(waits_for_ever)
    f = bellhop.qjit(lambda x: waits(x) + waits(2 * x), concurrent_callbacks=2)

    def look():
        try:
            entered.wait()
            with (tmp_path / "threads").open("w") as file:
                faulthandler.dump_traceback(file, all_threads=True)
        finally:
            leave.set()

    run_at_once(lambda: f(1.0), look)
    text = (tmp_path / "threads").read_text()
    assert len(re.findall(r"test_process_end.py\", line \d+ in waits_for_ever", text)) == 2


def test_collections_at_the_end_and_ctrl_c_in_one_are_not_dropped(run_script):
    """Python drops what a function of gc.callbacks raises, Ctrl-C too."""
    script = """
    import builtins, gc, os
    import bellhop, bellhop_runtime

    os.dup2(1, 2)
    bellhop.qjit(lambda x: x)(1.0)
    native = [call for call in gc.callbacks if call is bellhop_runtime._runtime.on_collection]
    print(len(native))

    class Last:
        def __init__(self):
            self.collect = gc.collect

        def __del__(self):
            self.collect()

    builtins.last = Last()
    """
    assert run_script(script) == "1\n"
