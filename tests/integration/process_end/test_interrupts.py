"""Signals while a callback sleeps, and while the program runs between and without callbacks."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.patience import PATIENCE

import bellhop
from bellhop_runtime import live_sessions

SCRIPT = """
import threading, time
import bellhop, jax, jax.numpy as jnp, numpy as np
from bellhop_runtime import live_sessions, look_at_bars

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

def sleep(seconds):
    tell()
    time.sleep(seconds)
    return 0.0

def spin(seconds):
    tell()
    end = time.time() + float(seconds)
    while time.time() < end:
        pass
    return 0.0
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
assert live_sessions() == 0
assert not look_at_bars(), "open"
print("usable")
"""

# PennyLane takes more time to import than all else.
CIRCUIT = """
import pennylane as qml

@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0))
"""

WAITING = "f = bellhop.qjit(lambda n, x: bellhop.io_callback({}, float)(n) + double(x))"

PROGRAMS = {
    "a callback that sleeps": (WAITING.format("sleep"), 3600),
    "a callback that computes": (WAITING.format("spin"), 3600),
    "callbacks at once": (
        """
        sleeping = bellhop.pure_callback(sleep, float)
        f = bellhop.qjit(
            lambda n, x: sleeping(n) + sleeping(2 * n) + double(x), concurrent_callbacks=2
        )
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
    "loops of circuits, taps and functions that are C": (
        """
        @bellhop.qjit
        def f(n, x):
            bellhop.io_callback(tell)()
            def iteration(i, v):
                bellhop.tap(len, v[None])
                return v + 0 * circuit(v) + 0 * bellhop.pure_callback(abs, float)(v)
            return jax.lax.fori_loop(0, n, iteration, double(x))
        """,
        1_000_000_000,
    ),
    "circuits and callbacks that XLA's threads call": (
        """
        a = jnp.ones((100, 100)) / 100
        main = threading.main_thread()
        calls = 0

        def tell_elsewhere(x):
            # Some versions of XLA call all on the thread that runs the program.
            global calls
            calls += 1
            if threading.current_thread() is not main or calls == 1000:
                tell()
            return 0.0

        @bellhop.qjit
        def f(n, x):
            def turn(i, v):
                # Products that XLA spreads over its threads.
                y = [(a * (v + i + k) @ a @ a).sum() for k in range(8)]
                told = sum(map(bellhop.pure_callback(tell_elsewhere, float), y))
                return v + 0 * told + 0 * sum(map(circuit, y))
            return jax.lax.fori_loop(0, n, turn, double(x))
        """,
        1_000_000_000,
    ),
    "a loop with a bar": (
        """
        @bellhop.qjit
        def f(n, x):
            bellhop.io_callback(tell)()
            turn = lambda i, v: v + jnp.sin(v) * 0
            return bellhop.for_loop(0, n, 1, progress="turns")(turn)(double(x))
        """,
        1_000_000_000,
    ),
    "a device that waits": (
        """
        device = qml.device("reference.qubit", wires=1)
        execute = device.execute

        def wait(circuits, **options):
            tell()
            if circuits[0].operations[0].data[0] > 0:
                time.sleep(3600)
            return execute(circuits, **options)

        device.execute = wait

        @qml.qnode(device)
        def circuit(x):
            qml.RX(x, wires=0)
            return qml.expval(qml.Z(0))

        f = bellhop.qjit(lambda n, x: circuit(0.0 + n) * double(x))
        """,
        1,
    ),
    "gates of one call of the runtime": (
        """
        @qml.qnode(qml.device("lightning.qubit", wires=16))
        def circuit(n, x):
            qml.for_loop(0, n)(lambda i: qml.RX(x * i, wires=0))()
            return qml.expval(qml.Z(0))

        @bellhop.qjit
        def f(n, x):
            bellhop.io_callback(tell)()
            return double(x) * circuit(n, x)
        """,
        100_000_000,
    ),
}


@pytest.mark.subprocess
@pytest.mark.parametrize("program", PROGRAMS)
def test_control_c(program):
    text, argument = PROGRAMS[program]
    text = (CIRCUIT if "circuit" in text else "") + textwrap.dedent(text)
    script = SCRIPT.format(program=text, argument=argument)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        time.sleep(0.2)  # further into it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert out.split() == ["interrupted", "usable"], err
    assert process.returncode == 0


@pytest.fixture
def interrupted_elsewhere():
    """A program that XLA's threads run, of which one sends SIGINT to the process."""
    a = jnp.ones((100, 100)) / 100
    senders = []

    def send(x):
        del x
        if threading.current_thread() is not threading.main_thread():
            senders.append(threading.get_ident())
            # Not the first call: others may look for signals just then.
            if len(senders) == 100:
                signal.raise_signal(signal.SIGINT)
        return 0.0

    def program(n, x):
        def turn(_, x):
            # Products that XLA spreads over its threads.
            products = [(a * (x + k) @ a @ a).sum() for k in range(8)]
            return x + 1 + sum(map(bellhop.pure_callback(send, float), products))

        return jax.lax.fori_loop(0, n, turn, x)

    return program, senders


@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_control_c_ends_what_runs_on_threads_of_xla(compiler, interrupted_elsewhere):
    program, senders = interrupted_elsewhere
    f = compiler(program)
    with pytest.raises(KeyboardInterrupt) as raised:
        f(10_000, 0.0)
    assert raised.value.__context__ is None
    assert f(3, 0.0) == 3.0


def test_a_handler_of_ones_own_waits_for_what_runs_on_threads_of_xla(interrupted_elsewhere):
    program, senders = interrupted_elsewhere
    f = bellhop.qjit(program)
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(threading.current_thread()))
    try:
        while len(senders) < 100:  # how many calls run elsewhere is up to XLA
            assert f(500, 0.0) == 500.0
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [threading.main_thread()]


@contextlib.contextmanager
def alarm(handler):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=1))
def turned(n, x):
    bellhop.for_loop(0, n, 1)(lambda i: qml.RX(x, wires=0))()
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize("f", [turned, jax.jit(turned)], ids=["qjit", "jit"])
def test_a_handler_of_ones_own_may_end_the_run(f):
    def end(*_):
        raise TimeoutError("of my own")

    for _ in range(3):
        f(3, 0.5)
    with pytest.raises(TimeoutError, match="of my own"), alarm(end):
        f(200_000_000, 0.5)
    assert live_sessions() == 0
    assert f(2, 0.5) == pytest.approx(np.cos(1.0), abs=1e-12)


def test_a_handler_of_ones_own_may_let_the_run_go_on():
    n, calls = 1 << 22, []

    def note(*_):
        # Another run of the same function, in the middle of this one.
        calls.append(float(turned(2, 0.5)))

    # JAX cannot compile a function in the middle of its own compilation.
    turned(2, 0.5)
    with alarm(note):
        result = turned(n, np.pi / n)
    assert result == pytest.approx(-1.0, abs=1e-6)
    assert calls
    np.testing.assert_allclose(calls, np.cos(1.0), atol=1e-12)


# 5 * 10**8 samples take 2 GB.
MANY_SHOTS = """
import resource, signal
import bellhop, pennylane as qml

def compiled(shots):
    @bellhop.qjit
    @qml.set_shots(shots)
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def f(x):
        qml.RX(x, wires=0)
        return {measurement}

    f.jit_compile((0.5,))
    return f

compiled(10)(0.5)
f = compiled(500_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, {seconds})
try:
    f(0.5)
except KeyboardInterrupt:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


# Fails where nothing else runs, since 0.3 s suffice to write 2 GB there.
@pytest.mark.long
@pytest.mark.parametrize("measurement", ["qml.sample()"])
def test_memory_of_many_shots_is_not_cleared_before_signals_are_handled(measurement):
    script = MANY_SHOTS.format(measurement=measurement, seconds=0.3)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    # In KiB; a vector of all samples that is cleared at once takes 2 * 10**6.
    assert int(done.stdout) < 10**6
