"""Later calls of a circuit in a plain ``jax.jit`` are C++ calls that keep exceptions."""

import gc
import math
import types
import weakref

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest
from jax._src import pjit  # noqa: TID251

import bellhop
from bellhop._jax.patches.plain_jit_calls import _PlainCall


class UserError(Exception):
    pass


@bellhop.qjit
@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


@pytest.fixture
def slow_calls(monkeypatch):
    """The programs that JAX runs in Python."""
    seen = []
    run = pjit._pjit_call_impl_python

    def count(*args, **params):
        seen.append(params["name"])
        return run(*args, **params)

    monkeypatch.setattr(pjit, "_pjit_call_impl_python", count)
    return seen


def test_later_calls_leave_jax_python(slow_calls):
    call = jax.jit(lambda x: (circuit(x), {"twice": 2 * x}))
    xs = [jnp.asarray(0.1 * i) for i in range(6)]
    run = lambda: [(float(value), float(rest["twice"])) for value, rest in map(call, xs)]
    found = run()
    slow_calls.clear()  # The first calls compile and fill caches.
    assert run() == found
    assert not slow_calls
    assert found[2] == pytest.approx((math.cos(0.2), 0.4))


def test_exceptions_stay_whole_in_later_calls(slow_calls):
    error = UserError("no", 7)
    error.add_note("a note")

    def check(x):
        if x < 0:
            raise error
        return x

    checked = bellhop.pure_callback(check, float)
    call = jax.jit(lambda x: circuit(checked(x)))
    good, bad = jnp.asarray(0.3), jnp.asarray(-0.3)
    for _ in range(4):
        call(good)
    slow_calls.clear()
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            call(bad)
        assert caught.value is error
        assert caught.value.__notes__[0] == "a note"
        assert caught.value.__context__ is None
        assert call(good) == pytest.approx(math.cos(0.3))
    assert not slow_calls


def test_deleted_functions_are_freed():
    def identity(x):
        return x

    call = jax.jit(bellhop.pure_callback(identity, float))
    for _ in range(4):
        call(1.0)
    freed = weakref.ref(identity)
    del call, identity
    jax.clear_caches()
    gc.collect()
    assert freed() is None


def test_donated_and_checked_calls_stay_correct():
    call = jax.jit(lambda x, y: circuit(x) + y, donate_argnums=1)
    for _ in range(4):
        assert call(jnp.asarray(0.0), jnp.asarray(1.0)) == 2
    root = jax.jit(lambda x: jnp.sqrt(circuit(x)))
    for _ in range(3):
        root(jnp.asarray(0.1))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="invalid value"):
        root(jnp.asarray(3.0))


def test_value_errors_of_compilation_keep_their_type():
    """Only the C++ call's own ValueError is the text of a failed execution."""
    error = ValueError("incompatible devices")

    def fail(*_):
        raise error

    params = {"jaxpr": types.SimpleNamespace(out_avals=[None]), "name": "f", "inline": False}
    call = _PlainCall(fail, params)
    with pytest.raises(ValueError, match="incompatible devices") as raised:
        call.run(types.SimpleNamespace(params=params), [1.0])
    assert raised.value is error
