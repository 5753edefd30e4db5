"""Dropping the last reference to a program frees what it captured."""

import contextlib
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

pytestmark = pytest.mark.usefixtures("short_collections")


class Witness:
    """What a user's function may capture."""

    value = 1.0


def pure(witness):
    callback = bellhop.pure_callback(lambda x: x * witness.value, float)
    return lambda x: callback(x)


def pure_with_rules(witness):
    callback = bellhop.pure_callback(lambda x: x * witness.value, float)
    callback.fwd(lambda x: (callback(x), witness.value))
    callback.bwd(lambda r, dy: r * dy * witness.value)
    return jax.value_and_grad(callback)


def debug(witness):
    return lambda x: (bellhop.debug.callback(lambda v: witness)(x), x)[1]


def closure(witness):
    return lambda x: x * witness.value


def here(witness):
    return bellhop.accelerate(lambda x: jnp.sin(x) * witness.value)


def elsewhere(witness):
    return bellhop.accelerate(lambda x: jnp.sin(x) * witness.value, dev="cpu:1")


def callback_elsewhere(witness):
    return bellhop.accelerate(pure(witness), dev="cpu:1")


def raised(witness):
    def callback(x):
        if x == 1:
            raise LookupError(witness)
        return x

    return lambda x: bellhop.pure_callback(callback, float)(x)


def looped(witness):
    return lambda x: jax.lax.fori_loop(0, 3, lambda i, v: pure(witness)(v), x)


def mapped(witness):
    return lambda x: jax.vmap(pure(witness))(jnp.ones(3) * x)


def branched(witness):
    return lambda x: jax.lax.cond(x > 0, pure(witness), debug(witness), x)


def itself(witness):
    """A callback that captures the program that calls it."""

    def callback(n):
        return 1.0 if n < 1 else float(program(n - 1)) * witness.value

    program = bellhop.qjit(lambda n: bellhop.pure_callback(callback, float)(n))
    return program


MAKERS = [
    pure, pure_with_rules, debug, closure, here, elsewhere, callback_elsewhere,
    raised, looped, mapped, branched, itself,
]  # fmt: skip


# JAX's own caches keep the loops and branches of eager programs.
EAGER = [pure, pure_with_rules, debug, raised]


@pytest.mark.parametrize(
    ("form", "make"),
    [(bellhop.qjit, make) for make in MAKERS] + [(lambda f: f, make) for make in EAGER],
    ids=[f"qjit-{make.__name__}" for make in MAKERS] + [f"eager-{m.__name__}" for m in EAGER],
)
def test_captured_objects_are_freed(make, form):
    witness = Witness()
    reference = weakref.ref(witness)
    program = form(make(witness))
    for value in (1.0, 2.0, jnp.float32(1)):
        with contextlib.suppress(LookupError, TypeError):
            program(value)
    del program, witness
    gc.collect()
    assert reference() is None


@pytest.mark.memory
def test_ten_thousand_closures_leave_nothing():
    callbacks = weakref.WeakSet()

    def make(i):
        def function(x):
            return i * x

        callbacks.add(function)
        return bellhop.pure_callback(function, float)

    for i in range(10_000):
        assert make(i)(1.0) == i
    for i in range(50):
        assert bellhop.qjit(make(i))(1.0) == i
    gc.collect()
    assert len(callbacks) == 0


def test_exceptions_leave_nothing_behind():
    errors = weakref.WeakSet()

    class Failure(Exception):
        pass

    def function(x):
        error = Failure(x)
        errors.add(error)
        raise error

    f = bellhop.qjit(lambda x: bellhop.pure_callback(function, float)(x))
    for _ in range(50):
        with pytest.raises(Failure):
            f(1.0)
    gc.collect()
    assert len(errors) == 0


def test_call_with_an_argument_on_its_way_waits_for_its_callbacks():
    # JAX copies large arrays that are not aligned on a thread of its own.
    value = np.ones(300_001)[1:]
    for _ in range(5):
        seen = []
        bellhop.qjit(lambda x, seen=seen: bellhop.debug.callback(seen.append)(x[0]))(value)
        assert seen == [1.0]


def test_exception_of_a_call_with_an_argument_on_its_way_is_raised_by_the_call():
    def fail(x):
        raise KeyError("late")

    for _ in range(5):
        f = bellhop.qjit(bellhop.pure_callback(fail, float))
        with pytest.raises(KeyError, match="late"):
            f(np.ones(300_001)[1:])
