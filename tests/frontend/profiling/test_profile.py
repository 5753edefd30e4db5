"""Profiles: what is counted, against what the functions themselves saw."""

import gc
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.profiling.profiled import (
    FLAVOURS,
    HERE,
    circuit,
    find_line,
    ignore,
    looped,
    slow,
)
from tests.needs import PYTORCH, TWO_GPUS
from tests.patience import PATIENCE, join, run_at_once, wait_until

import bellhop
from bellhop.compiler.jax_callback_lowering import delegate_everywhere


def by_kind(profile):
    """Return the rows but those of compilation, which a process makes once, by kind."""
    return {row.kind: row for row in profile.rows if row.kind != "compilation"}


@pytest.mark.parametrize("kind", FLAVOURS)
def test_callbacks(kind):
    f = looped(FLAVOURS[kind])
    f(1.0)
    with bellhop.profile() as p:
        f(1.0)
        f(2.0)
    row = by_kind(p)[kind]
    back = 0 if kind == "callback" else 8 * 10
    assert (row.calls, row.failed, row.bytes_out, row.bytes_in) == (10, 0, 8 * 10, back)
    assert 0 < row.median <= row.total
    assert 0 <= row.waited < row.total
    assert row.definition.startswith(HERE)


def test_circuits_in_the_program_say_why_they_are():
    @qml.qnode(qml.device("default.mixed", wires=2))
    def noisy(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    @qml.qnode(qml.device("default.qubit", wires=1))
    def state(x):
        qml.RX(x, 0)
        return qml.state()

    f = bellhop.qjit(lambda x: (noisy(x), noisy(2 * x), state(x)))
    f(1.0)
    reasons = {
        "noisy": "default.mixed has no engine",
        "state": "the circuit returns a state, or a function of a state",
    }
    for text in (f.mlir, f.mlir_opt):
        for name, reason in reasons.items():
            assert f'["{name}", "default.' in text
            assert f'"in the program: {reason}' in text
    # What is compiled again runs once.
    jax.clear_caches()
    with bellhop.profile() as p:
        f(1.0)
        f(2.0)
    rows = {row.name: row for row in p.rows if row.kind.startswith("circuit, in the program: ")}
    assert {name: (row.calls, row.failed) for name, row in rows.items()} == {
        "noisy": (2, 0),
        "state": (2, 0),
    }
    assert all(reason in rows[name].kind for name, reason in reasons.items())


def test_times_and_lines():
    f = looped(slow)
    f(0.0)
    start = time.perf_counter()
    with bellhop.profile() as p:
        f(0.0)
    elapsed = time.perf_counter() - start
    rows = by_kind(p)
    row = rows["pure_callback"]
    assert row.name == "slow"
    assert row.definition == find_line(slow)
    assert row.site.startswith(HERE)
    assert 0.01 <= row.total <= elapsed
    assert 0.002 <= row.median <= row.total / 2
    assert row.total <= rows["program"].total <= elapsed
    assert [row.kind for row in p.rows[:2]] == ["program", "pure_callback"]


def test_taps():
    def body(x):
        bellhop.tap(seen.append, x)
        bellhop.debug.callback(ignore, asynchronous=True)(x, x)
        return x

    seen = []
    f = looped(body)
    f(0.0)
    bellhop.barrier_wait()
    seen.clear()
    with bellhop.profile() as p:
        f(0.0)
    rows = by_kind(p)
    assert len(seen) == 5
    for kind in ("tap", "tap call", "callback", "callback call"):
        assert rows[kind].calls == 5
        assert rows[kind].bytes_out == (80 if "callback" in kind else 40)


def test_regions():
    device = jax.devices("cpu")[1]
    region = bellhop.accelerate(lambda x: jnp.sin(x), dev=device)
    f = looped(region)
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
    rows = by_kind(p)
    calls = {kind: row.calls for kind, row in rows.items() if kind.startswith("region")}
    assert set(calls.values()) <= {1, 5}
    assert all(kind.startswith("region on cpu:1") for kind in calls)
    assert calls


@pytest.mark.parametrize("dev", ["cpu:1", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def test_bytes_that_regions_move(dev):
    """Not those of handles: what lies on the device, or stays there, does not cross."""
    platform, number = dev.split(":")
    device = jax.devices(platform)[int(number)]
    f = bellhop.accelerate(lambda w, x: jnp.tanh(w @ x), dev=device)
    g = bellhop.accelerate(lambda h, y: h * y, dev=device)
    program = bellhop.qjit(lambda w, x: g(h := f(w, x), circuit(jnp.sum(h))))
    w, x = np.ones((4, 4)), np.ones(4)
    moved = {}
    for place, there in {"host": w, "device": jax.device_put(w, device)}.items():
        program(there, x)
        with bellhop.profile() as p:
            program(there, x)
        rows = [row for row in p.rows if row.kind.startswith("region")]
        moved[place] = sum(row.bytes_out for row in rows), sum(row.bytes_in for row in rows)
    # What the circuit takes comes from there, and its value goes there.
    assert moved == {"host": (128 + 32 + 8, 2 * 32), "device": (32 + 8, 2 * 32)}


@pytest.mark.gpu
def test_bytes_from_one_gpu_to_another():
    """What lies on another device goes to the region's, as what the host has does."""
    if len(jax.devices("gpu")) < 2:
        TWO_GPUS.skip()
    first, second = jax.devices("gpu")[:2]
    x = jax.device_put(np.ones(8), first)

    def with_effects(x):
        bellhop.debug.callback(lambda x: None, x)
        return jnp.sin(x)

    def moved(function, device):
        f = bellhop.qjit(function, out_shardings=device)
        f(x)
        with bellhop.profile() as p:
            f(x)
        rows = [row for row in p.rows if row.kind.startswith("region")]
        return {(row.name, row.kind[-1]): (row.bytes_out, row.bytes_in) for row in rows}

    on = lambda function, device: bellhop.accelerate(function, dev=device)
    assert moved(on(jnp.sin, second), second) == {("sin", "1"): (64, 0)}
    assert moved(lambda x: x, second) == {("result", "1"): (64, 0)}
    assert moved(on(with_effects, first), first) == {
        ("with_effects", "0"): (0, 64),
        ("result", "0"): (64, 0),
    }
    assert moved(on(jnp.sin, first), second) == {("sin", "0"): (0, 64), ("result", "1"): (64, 0)}


def test_regions_beside_circuits():
    # A small region is not worth a start and a wait.
    turned = lambda x: jax.lax.fori_loop(0, 200_000, lambda _, angle: angle + 1e-5, x)
    region = bellhop.accelerate(turned, dev=jax.devices("cpu")[1])
    f = bellhop.qjit(lambda x: region(x) + circuit(x))
    np.testing.assert_allclose(f(0.3), 2.3 + np.cos(0.3))
    with bellhop.profile() as p:
        f(0.3)
    rows = by_kind(p)
    start, wait = rows["region on cpu:1 start"], rows["region on cpu:1 wait"]
    assert (start.calls, start.bytes_out, wait.calls, wait.bytes_in) == (1, 8, 1, 8)


@pytest.mark.parametrize(("engine", "ran"), [("auto", ", engine"), ("plugin", "")])
def test_circuits(engine, ran):
    f = bellhop.qjit(lambda x: circuit(x) + jax.grad(circuit)(x), engine=engine)
    f(0.3)
    with bellhop.profile() as p:
        f(0.3)
    rows = by_kind(p)
    once, derived = rows[f"circuit{ran}"], rows[f"circuit, derivative{ran}"]
    assert (once.name, once.calls, once.definition) == ("circuit", 1, find_line(circuit.func))
    assert derived.calls == 1
    assert once.bytes_in == 8
    assert 0 < once.total < rows["program"].total


def test_circuits_of_a_batch_and_in_plain_jit():
    f = jax.jit(jax.vmap(circuit))
    with bellhop.profile() as p:
        compiled = jax.jit(lambda xs: bellhop.qjit(jax.vmap(circuit))(xs))
        compiled(jnp.arange(4.0))
    assert by_kind(p)["circuit, engine"].calls == 4
    del f


def test_a_circuit_counts_its_device_alone():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def f(x):
        qml.RX(slow(x), wires=0)
        return qml.expval(qml.Z(0))

    f(0.1)
    with bellhop.profile() as p:
        f(0.1)
    rows = by_kind(p)
    assert rows["pure_callback"].total >= 0.002
    assert rows["circuit, engine"].total < rows["program"].total - 0.001


def test_outside_of_qjit():
    f = jax.jit(lambda x: slow(x))
    f(1.0)
    with bellhop.profile() as p:
        f(1.0)
        slow(1.0)
    assert sum(row.calls for row in p.rows if row.kind == "pure_callback") == 2
    assert "program" not in by_kind(p)


def test_delegated_callbacks():
    region = bellhop.accelerate(lambda x: slow(x), dev=jax.devices("cpu")[1])
    with delegate_everywhere():
        f = bellhop.qjit(region)
        f(1.0)
        with bellhop.profile() as p:
            f(1.0)
    assert by_kind(p)["pure_callback"].calls == 1


@PYTORCH.mark
def test_torch():
    import torch

    f = bellhop.qjit(bellhop.call_torch(torch.sin))
    f(jnp.ones(3))
    with bellhop.profile() as p:
        f(jnp.ones(3))
    row = by_kind(p)["call_torch"]
    assert (row.name, row.definition) == ("sin", row.site)
    assert (row.calls, row.bytes_out, row.bytes_in) == (1, 24, 24)


def test_compilation():
    call = bellhop.pure_callback(lambda x: x, float)
    with bellhop.profile() as p:
        bellhop.qjit(lambda x: call(x) + 1)(1.0)
    stages = {row.name: row for row in p.rows if row.kind == "compilation"}
    assert {"tracing", "lowering", "passes", "XLA"} <= set(stages)
    assert "run" not in stages
    program = by_kind(p)["program"]
    assert stages["tracing"].total < program.total
    assert program.name == "<lambda>"


def test_nested_profiles():
    f = looped(slow, 1)
    f(0.0)
    with bellhop.profile() as outer:
        f(0.0)
        with bellhop.profile() as inner:
            f(0.0)
        f(0.0)
    f(0.0)
    assert by_kind(outer)["pure_callback"].calls == 3
    assert by_kind(inner)["pure_callback"].calls == 1


def test_threads():
    f = looped(slow, 3)
    f(0.0)
    with bellhop.profile() as p:
        run_at_once(*[lambda: f(0.0)] * 4)
    rows = by_kind(p)
    assert (rows["program"].calls, rows["pure_callback"].calls) == (4, 12)


def test_waiting_for_the_gil_is_told():
    begins = threading.Event()

    def hold():
        begins.wait(PATIENCE)
        # One call of C, which lets nobody else have it for a while.
        sum(range(15_000_000))

    @bellhop.qjit
    def f(x):
        x = x + bellhop.io_callback(lambda _: begins.set() or 0.0, float)(x[0])
        for _ in range(4):
            x = jnp.sin(x)
        return slow(x.sum())

    x = jnp.ones(1_000_000)
    f(x)

    def waits():
        begins.clear()
        holder = threading.Thread(target=hold)
        holder.start()
        with bellhop.profile() as p:
            f(x)
        join([holder])
        row = by_kind(p)["pure_callback"]
        assert 0 <= row.waited < row.total
        return row.waited > 0.001

    # On a busy machine the other thread may be late.
    wait_until(waits)


def test_exceptions():
    @bellhop.pure_callback
    def fail(x) -> float:
        if x > 2:
            raise KeyError("x")
        return float(x)

    f = looped(fail)
    f(-10.0)
    with pytest.raises(KeyError), bellhop.profile() as p:
        f(1.0)
    rows = by_kind(p)
    assert (rows["pure_callback"].calls, rows["pure_callback"].failed) == (3, 1)
    assert rows["program"].failed == 1
    assert "(1 failed)" in str(p)


def test_a_circuit_that_fails():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def f(wire):
        qml.RX(0.1, wires=wire)
        return qml.expval(qml.Z(0))

    f(0)
    with bellhop.profile() as p, pytest.raises(Exception, match="wire"):
        f(7)
    f(0)
    assert by_kind(p)["circuit"].failed == 1


def test_functions_may_go():
    with bellhop.profile() as p:
        for _ in range(3):
            looped(bellhop.pure_callback(lambda x: x, float), 2)(0.0)
        gc.collect()
    assert sum(row.calls for row in p.rows if row.kind == "pure_callback") == 6


def test_outside_of_the_block_nothing_counts():
    f = looped(slow, 2)
    f(0.0)
    with bellhop.profile() as p:
        pass
    f(0.0)
    assert p.rows == []
    assert "kind" in str(p)


def test_while_it_is_open():
    f = looped(slow, 2)
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
        assert by_kind(p)["pure_callback"].calls == 2
        f(0.0)
        assert by_kind(p)["pure_callback"].calls == 4


def test_the_limit():
    f = looped(FLAVOURS["callback"], 20)
    f(0.0)
    with bellhop.profile(limit=5) as p:
        f(0.0)
    assert by_kind(p)["callback"].calls == 20
    assert len(p._host_calls()) == 5
    with pytest.raises(ValueError, match="-1"):
        bellhop.profile(limit=-1)


def test_a_profile_is_used_once():
    p = bellhop.profile()
    with p:
        pass
    with pytest.raises(RuntimeError, match=r"bellhop\.profile\(\)"), p:
        pass


def test_a_tapped_function_that_waits_does_not_hold_it_up():
    goes_on, waited = threading.Event(), []
    f = bellhop.qjit(lambda x: bellhop.tap(lambda x: waited.append(goes_on.wait(PATIENCE)), x))
    with bellhop.profile():
        f(0.0)
    assert waited == []
    goes_on.set()
    bellhop.barrier_wait()
    assert waited == [True]


def test_in_the_child_of_a_fork(run_script):
    script = """
    import os, warnings, bellhop
    warnings.simplefilter("ignore")
    with bellhop.profile() as p:
        child = os.fork()
        if child == 0:
            with bellhop.profile() as q:
                pass
            os._exit(len(q.rows))
        assert os.waitpid(child, 0)[1] == 0
    """
    run_script(script)
