"""Ctrl-C while a callback sleeps, and while the program runs between callbacks."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from tests.patience import PATIENCE

SCRIPT = """
import time
import bellhop, jax, jax.numpy as jnp, numpy as np

@bellhop.pure_callback
def double(x) -> float:
    return 2 * float(x)

is_told = True
def tell():
    # Once: that the call which is to be interrupted is in a callback.
    global is_told
    if not is_told:
        is_told = True
        print("ready", flush=True)
{program}
try:
    # The first call compiles and must not be interrupted.
    f(0, 1.0)
    is_told = False
    f({argument}, 1.0)
except KeyboardInterrupt as interrupt:
    print("interrupted", flush=True)
# The same program and others go on.
assert f(0, 1.0) == 2.0, f(0, 1.0)
assert bellhop.qjit(double)(4.0) == 8.0
print("usable")
"""

PROGRAMS = {
    "a callback that sleeps": (
        """
        def sleep(seconds):
            tell()
            time.sleep(seconds)
            return 0.0
        f = bellhop.qjit(lambda n, x: bellhop.io_callback(sleep, float)(n) + double(x))
        """,
        3600,
    ),
    "a callback that computes": (
        """
        def spin(seconds):
            tell()
            end = time.time() + float(seconds)
            while time.time() < end:
                pass
            return 0.0
        f = bellhop.qjit(lambda n, x: bellhop.io_callback(spin, float)(n) + double(x))
        """,
        3600,
    ),
    "a loop of callbacks": (
        """
        @bellhop.pure_callback
        def telling(x) -> float:
            tell()
            return 2 * float(x)
        f = bellhop.qjit(lambda n, x: jax.lax.fori_loop(
            0, n, lambda i, v: telling(v) / 2 + jnp.sin(i) * 0, double(x)))
        """,
        1_000_000_000,
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_control_c(program):
    text, argument = PROGRAMS[program]
    script = SCRIPT.format(program=textwrap.dedent(text), argument=argument)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        time.sleep(0.2)  # further into it
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert out.split() == ["interrupted", "usable"], err
    assert process.returncode == 0
