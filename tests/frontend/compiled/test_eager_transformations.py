"""Compiled functions under transformations outside of any program: traced and compiled once."""

import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback

import bellhop

SCALAR = jax.ShapeDtypeStruct((), jnp.float64)

X = jnp.array([0.3, -0.4, 0.5])


def in_a_circuit(x):
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x[0] * x[1], wires=0)
        qml.RY(x[2], wires=0)
        return qml.expval(qml.Z(0))

    return circuit(x)


def of_a_circuit(x):
    return jnp.cos(x[0] * x[1]) * jnp.cos(x[2])


def in_a_loop(x):
    return bellhop.for_loop(0, 5, 1)(lambda i, y: jnp.sin(y) + x * y)(x).sum()


def of_a_loop(x):
    y = x
    for _ in range(5):
        y = jnp.sin(y) + x * y
    return y.sum()


def squared():
    call = bellhop.pure_callback(lambda x: x * x, float)
    call.fwd(lambda x: (call(x), x))
    call.bwd(lambda x, dy: 2 * x * dy)
    return call


def in_a_callback(x):
    return jnp.sum(jax.vmap(SQUARED)(x))


SQUARED = squared()

REVERSE = {
    "grad": lambda f: jax.grad(f)(X),
    "value_and_grad": lambda f: jax.value_and_grad(f)(X),
    "vjp": lambda f: jax.vjp(f, X)[1](1.0),
    "jacrev": lambda f: jax.jacrev(f)(X),
    "vmap": lambda f: jax.vmap(f)(jnp.stack([X, 2 * X])),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(jnp.stack([X, 2 * X])),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum())(jnp.stack([X, 2 * X])),
    "bellhop.grad": lambda f: bellhop.grad(f)(X),
    "jit of vjp": lambda f: jax.jit(jax.vjp(f, X)[1])(1.0),
}
FORWARD = {
    "jvp": lambda f: jax.jvp(f, (X,), (jnp.ones(3),)),
    "jacfwd": lambda f: jax.jacfwd(f)(X),
    "hessian": lambda f: jax.hessian(f)(X),
    "linearize": lambda f: jax.linearize(f, X)[1](jnp.ones(3)),
}
CASES = [
    pytest.param(function, reference, transformations, id=function.__name__)
    for function, reference, transformations in (
        (in_a_circuit, of_a_circuit, REVERSE | FORWARD),
        (in_a_loop, of_a_loop, REVERSE | FORWARD),
        (in_a_callback, lambda x: jnp.sum(x * x), REVERSE),
    )
]


@pytest.mark.large
@pytest.mark.parametrize(("function", "reference", "transformations"), CASES)
def test_functions_are_traced_and_compiled_once(function, reference, transformations, compilations):
    traces = []

    def counted(x):
        traces.append(x)
        return function(x)

    f = bellhop.qjit(counted)
    for transform in transformations.values():
        expected = transform(reference)
        transform(f)
        compiled, traced = len(compilations), len(traces)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), transform(f), expected
        )
        # jax.vjp makes another function of each call, so jax.jit of it knows none of them.
        assert transform is REVERSE["jit of vjp"] or len(compilations) == compiled
        assert len(traces) == traced
    assert len(traces) == 1


@pytest.fixture
def compilations():
    """Count what XLA compiles."""
    seen = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def test_signatures_and_static_arguments_are_told_apart():
    f = bellhop.qjit(lambda x, n, *, power: n * x**power, static_argnums=1, static_argnames="power")
    for _ in range(2):
        assert jax.grad(f)(2.0, 1, power=3) == 12
        assert jax.grad(f)(2.0, 5, power=2) == 20
        assert jax.grad(f)(np.float32(2), 1, power=2).dtype == np.float32
        assert jax.grad(f)(jnp.float64(2), 1, power=2).weak_type is False
        assert jax.grad(f)(2.0, 1, power=2).weak_type is True


def test_what_is_no_array_is_refused_by_name():
    f = bellhop.qjit(lambda x, mode: x)
    with pytest.raises(TypeError, match="the argument mode is of type str, which is not an array"):
        jax.grad(f)(1.0, "fast")
    with pytest.raises(TypeError, match="the result is of type str, which is not an array"):
        jax.grad(bellhop.qjit(lambda x: "text"))(1.0)


def test_values_of_transformations_around_are_captured():
    def outer(w):
        return jax.grad(bellhop.qjit(lambda x: w * x**2))(3.0)

    assert jax.grad(outer)(2.0) == 6
    np.testing.assert_allclose(jax.vmap(outer)(jnp.arange(3.0)), [0, 6, 12])


def test_effects_and_exceptions_of_each_call():
    seen, failure = [], KeyError("mine")

    def look(x):
        seen.append(float(x))
        if x > 2:
            raise failure

    @bellhop.qjit
    def f(x):
        bellhop.debug.callback(look)(x)
        return SQUARED(x)

    for _ in range(2):
        assert jax.grad(f)(1.0) == 2
        with pytest.raises(KeyError) as raised:
            jax.grad(f)(3.0)
        assert raised.value is failure
    assert seen == [1.0, 3.0] * 2


JAX_CALLBACK_PRIMITIVES = {
    "pure_callback": lambda f, x: jax.pure_callback(f, SCALAR, x, vmap_method="sequential"),
    "io_callback": lambda f, x: io_callback(f, SCALAR, x),
    "debug.callback": lambda f, x: jax.debug.callback(f, x, ordered=True) or x,
    "buffer_callback": lambda f, x: buffer_callback(
        lambda _, out, x: f(np.asarray(x)), SCALAR, vmap_method="sequential"
    )(x),
}


@pytest.mark.parametrize("call", JAX_CALLBACK_PRIMITIVES.values(), ids=JAX_CALLBACK_PRIMITIVES)
def test_exceptions_of_callbacks_of_jax_are_those_of_users(call):
    raised = []

    def fails(x):
        raised.append(KeyError(float(x)))
        raise raised[-1]

    @bellhop.qjit
    def f(x):
        return 2 * x + call(fails, jax.lax.stop_gradient(x))

    ways = [
        f,
        jax.grad(f),
        lambda x: jax.jvp(f, (x,), (1.0,)),
        lambda x: jax.vmap(f)(jnp.full(1, x)),
    ]
    for way in ways * 2:
        with pytest.raises(KeyError) as caught:
            jax.block_until_ready(way(0.5))
        assert caught.value is raised[-1]
    # Where no program of ours calls it, all is as JAX does it.
    for way in (jax.jit(f), lambda x: jax.jit(jax.vmap(f))(jnp.full(1, x))):
        with pytest.raises(jax.errors.JaxRuntimeError, match="KeyError: 0.5"):
            jax.block_until_ready(way(0.5))


def test_circuits_that_fail_raise_what_they_raise_elsewhere():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x, wire):
        qml.RX(x, wires=wire)
        return qml.expval(qml.Z(1))

    # JAX runs the first in Python, and later ones in C++, which raises ValueError.
    for _ in range(4):
        np.testing.assert_allclose(jax.grad(circuit)(0.3, 1), -np.sin(0.3))
        with pytest.raises(bellhop.CircuitError, match="circuit"):
            jax.grad(circuit)(0.3, 9)


def test_callbacks_that_differentiate_their_function_themselves_or_in_other_threads():
    def here(x):
        return float(jax.grad(f)(x - 1)) if x > 0 else 1.0

    def elsewhere(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(here(x)))
        thread.start()
        thread.join()
        return found[0]

    for function in (here, elsewhere):
        call = bellhop.pure_callback(lambda x, function=function: function(x), float)
        call.fwd(lambda x, call=call: (call(x), None))
        call.bwd(lambda _, dy: 2 * dy)
        f = bellhop.qjit(lambda x, call=call: call(x))
        for _ in range(2):
            assert jax.grad(f)(2.0) == 2


class Witness:
    """What a callback captures."""


def called_by_its_callback(witness):
    def call(x):
        return x if (f, witness) else x

    callback = bellhop.pure_callback(call, float, vmap_method="sequential")
    f = bellhop.qjit(lambda x: callback(x))
    return f


def test_a_function_that_its_callback_refers_to_is_freed():
    witness = Witness()
    freed = weakref.ref(witness)
    f = called_by_its_callback(witness)
    for _ in range(2):
        jax.vmap(f)(jnp.ones(2))
    # A collection keeps what was called since the one before.
    gc.collect()
    assert f._transformed._jit is not None
    del f, witness
    for _ in range(3):
        gc.collect()
    assert freed() is None


def test_gates_of_a_compiled_function_in_an_uncompiled_circuit():
    @bellhop.qjit
    def rotate(x):
        qml.RX(x, wires=0)

    @qml.qnode(qml.device("default.qubit", wires=1))
    def circuit(x):
        rotate(x)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(jax.grad(circuit)(0.3), -np.sin(0.3))
