"""Bars of loops: what standard error shows when the call has returned, and what is counted."""

import gc
import os
import re
import select
import struct
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.patience import PATIENCE, run_at_once, wait_until

import bellhop
from bellhop.delegation import delegated_everywhere
from bellhop_runtime import look_at_bars, wait_for_taps

# A line as tqdm leaves it: description, count and total.
_LINE = re.compile(r"([^\r\n]*?):? *(?:\d+%\|.*?\| (\d+)/(\d+)|(\d+)it) \[")


def lines(text):
    """Return what each line showed last: description, count, and total or None."""
    shown = []
    for line in text.split("\n"):
        found = _LINE.match(line.rstrip("\r").rpartition("\r")[2])
        if found:
            name, count, total, alone = found.groups()
            shown.append((name, int(count or alone), int(total) if total else None))
    return shown


@pytest.fixture
def shown(capfd):
    """Return what was shown so far, when nothing is being shown any more."""

    def read(wait=False):
        if wait:
            # Outside qjit nobody waits for the thread that shows bars.
            wait_until(lambda: not _watchers())
        return lines(capfd.readouterr().err)

    yield read
    assert look_at_bars() == []


def _watchers():
    wait_for_taps()
    return [thread for thread in threading.enumerate() if thread.name == "bellhop_progress"]


def summed(n, progress="sum"):
    return bellhop.for_loop(0, n, 1, progress=progress)(lambda i, total: total + i)(0)


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_loops_of_known_length(n, shown):
    assert bellhop.qjit(lambda: summed(n))() == sum(range(n))
    assert shown() == [("sum", n, n)] if n else [("sum", 0, 0)]


@pytest.mark.parametrize("bounds", [(0, 5, 1), (10, 0, -3), (3, 3, 1), (2, 30, 4)])
def test_loops_of_computed_length(bounds, shown):
    @bellhop.qjit
    def f(low, high, step):
        return bellhop.for_loop(low, high, step, progress="f")(lambda i, total: total + i)(0)

    for _ in range(2):
        assert f(*bounds) == sum(range(*bounds))
        n = len(range(*bounds))
        assert shown() in ([("f", n, n)], [("f", n, None)])


def test_while_loops_count(shown):
    @bellhop.qjit
    def f(x):
        return bellhop.while_loop(lambda y: y > 1, progress="halve")(lambda y: y / 2)(x)

    assert f(12.0) == 0.75
    assert f(0.5) == 0.5
    assert shown() == [("halve", 4, 4), ("halve", 0, None)]


def test_without_a_description(shown):
    bellhop.qjit(lambda: summed(3, progress=""))()
    assert shown() == [("", 3, 3)]


def test_a_loop_without_a_bar_is_as_it_was():
    assert "bellhop_progress" not in _text(lambda: summed(3, progress=None))
    assert "bellhop_progress" in _text(lambda: summed(3))


def _text(function):
    compiled = bellhop.qjit(function)
    compiled()
    return compiled.lower().as_text()


def test_autograph(shown):
    @bellhop.qjit(autograph=True)
    def f(n, xs):
        total = 0.0
        for i in bellhop.progress(range(n), "range"):
            total += i
        for i, x in enumerate(bellhop.progress(xs, "array")):
            total += i * x
        for _ in bellhop.progress(range(3), "static"):
            total += 1
        return total

    assert f(4, jnp.array([1.0, 2.0])) == 6 + 2 + 3
    assert f.mlir.count("stablehlo.while") >= 3
    assert shown() == [("range", 4, 4), ("array", 2, 2), ("static", 3, 3)]


def test_autograph_with_break(shown):
    @bellhop.qjit(autograph=True)
    def f(n):
        total = 0
        for i in bellhop.progress(range(n), "search"):
            if i == 3:
                break
            total += i
        return total

    assert f(10) == 3
    ((name, count, _),) = shown()
    assert name == "search"
    assert count in (3, 4)


def step(carry, x):
    return carry + x, 2 * x


LOOPS = {
    "scan": lambda body, n: jax.lax.scan(body(step), 0.0, jnp.arange(float(n)))[0],
    "fori": lambda body, n: jax.lax.fori_loop(0, n, body(lambda i, x: x + i), 0.0),
    "map": lambda body, n: jnp.sum(jax.lax.map(body(lambda x: x), jnp.arange(float(n)))),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", "-"])
def test_bodies_of_jax_loops(loop, compiler, shown):
    f = compiler(lambda: LOOPS[loop](bellhop.progress(6, loop), 6))
    assert f() == 15
    assert f() == 15
    assert shown(wait=True) == [(loop, 6, 6)] * 2


def test_a_body_that_is_decorated_once(shown):
    body = bellhop.progress(4, "body")(step)
    f = bellhop.qjit(lambda xs: jax.lax.scan(body, 0.0, xs))
    for _ in range(3):
        f(jnp.arange(4.0))
    assert shown() == [("body", 4, 4)] * 3


def test_a_bar_that_was_promised_more_ends_with_the_program(shown):
    f = bellhop.qjit(lambda xs: jax.lax.scan(bellhop.progress(9, "nine")(step), 0.0, xs))
    f(jnp.arange(4.0))
    assert shown() == [("nine", 4, 9)]


@pytest.mark.parametrize("total", [3, 20])
def test_a_body_that_runs_more_often_than_was_told_has_another_bar(total, shown):
    f = bellhop.qjit(lambda xs: jax.lax.scan(bellhop.progress(total, "more")(step), 0.0, xs))
    f(jnp.arange(2.0 * total))
    assert set(shown()) == {("more", total, total)}


def test_a_body_of_several_loops_has_one_bar(shown):
    body = bellhop.progress(55, "all")(step)

    @bellhop.qjit
    def f():
        total = 0.0
        for n in (1, 30, 24):
            total = jax.lax.scan(body, total, jnp.ones(n))[0]
        return total

    assert f() == 55
    assert shown() == [("all", 55, 55)]


@pytest.mark.parametrize("loop", [*LOOPS, "for_loop"])
def test_short_iterations_need_not_tell(loop, shown):
    if loop == "for_loop":
        f = bellhop.qjit(lambda: summed(40, loop))
    else:
        f = bellhop.qjit(lambda: LOOPS[loop](bellhop.progress(40, loop), 40))
    assert f() == 780
    told_in_conditional = r'stablehlo\.if"[^}]*"callback\.call"[^}]*kind = "progress"'
    assert re.search(told_in_conditional, f.mlir_opt)
    assert shown() == [(loop, 40, 40)]


def test_loops_of_long_iterations_tell_each_time(shown):
    seen = []

    @bellhop.pure_callback
    def slow(x) -> float:
        time.sleep(0.02)
        seen.extend(look[5] for look in look_at_bars())
        return x

    f = bellhop.qjit(
        lambda: jax.lax.scan(
            bellhop.progress(20, "slow")(lambda x, _: (slow(x + 1.0), None)), 0.0, length=20
        )[0]
    )
    assert f() == 20
    shown()
    assert set(seen) >= set(range(2, 20))


def test_total_computed_by_the_program(shown):
    @bellhop.qjit
    def f(n):
        return jax.lax.fori_loop(0, n, bellhop.progress(n, "n")(lambda i, x: x + i), 0)

    assert f(5) == 10
    assert shown() in ([("n", 5, 5)], [("n", 5, None)])


def test_nested_loops_have_a_line_each(shown):
    @bellhop.qjit
    def f():
        @bellhop.for_loop(0, 5, 1, progress="outer")
        def outer(i, total):
            return bellhop.for_loop(0, 4, 1, progress="inner")(lambda j, t: t + i * j)(total)

        return outer(0)

    assert f() == 60
    assert sorted(shown()) == [("inner", 4, 4), ("outer", 5, 5)]


def test_inner_loops_do_not_flood(shown):
    @bellhop.qjit
    def f():
        return bellhop.for_loop(0, 300, 1)(lambda i, t: t + summed(2, "inner"))(0)

    start = time.monotonic()
    assert f() == 300
    looks = 10 * (time.monotonic() - start)
    seen = shown()
    assert set(seen) == {("inner", 2, 2)}
    assert len(seen) < 30 + looks


def doubled(x, n=6, progress="loop"):
    return bellhop.for_loop(0, n, 1, progress=progress)(lambda i, y: 2 * y)(x)


XS = jnp.arange(1.0, 4.0)

# A function, its arguments, the right value, and how often it loops forward.
TRANSFORMED = {
    "vmap": (jax.vmap(doubled), (XS,), 64 * XS, 1),
    "grad": (jax.grad(doubled), (1.5,), 64.0, 1),
    "value_and_grad": (lambda x: jax.value_and_grad(doubled)(x)[1], (1.5,), 64.0, 1),
    "jvp": (lambda x: jax.jvp(doubled, (x,), (x,))[1], (1.5,), 96.0, 1),
    "vmap of grad": (jax.vmap(jax.grad(doubled)), (XS,), 64.0 * jnp.ones(3), 1),
    "grad of vmap": (
        jax.grad(lambda xs: jax.vmap(doubled)(xs).sum()),
        (XS,),
        64.0 * jnp.ones(3),
        1,
    ),
    "hessian": (jax.hessian(lambda x: doubled(x) ** 2), (1.5,), 2 * 64.0**2, 1),
    "checkpoint": (jax.grad(jax.checkpoint(doubled)), (1.5,), 64.0, 1),
    "jit": (jax.jit(doubled), (1.5,), 96.0, 1),
    "cond": (lambda x: jax.lax.cond(x > 0, doubled, lambda x: x, x), (1.5,), 96.0, 1),
    "cond not taken": (lambda x: jax.lax.cond(x > 2, doubled, lambda x: x, x), (1.5,), 1.5, 0),
    "vmap of length": (
        jax.vmap(lambda n: doubled(1.0, n)),
        (jnp.array([2, 6, 3]),),
        jnp.array([4.0, 64.0, 8.0]),
        1,
    ),
}


@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_loops_have_one_bar(name, compiler, shown):
    function, args, expected, times = TRANSFORMED[name]
    np.testing.assert_allclose(compiler(function)(*args), expected)
    assert [line[:2] for line in shown(wait=True)] == [("loop", 6)] * times


@pytest.mark.parametrize("transform", ["vmap", "grad", "checkpoint"])
def test_transformed_bodies_have_one_bar(transform, shown):
    def f(x):
        body = bellhop.progress(5, "body")(lambda c, _: (c * x, None))
        return jax.lax.scan(body, 1.0, None, length=5)[0]

    functions = {
        "vmap": jax.vmap(f),
        "grad": jax.vmap(jax.grad(f)),
        "checkpoint": jax.vmap(jax.grad(jax.checkpoint(f))),
    }
    expected = XS**5 if transform == "vmap" else 5 * XS**4
    np.testing.assert_allclose(bellhop.qjit(functions[transform])(XS), expected)
    assert shown() == [("body", 5, 5)]


def test_shard_map_counts_one_device(shown):
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("i",))
    spec = jax.sharding.PartitionSpec("i")

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    def f(xs):
        return doubled(xs)

    np.testing.assert_allclose(f(jnp.arange(4.0)), 64 * np.arange(4.0))
    assert [line[:2] for line in shown(wait=True)] == [("loop", 6)]


def test_in_a_circuit(shown):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def f(x):
        bellhop.for_loop(0, 4, 1, progress="gates")(lambda i: qml.RX(x, wires=0))()
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(f(0.1), np.cos(0.4))
    np.testing.assert_allclose(bellhop.qjit(jax.grad(f))(0.1), -4 * np.sin(0.4))
    assert [line[:2] for line in shown()] == [("gates", 4)] * 2


def test_in_a_region(shown):
    region = bellhop.accelerate(doubled, dev=jax.devices("cpu")[1])
    assert bellhop.qjit(region)(1.0) == 64
    assert shown() == [("loop", 6, 6)]


def test_is_refused_on_devices_that_cannot_show_it():
    region = bellhop.accelerate(doubled, dev=jax.devices("cpu")[1])
    with (
        delegated_everywhere(),
        pytest.raises(bellhop.CompileError, match=r"loop \(at .*test_progress.py:\d+\)"),
    ):
        bellhop.qjit(region)(1.0)


def test_loops_outside_of_programs(shown):
    assert doubled(1.0) == 64
    assert summed(5) == 10
    assert bellhop.while_loop(lambda x: x < 5, progress="while")(lambda x: x + 1)(0) == 5
    assert shown() == [("loop", 6, 6), ("sum", 5, 5), ("while", 5, 5)]


def test_loops_of_python(shown):
    assert list(bellhop.progress(range(3), "three")) == [0, 1, 2]
    assert list(bellhop.progress(iter("ab"), "two")) == ["a", "b"]
    assert shown() == [("three", 3, 3), ("two", 2, None)]


def test_a_decorated_body_in_a_loop_of_python(shown):
    body = bellhop.progress(3, "body")(lambda x: x + 1)
    for _ in range(2):
        for i in range(3):
            assert body(i) == i + 1
    assert shown() == [("body", 3, 3)] * 2


@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_an_exception_closes_the_bar(compiler, shown):
    def fail(i):
        if i == limit:
            raise KeyError("stop")
        return float(i)

    f = compiler(
        lambda: bellhop.for_loop(0, 9, 1, progress="fails")(
            lambda i, x: x + bellhop.pure_callback(fail, float)(i)
        )(0.0)
    )
    limit = 5
    with pytest.raises(KeyError, match="stop"):
        f()
    ((name, count, total),) = shown(wait=True)
    assert (name, total) == ("fails", 9)
    assert count <= 5
    limit = 10
    assert f() == 36
    assert shown(wait=True) == [("fails", 9, 9)]


def test_a_failing_circuit_closes_the_bar(shown):
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def f(wire):
        bellhop.for_loop(0, 4, 1, progress="gates")(lambda i: qml.RX(0.1, wires=wire + i))()
        return qml.expval(qml.Z(0))

    with pytest.raises(Exception, match="wire"):
        f(jnp.array(0))
    assert [line[0] for line in shown()] == ["gates"]


def test_threads_have_a_bar_each(shown):
    def wait(i):
        time.sleep(0.01)
        return float(i)

    @bellhop.qjit
    def f(x):
        def body(i, x):
            return x + bellhop.io_callback(wait, float)(i)

        return bellhop.for_loop(0, 5, 1, progress="thread")(body)(x)

    results = []
    run_at_once(*[lambda: results.append(float(f(0.0)))] * 4)
    assert results == [10.0] * 4
    assert sorted(shown(wait=True)) == [("thread", 5, 5)] * 4


def test_a_bar_does_not_outlive_its_function():
    def make():
        f = bellhop.qjit(lambda: summed(3))
        f()
        (callback,) = f._table.callbacks
        return weakref.ref(f)

    dropped = make()
    wait_for_taps()
    gc.collect()
    assert dropped() is None


def test_saved_programs_have_bars(tmp_path, shown):
    bellhop.qjit(lambda: summed(4))
    f = bellhop.qjit(lambda: summed(4))
    f()
    f.save(tmp_path / "f")
    assert bellhop.load(tmp_path / "f")() == 6
    assert shown() == [("sum", 4, 4)] * 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bellhop.progress(None), TypeError, "while_loop"),
        (lambda: bellhop.progress(2.5), TypeError, "2.5"),
        (lambda: bellhop.progress(True), TypeError, "True"),
        (lambda: bellhop.progress(-1), ValueError, "-1"),
        (lambda: bellhop.progress(3, 4), TypeError, "description is a string"),
        (lambda: bellhop.for_loop(0, 3, 1, progress=True)(lambda i: None)(), TypeError, "string"),
        (lambda: bellhop.while_loop(bool, progress=1)(lambda i: None)(0), TypeError, "string"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


_SLOW = """
    import sys, time, bellhop

    def wait(i):
        # Long enough to be told of each.
        time.sleep(0.01)
        if i % 20 == 10 and len(sys.argv) > 1:
            sys.stdin.readline()
        return float(i)

    @bellhop.qjit
    def f():
        def body(i, x):
            return x + bellhop.io_callback(wait, float)(i)

        return bellhop.for_loop(0, 80, 1, progress="slow")(body)(0.0)

    f()
"""


def test_a_file_gets_the_end_alone(run_script, tmp_path):
    script = (
        _SLOW
        + f"""
    sys.stderr = open({str(tmp_path / "log")!r}, "w")
    start = time.monotonic()
    f()
    print(time.monotonic() - start)
    """
    )
    seconds = float(run_script(script))
    log = (tmp_path / "log").read_text()
    assert lines(log) == [("slow", 80, 80)]
    # And a line every ten seconds, should the machine be that slow.
    assert log.count("slow") <= 1 + seconds // 9


def test_a_terminal_sees_it_move():
    pty = pytest.importorskip("pty")
    import fcntl
    import termios

    try:
        ours, theirs = pty.openpty()
    except OSError:  # as in a container without /dev/pts
        pytest.skip("this machine has no pseudo-terminals")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-c", textwrap.dedent(_SLOW), "stops"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""

    def read():
        nonlocal seen
        assert select.select([ours], [], [], PATIENCE)[0], seen
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that nobody writes there any more
            part = b""
        seen += part
        return part

    def counts():
        return [int(count) for count in re.findall(rb"\| (\d+)/80", seen)]

    try:
        # Where it stops, it goes on when that was seen.
        for stop in (10, 30, 50, 70):
            while stop not in counts():
                assert read(), seen
            child.stdin.write(b"\n")
            child.stdin.flush()
        while read():
            pass
        assert child.wait(PATIENCE) == 0
    finally:
        child.kill()
        child.stdin.close()
        os.close(ours)
    assert counts() == sorted(counts())
    assert counts()[-1] == 80
    assert seen.count(b"\n") == 1


def test_without_64_bit_types(run_script):
    script = """
    import bellhop

    def summed(n):
        return bellhop.for_loop(0, n, 1, progress="x")(lambda i, t: t + i)(0)

    def counted(n):
        return bellhop.while_loop(lambda i: i < n, progress="x")(lambda i: i + 1)(0)

    assert bellhop.qjit(lambda: summed(40))() == bellhop.qjit(summed)(40) == 780
    assert bellhop.qjit(counted)(9) == 9
    """
    run_script(script, BELLHOP_X64="0")
