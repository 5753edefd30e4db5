"""What does not need a region runs beside it: shown by events that each waits for."""

import gc
import re
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import TWO_GPUS
from tests.patience import PATIENCE, run_at_once

import bellhop
from bellhop_runtime import live_sessions, pending_regions


@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


def test_region_and_circuits_overlap():
    """The region waits for the circuits to get to the middle, and they for the region."""
    in_region, in_circuits = threading.Event(), threading.Event()
    overlapped = []

    @bellhop.pure_callback
    def region_waits(x) -> float:
        in_region.set()
        overlapped.append(in_circuits.wait(PATIENCE))
        return float(x)

    @bellhop.pure_callback
    def between_circuits(x) -> float:
        in_circuits.set()
        overlapped.append(in_region.wait(PATIENCE))
        return float(x)

    far = bellhop.accelerate(lambda x: region_waits(x) * 2, dev="cpu:1")

    @bellhop.qjit
    def program(x):
        first = circuit(x)
        second = circuit(between_circuits(first))
        return second + far(x)

    expected = np.cos(np.cos(0.3)) + 0.6
    for _ in range(3):
        np.testing.assert_allclose(program(0.3), expected)
        in_region.clear()
        in_circuits.clear()
    assert overlapped == [True] * 6
    assert pending_regions() == 0


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    """Programs that keep their stages write them where they run."""
    monkeypatch.chdir(tmp_path)


def stages(function, *arguments):
    f = bellhop.qjit(function, keep_intermediate=True)
    value = f(*arguments)
    return value, bellhop.debug.get_compilation_stage(f, "overlap-calls")


def long_sine(x):
    # Long enough to run beside something.
    return jnp.sin(x) + 0 * jnp.sum(jnp.cos(jnp.arange(2e5)))


far = bellhop.accelerate(lambda x: long_sine(x), dev="cpu:1")

OVERLAPPING = {
    "region first": lambda x: far(x) + circuit(x),
    "region last": lambda x: circuit(x) * far(2 * x),
    "glue on both sides": lambda x: jnp.sum(far(x * jnp.ones(3)) * 2) + circuit(x),
    "gradient": jax.grad(lambda x: far(x) + circuit(x)),
    "vmap": lambda x: jnp.sum(jax.vmap(circuit)(x + jnp.arange(3.0))) + far(x),
    "two regions, two circuits": lambda x: far(x) + circuit(x) + circuit(2 * x) + far(3 * x),
    "in a conditional": lambda x: jax.lax.cond(x > 0, circuit, lambda x: x, x) + far(x),
}


@pytest.mark.parametrize("function", OVERLAPPING.values(), ids=OVERLAPPING)
def test_values_of_programs_that_overlap(function):
    value, text = stages(function, 0.3)
    assert 'kind = "start"' in text
    assert 'kind = "done"' in text
    with pytest.MonkeyPatch.context() as patch:
        # PennyLane and JAX without us: the region in place.
        patch.setitem(globals(), "far", jnp.sin)
        patch.setitem(globals(), "circuit", plain_circuit)
        np.testing.assert_allclose(value, function(0.3), rtol=1e-8)


def plain_circuit(x):
    return jnp.cos(x)


def meeting(n):
    """Return n functions, each of which waits until all of them are under way."""
    barrier = threading.Barrier(n)

    def meet(x) -> float:
        barrier.wait(PATIENCE)
        return float(x)

    return [bellhop.pure_callback(meet, vmap_method="sequential") for _ in range(n)]


def region_with(callback, dev="cpu:1"):
    return bellhop.accelerate(lambda x: callback(x) * 2, dev=dev)


TOGETHER = {
    "straight": lambda f, g, x: f(x) + g(x),
    "in a loop": lambda f, g, x: jax.lax.fori_loop(0, 3, lambda i, v: f(v) + g(v) - 3 * v + x, x),
    "in a scan": lambda f, g, x: (
        jax.lax.scan(lambda v, y: (f(v) + g(y) - v - 2 * y, v), x, jnp.arange(3.0))[0] + 3 * x
    ),
    "in a conditional": lambda f, g, x: jax.lax.cond(x > 0, lambda x: f(x) + g(x), lambda x: x, x),
    "in a function": lambda f, g, x: jax.jit(lambda x: f(x) + g(x))(x),
}


@pytest.mark.parametrize("function", TOGETHER.values(), ids=TOGETHER)
def test_regions_that_cannot_be_one_run_at_once(function):
    """One of them waits for a callback, beside which the other runs."""
    a, b = meeting(2)
    far, later = region_with(a), region_with(b)
    same = bellhop.pure_callback(lambda x: x, float, vmap_method="sequential")
    value = bellhop.qjit(lambda x: function(far, lambda x: later(same(x)), x))(0.5)
    np.testing.assert_allclose(value, 2.0)
    assert pending_regions() == 0


@pytest.mark.parametrize("function", TOGETHER.values(), ids=TOGETHER)
def test_region_and_callback_run_at_once(function):
    a, b = meeting(2)
    far = region_with(a)
    value = bellhop.qjit(lambda x: function(far, lambda x: 2 * b(x), x))(0.5)
    np.testing.assert_allclose(value, 2.0)
    assert pending_regions() == 0


def test_region_and_callback_with_effect_run_at_once():
    a, b = meeting(2)
    seen = []

    @bellhop.io_callback(ordered=True)
    def tells(x) -> float:
        seen.append(float(x))
        return float(b.__wrapped__(x))

    far = region_with(a)

    @bellhop.qjit
    def program(x):
        bellhop.debug.callback(seen.append, "before", ordered=True)
        y = far(x)
        z = tells(x)
        bellhop.debug.callback(seen.append, "after", ordered=True)
        return y + z

    assert program(0.5) == 1.5
    assert seen == ["before", 0.5, "after"]


def test_backward_passes_of_regions_and_callbacks_run_at_once():
    a, b = meeting(2)

    def doubled(callback):
        @jax.custom_vjp
        def f(x):
            return x * 2

        f.defvjp(lambda x: (f(x), x), lambda x, dy: (callback(dy) * 2,))
        return f

    far, near = bellhop.accelerate(doubled(a), dev="cpu:1"), doubled(b)
    assert bellhop.qjit(jax.grad(lambda x: far(x) + near(x)))(0.5) == 4.0


HOST = {
    "matrix product": lambda x: jnp.sum(jnp.full((300, 300), x) @ jnp.full((300, 300), x)),
    "loop": lambda x: jax.lax.while_loop(lambda v: v < 50, lambda v: v + x, x),
    "large array": lambda x: jnp.sum(jnp.sin(jnp.arange(3e5) * x)),
    "sort": lambda x: jnp.sort(jnp.cos(jnp.arange(1e4) * x))[7],
    "linear algebra": lambda x: jnp.sum(jnp.linalg.qr(jnp.full((80, 80), x))[1]),
}


@pytest.mark.parametrize("host", HOST.values(), ids=HOST)
def test_host_code_is_done_beside_a_region(host):
    value, text = stages(lambda x: far(x) + host(x), 0.3)
    np.testing.assert_allclose(value, np.sin(0.3) + host(0.3), rtol=1e-8)
    start, beside, wait = (
        text.index(part) for part in ('kind = "start"', "call @main_beside", 'kind = "done"')
    )
    assert start < beside < wait


APART = {
    "region feeds circuit": lambda x: circuit(far(x)),
    "circuit feeds region": lambda x: far(circuit(x)),
    "nothing else": lambda x: far(x),
    "nothing that takes long": lambda x: far(x) + jnp.sin(x),
}


@pytest.mark.parametrize("function", APART.values(), ids=APART)
def test_programs_without_overlap(function):
    _, text = stages(function, 0.3)
    assert 'kind = "start"' not in text


def test_exception_in_a_region_that_overlaps():
    exception = LookupError("inside")

    def broken(x) -> float:
        raise exception

    inner = bellhop.pure_callback(broken)
    f = bellhop.accelerate(lambda x: inner(x) + 1, dev="cpu:1")
    program = bellhop.qjit(lambda x: f(x) + circuit(x))
    for _ in range(2):
        with pytest.raises(LookupError) as caught:
            program(0.3)
        assert caught.value is exception
        assert any("on cpu:1, called from" in note for note in exception.__notes__)
    assert pending_regions() == live_sessions() == 0
    exception.__traceback__ = None


def test_exception_beside_a_region_drops_it():
    raises = [True]

    @bellhop.pure_callback
    def sometimes(x) -> float:
        if raises[0]:
            raise LookupError("beside")
        return float(x)

    program = bellhop.qjit(lambda x: circuit(sometimes(circuit(x))) + far(x))
    for _ in range(3):
        with pytest.raises(LookupError, match="beside"):
            program(0.3)
        gc.collect()
        assert pending_regions() == live_sessions() == 0
    raises[0] = False
    np.testing.assert_allclose(program(0.3), np.cos(np.cos(0.3)) + np.sin(0.3))


def test_many_threads():
    program = bellhop.qjit(lambda x: far(x) + circuit(x))
    program(0.0)
    results = {}

    def run(i):
        for _ in range(20):
            results[i] = float(program(float(i)))

    run_at_once(*(partial(run, i) for i in range(8)))
    for i in range(8):
        np.testing.assert_allclose(results[i], np.sin(i) + np.cos(i))
    assert pending_regions() == 0


def test_devices_that_launch_without_waiting(monkeypatch):
    """A CPU device that is treated like a GPU: no thread, inputs moved before start returns."""
    monkeypatch.setattr("bellhop.compiler.regions.target_platform", lambda target: "gpu")
    monkeypatch.setattr("bellhop.compiler.regions._thread_pool", None)
    gpu = bellhop.accelerate(lambda x, y: (jnp.sin(x) + y, x), dev="cpu:1")

    @bellhop.qjit
    def program(x):
        y, same = gpu(x, 2 * x)
        return circuit(x) + y + same

    np.testing.assert_allclose(program(0.3), np.cos(0.3) + np.sin(0.3) + 0.9)
    assert pending_regions() == 0


@pytest.mark.gpu
def test_region_in_a_region_on_a_gpu_stays_whole(gpu):
    """A program for a GPU calls the host by JAX's callbacks, which have no halves."""
    same = bellhop.pure_callback(lambda x: x, float)
    outer = bellhop.accelerate(lambda x: far(x) + same(x), dev=gpu)
    np.testing.assert_allclose(bellhop.qjit(lambda x: outer(x))(0.3), np.sin(0.3) + 0.3)


@pytest.mark.gpu
def test_regions_of_two_gpus_are_under_way_at_once():
    gpus = jax.devices("gpu")
    if len(gpus) < 2:
        TWO_GPUS.skip()
    first, second = (bellhop.accelerate(lambda x: long_sine(x), dev=gpu) for gpu in gpus[:2])
    value, text = stages(lambda x: first(x) + second(2 * x), 0.3)
    np.testing.assert_allclose(value, np.sin(0.3) + np.sin(0.6))
    halves = re.findall('kind = "(start|done)"', text)
    assert halves == ["start", "start", "done", "done"]
    assert pending_regions() == 0


@pytest.mark.gpu
def test_callbacks_in_regions_of_two_gpus_may_wait_for_each_other():
    """A program that calls Python may run in the thread that starts it, on a GPU too."""
    gpus = jax.devices("gpu")
    if len(gpus) < 2:
        TWO_GPUS.skip()
    first, second = map(region_with, meeting(2), gpus[:2])
    assert bellhop.qjit(lambda x: first(x) + second(x))(0.5) == 2.0
    assert pending_regions() == 0


@pytest.mark.gpu
def test_callback_in_a_region_of_a_gpu_may_wait_for_one_of_the_host(gpu):
    inside, beside = meeting(2)
    far = region_with(inside, gpu)
    assert bellhop.qjit(lambda x: far(x) + 2 * beside(x))(0.5) == 2.0
    assert pending_regions() == 0
