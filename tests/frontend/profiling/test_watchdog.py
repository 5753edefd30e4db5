"""What compiled functions that run are waiting for, and the watchdog that says it."""

import contextlib
import io
import os
import signal
import threading
import time

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.patience import run_at_once, wait_until

import bellhop


def lines_of(function):
    """Return what ``waiting`` tells without seconds, from a callback of a compiled function."""
    lines = []

    def look(x) -> float:
        lines.extend(line.partition(", for ")[0].strip() for line in _told())
        return float(x)

    function(look)
    return lines


def _told():
    return bellhop.debug.waiting().splitlines()


def here(line):
    return f"{__file__}:{line}"


def first_line(function):
    return function.__code__.co_firstlineno


def test_nothing_runs():
    bellhop.barrier_wait()
    assert bellhop.debug.waiting() == ""


def test_a_callback_is_named_with_its_line_and_that_of_its_call():
    def run(look):
        def energy(x):
            return bellhop.pure_callback(look)(x)

        run.line = first_line(energy)
        run.look = first_line(look)
        f = bellhop.qjit(energy)
        f(1.0)

    assert lines_of(run) == [
        f"{threading.current_thread().name}:",
        f"'energy' ({here(run.line)})",
        f"callback 'look' ({here(run.look)}), called from {here(run.line + 1)}",
    ]


def test_what_a_callback_calls_stands_below_it():
    def run(look):
        inner = bellhop.qjit(lambda x: bellhop.pure_callback(look)(x))

        def middle(x) -> float:
            results = []
            thread = threading.Thread(target=lambda: results.append(float(inner(x))), name="other")
            thread.start()
            thread.join()
            return results[0]

        bellhop.qjit(lambda x: bellhop.pure_callback(middle)(x))(1.0)

    names = [line.partition(" (")[0] for line in lines_of(run)]
    mine = [f"{threading.current_thread().name}:", "'<lambda>'", "callback 'middle'"]
    others = ["other:", "'<lambda>'", "callback 'look'"]
    assert sorted([names[:3], names[3:]]) == sorted([mine, others])


def test_a_region_is_named_with_its_device():
    def run(look):
        def region(x):
            return bellhop.pure_callback(look)(x) + 1

        bellhop.qjit(lambda x: bellhop.accelerate(region, dev="cpu:1")(x))(1.0)

    names = [line.partition(", called")[0].partition(" (")[0] for line in lines_of(run)]
    assert names[2:] == ["region 'region' on cpu:1", "callback 'look'"]


def test_a_circuit_is_named_with_its_device():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=18))
    def circuit(x, n):
        @bellhop.for_loop(0, n, 1)
        def repeated(i):
            qml.RX(x + i, 0)
            qml.CNOT([0, 17])

        repeated()
        return qml.expval(qml.Z(0))

    circuit(0.3, 1)
    told = []

    def is_told():
        told[:] = [line.strip() for line in _told() if "QNode" in line]
        return bool(told)

    calls = threading.Thread(target=circuit, args=(0.3, 2000))
    calls.start()
    wait_until(is_told)
    calls.join()
    line = first_line(circuit.user_function.func)
    assert told[0].startswith(f"the QNode 'circuit' ({here(line)}) on LightningSimulator, for ")
    assert "QNode" not in bellhop.debug.waiting()


def test_a_signal_tells():
    told = []
    before = signal.signal(signal.SIGUSR1, lambda *_: told.extend(_told()))
    try:

        def stuck(x) -> float:
            os.kill(os.getpid(), signal.SIGUSR1)
            wait_until(lambda: told)
            return float(x)

        bellhop.qjit(lambda x: bellhop.pure_callback(stuck)(x))(1.0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "callback 'stuck' (" in told[2]


def test_a_first_call_is_compiled():
    lines = []

    @bellhop.qjit
    def f(x):
        lines.extend(_told())
        return x

    f(1.0)
    assert lines[1].strip().startswith("'f' (")
    assert lines[2].strip().startswith("is compiled for new types of arguments, for 0.")


def test_a_thread_that_waits_for_another_one_to_trace_says_so():
    # One program for both, which JAX's fast calls tell apart.
    array, of_numpy = jnp.ones(3), np.ones(3)
    seen = []

    @bellhop.qjit
    def f(x):
        other = threading.Thread(target=f, args=(array,))
        other.start()
        wait_until(lambda: "traces it" in bellhop.debug.waiting())
        seen.append(other)
        return x

    f(of_numpy)
    seen[0].join()


def test_a_program_whose_taps_wait_is_outside_of_python():
    lines = []
    may_go = threading.Event()

    def look(x):
        # The second tap waits for the first.
        wait_until(lambda: "room in the queue of taps" in bellhop.debug.waiting())
        lines.extend(_told())

    @bellhop.qjit
    def f(x):
        bellhop.tap(look, x)
        bellhop.tap(lambda _: may_go.wait(), x)

    limit = bellhop.tap_queue_limit(0)
    try:
        may_go.set()
        f(1.0)
        bellhop.barrier_wait()
    finally:
        bellhop.tap_queue_limit(limit)
    assert (
        "outside of Python: in XLA's code or a circuit, or waiting for room in the queue of taps"
        in lines[2]
    )
    assert "callback 'look' (" in lines[4]
    assert lines[5].startswith("taps that wait or run: ")


@contextlib.contextmanager
def watched(seconds):
    """Let the watchdog print inside."""
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        bellhop.debug.watchdog(seconds)
        try:
            yield stream
        finally:
            bellhop.debug.watchdog(None)


def test_the_watchdog_tells_once_of_each_call_that_takes_long():
    told = "bellhop: a call has taken longer than 0.05 s"
    streams = []

    def wait(count) -> float:
        wait_until(lambda: not streams or streams[0].getvalue().count(told) == count)
        time.sleep(0.2)  # some looks more
        return 0.0

    f = bellhop.qjit(lambda x: bellhop.pure_callback(wait)(x))
    f(0)
    with watched(0.05) as stderr:
        streams.append(stderr)
        f(1)
        time.sleep(0.2)
        f(2)
    assert stderr.getvalue().count(told) == 2
    assert "callback 'wait' (" in stderr.getvalue()


def test_a_watch_that_was_ended_tells_nothing():
    with watched(0.01) as stderr:
        bellhop.debug.watchdog(None)
        bellhop.qjit(lambda: bellhop.pure_callback(lambda: time.sleep(0.1) or 1.0, float)())()
    assert stderr.getvalue() == ""


def test_a_watchdog_takes_seconds():
    with pytest.raises(ValueError, match=r"debug\.watchdog takes seconds above 0, or None, got -1"):
        bellhop.debug.watchdog(-1)


def test_steps_of_many_threads_are_their_own():
    f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: 2 * v, float)(x))
    f(1.0)
    ends = threading.Event()

    def call():
        while not ends.is_set():
            f(1.0)

    def look():
        try:
            for _ in range(500):
                for line in _told():
                    assert line.lstrip().startswith(("'<lambda>'", "callback", "outside")) or (
                        line.endswith(":")
                    )
        finally:
            ends.set()

    run_at_once(call, call, call, look)


@pytest.mark.subprocess
def test_the_environment_asks_for_the_watchdog(run_script):
    script = """
    import bellhop, sys, time
    sys.stderr = sys.stdout
    bellhop.qjit(lambda x: bellhop.pure_callback(lambda v: time.sleep(3) or 1.0, float)(x))(1.0)
    """
    told = run_script(script, BELLHOP_WATCHDOG="1")
    assert "bellhop: a call has taken longer than 1 s" in told
    with pytest.raises(AssertionError, match="WATCHDOG='always' is not a number of seconds"):
        run_script(script, BELLHOP_WATCHDOG="always")
