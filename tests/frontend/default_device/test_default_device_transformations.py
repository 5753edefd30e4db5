"""Transformations of qjit functions where JAX's default device is a GPU: they run on the host."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pennylane as qml
import pytest
from tests.standin.fixtures import Counts

import bellhop

pytestmark = pytest.mark.gpu
X = np.array([0.3, 0.4])


def weighted(x):
    """Compute what ``circuit`` does, times a weight."""
    return x[1] ** 2 * jnp.cos(x[0]) * jnp.cos(2 * x[0])


@pytest.fixture
def f():
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(angle):
        qml.RX(angle, 0)
        qml.CNOT([0, 1])
        qml.RY(2 * angle, 1)
        return qml.expval(qml.Z(1))

    def square(x):
        return x**2

    squared = bellhop.pure_callback(square, jax.ShapeDtypeStruct((), float))
    squared.fwd(lambda x: (square(x), x))
    squared.bwd(lambda x, t: (2 * x * t,))
    return bellhop.qjit(lambda x: squared(x[1]) * circuit(x[0]))


ROWS = np.stack([X, 2 * X, 3 * X])
TRANSFORMATIONS = {
    "none": lambda f: f(X),
    "grad": lambda f: jax.grad(f)(X),
    "value_and_grad": lambda f: jax.value_and_grad(f)(X),
    "vmap": lambda f: jax.vmap(f)(ROWS),
    "jacrev": lambda f: jax.jacrev(f)(X),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(ROWS),
    "vjp": lambda f: jax.vjp(f, X)[1](2.0),
}


@pytest.fixture
def expected():
    """Evaluate a transformation of the reference on the CPU."""

    def evaluate(transformation):
        with jax.default_device(jax.devices("cpu")[0]):
            return jax.tree.map(np.asarray, transformation(jax.jit(weighted)))

    return evaluate


def assert_close(found, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_eager_transformation_runs_on_the_host(f, expected, is_on_host, name):
    transformation = TRANSFORMATIONS[name]
    result = transformation(f)
    # With operations of JAX's own around the function.
    assert is_on_host(result) or name == "jacrev"
    assert_close(result, expected(transformation))


def test_nothing_crosses_to_run_on_the_host(f, counts):
    both = jax.value_and_grad(f)
    both(X)
    with counts() as counted:
        f(X), jax.vmap(f)(ROWS)
    assert counted == Counts()
    with counts() as counted:
        jax.block_until_ready(both(X))
    # JAX makes the cotangent of the value where its default device is.
    assert counted.executions <= 1


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_program_of_jax_for_the_gpu_calls_the_host(f, gpu, expected, name):
    transformation = TRANSFORMATIONS[name]
    result = jax.jit(lambda: transformation(f))()
    assert all(leaf.devices() == {gpu} for leaf in jax.tree.leaves(result))
    assert_close(result, expected(transformation))


@pytest.mark.parametrize("derive", [jax.grad, bellhop.grad])
def test_derivative_in_a_program_of_jax(f, expected, derive):
    assert_close(jax.jit(derive(f))(X), expected(TRANSFORMATIONS["grad"]))


def test_arguments_on_the_gpu(f, gpu, expected, is_on_host):
    argument = jax.device_put(X, gpu)
    result = jax.value_and_grad(f)(argument)
    assert is_on_host(result)
    assert_close(result, expected(TRANSFORMATIONS["value_and_grad"]))
    assert_close(f(argument), weighted(X))


def test_steps_of_an_optimizer(f):
    def minimum(f):
        x, optimizer = jnp.asarray(X), optax.adam(0.1)
        state = optimizer.init(x)
        for _ in range(3):
            updates, state = optimizer.update(jax.grad(f)(x), state)
            x = optax.apply_updates(x, updates)
        return x

    assert_close(minimum(f), minimum(jax.jit(weighted)))


def test_control_flow_of_a_program_of_jax(f, expected):
    def program(f, x):
        def body(carry, row):
            value = jax.lax.cond(row[0] > 0.5, f, lambda row: row[1], row)
            return carry + value, value

        total, values = jax.lax.scan(body, 0.0, x)
        return jax.lax.fori_loop(0, 3, lambda i, total: total + f(jnp.asarray(x)[i]), total), values

    assert_close(jax.jit(lambda x: program(f, x))(ROWS), expected(lambda f: program(f, ROWS)))


def test_exception_in_a_program_of_jax_is_the_same_object(capfd, caplog):
    error = LookupError("nothing there")

    def look(x):
        raise error

    f = bellhop.qjit(bellhop.pure_callback(look, jax.ShapeDtypeStruct((), float)))
    for transformed in (f, jax.jit(f), jax.vmap(f, axis_size=2, in_axes=None)):
        with pytest.raises(LookupError) as raised, caplog.at_level(logging.DEBUG, "jax"):
            jax.block_until_ready(transformed(0.5))
        assert raised.value is error
    assert "Traceback" not in caplog.text + capfd.readouterr().err
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2


@pytest.mark.parametrize("kind", ["callback", "buffers", "region"])
def test_exception_of_a_later_call_in_a_program_of_jax_is_the_same_object(kind, gpu):
    error, fails = LookupError("nothing there"), [False]

    def look(x):
        if fails[0]:
            raise error
        return np.float64(x)

    def look_into(context, out, x):
        look(1.0)

    shape = jax.ShapeDtypeStruct((), float)
    called = bellhop.pure_callback(look, shape)
    if kind == "buffers":
        called = bellhop.buffer_callback(look_into, shape)
    if kind == "region":
        called = bellhop.qjit(bellhop.accelerate(called, dev=gpu))
    f = jax.jit(lambda x: called(x))
    f(0.5)
    fails[0] = True
    for _ in range(2):
        with pytest.raises(LookupError) as raised:
            jax.block_until_ready(f(0.5))
        assert raised.value is error
    fails[0] = False
    f(0.5)


def test_samples_in_a_program_of_jax_are_new_each_time():
    @qml.qnode(qml.device("lightning.qubit", wires=1), shots=64)
    def circuit():
        qml.Hadamard(0)
        return qml.sample(wires=0)

    f = jax.jit(bellhop.qjit(circuit))
    first, second = np.asarray(f()), np.asarray(f())
    assert set(np.unique(first)) == {0, 1}
    assert not np.array_equal(first, second)


def test_ordered_calls_around_a_circuit_in_a_program_of_jax(f):
    seen = []

    def note(x):
        seen.append(float(x))
        return np.float64(x)

    noted = bellhop.io_callback(note, jax.ShapeDtypeStruct((), float), ordered=True)

    @bellhop.qjit
    def program(x):
        return noted(f(noted(x[0]) * jnp.ones(2))) + noted(x[1])

    expected = [X[0], float(weighted(X[0] * np.ones(2))), X[1]]
    assert_close(jax.jit(program)(X), expected[1] + expected[2])
    np.testing.assert_allclose(seen, expected)
