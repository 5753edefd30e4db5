"""Regions run beside circuits that do not need them: shown by events that each waits for."""

import gc
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
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
    return value, bellhop.debug.get_compilation_stage(f, "overlap-regions")


far = bellhop.accelerate(lambda x: jnp.sin(x), dev="cpu:1")

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


APART = {
    "region feeds circuit": lambda x: circuit(far(x)),
    "circuit feeds region": lambda x: far(circuit(x)),
    "no circuit": lambda x: far(x),
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
    monkeypatch.setattr("bellhop.compiler.regions.is_delegated", lambda platform: False)
    monkeypatch.setattr("bellhop.compiler.regions._threads", None)
    gpu = bellhop.accelerate(lambda x, y: (jnp.sin(x) + y, x), dev="cpu:1")

    @bellhop.qjit
    def program(x):
        y, same = gpu(x, 2 * x)
        return circuit(x) + y + same

    np.testing.assert_allclose(program(0.3), np.cos(0.3) + np.sin(0.3) + 0.9)
    assert pending_regions() == 0
