"""Tracebacks that users see: their own frames, unless they ask for all."""

import os
import traceback

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest

import bellhop

OURS = os.path.dirname(bellhop.__file__) + os.sep
JAXS = os.path.dirname(jax.__file__) + os.sep


def fail(x):
    raise KeyError("here")


@bellhop.pure_callback
def failing(x) -> float:
    return fail(x)


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(fail(x), wires=0)
    return qml.expval(qml.Z(0))


def in_loop(x):
    return bellhop.for_loop(0, 3, 1)(lambda i, y: fail(y))(x)


# Where it fails, and what does.
FAILING = {
    "traced": (lambda: bellhop.qjit(fail)(1.0), "fail"),
    "in a loop": (lambda: bellhop.qjit(in_loop)(1.0), "fail"),
    "in a circuit": (lambda: bellhop.qjit(circuit)(1.0), "fail"),
    "in a region": (lambda: bellhop.qjit(bellhop.accelerate(fail))(1.0), "fail"),
    "under grad": (lambda: bellhop.qjit(bellhop.grad(fail))(1.0), "fail"),
    "autograph": (lambda: bellhop.qjit(in_loop, autograph=True)(1.0), "ag__fail"),
    "in a callback": (lambda: bellhop.qjit(lambda x: failing(x))(1.0), "fail"),
    "in plain jit": (lambda: jax.jit(lambda x: failing(x))(1.0), "fail"),
    "in a nested qjit": (lambda: bellhop.qjit(lambda x: bellhop.qjit(fail)(x))(1.0), "fail"),
}


def frames(call, error=KeyError):
    with pytest.raises(error) as caught:
        call()
    return traceback.extract_tb(caught.value.__traceback__)


@pytest.fixture
def filtering():
    before = jax.config.jax_traceback_filtering
    yield lambda mode: jax.config.update("jax_traceback_filtering", mode)
    jax.config.update("jax_traceback_filtering", before)


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("mode", ["remove_frames", "quiet_remove_frames"])
def test_internal_frames_are_hidden(name, mode, filtering):
    filtering(mode)
    call, innermost = FAILING[name]
    seen = frames(call)
    hidden = [frame for frame in seen if frame.filename.startswith((OURS, JAXS))]
    assert hidden == []
    assert seen[-1].name == innermost


@pytest.mark.parametrize("name", ["traced", "in a callback"])
def test_all_frames_are_there_where_asked_for(name, filtering):
    filtering("off")
    seen = frames(FAILING[name][0])
    assert any(frame.filename.startswith(OURS) for frame in seen)
    assert seen[-1].name == "fail"


def test_errors_of_ours_end_at_the_users_call(filtering):
    filtering("quiet_remove_frames")

    def loop(x):
        return bellhop.for_loop(0, 3, 1)(lambda i, y: jnp.ones(2))(x)

    seen = frames(lambda: bellhop.qjit(loop)(1.0), TypeError)
    assert [frame.name for frame in seen][-1] == "loop"
    assert not any(frame.filename.startswith((OURS, JAXS)) for frame in seen)


def test_later_calls_work_and_fail_alike():
    f = bellhop.qjit(lambda x: failing(x))
    assert len(frames(lambda: f(1.0))) == len(frames(lambda: f(1.0)))


def test_an_attribute_that_is_missing_costs_no_file_system(monkeypatch):
    """JAX asks for attributes that a qjit function lacks each time that it transforms one."""
    f = bellhop.qjit(lambda x: x)
    assert not hasattr(f, "missing")
    monkeypatch.setattr(os.path, "samefile", pytest.fail)
    assert not hasattr(f, "missing")
    assert jax.grad(f)(2.0) == 1
