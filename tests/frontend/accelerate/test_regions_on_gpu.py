"""Regions on a platform that is not the CPU: nesting, linear algebra, keys, types, and crossings.

The reference is JAX on the CPU, or NumPy.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import TWO_GPUS
from tests.standin.fixtures import Counts

import bellhop

pytestmark = pytest.mark.gpu
X = np.arange(4.0)


def on_gpu(function, **options):
    return bellhop.accelerate(function, dev="gpu", **options)


def on_host(function):
    def call(x):
        with jax.default_device(jax.devices("cpu")[0]):
            return jax.jit(function)(x)

    return call


@pytest.mark.parametrize(
    ("transform", "is_mapped"),
    [(lambda f: f, False), (jax.grad, False), (lambda f: jax.vmap(jax.grad(f)), True)],
)
def test_gpu_in_cpu_in_gpu(transform, is_mapped):
    def nested(place_gpu, place_cpu):
        inner = lambda x: jnp.sin(x) * jnp.max(jnp.linalg.eigvalsh(jnp.diag(jnp.stack([x, 2 * x]))))
        middle = place_cpu(lambda x: place_gpu(inner)(x) + jnp.linalg.det(jnp.eye(2) * x))
        return place_gpu(lambda x: 2 * middle(x) ** 2)

    host = lambda f: bellhop.accelerate(f, dev="cpu:0")
    argument = X + 1 if is_mapped else 1.5
    observed = bellhop.qjit(transform(nested(on_gpu, host)))(argument)
    expected = on_host(transform(nested(lambda f: f, lambda f: f)))(argument)
    np.testing.assert_allclose(observed, expected, rtol=1e-9)


@pytest.mark.parametrize("outside", ["alone", "in a loop"])
def test_gpu_in_cpu_in_gpu_that_calls_python(outside):
    """A device that runs one program at a time would wait for itself."""
    called = []
    note = bellhop.pure_callback(lambda x: (called.append(float(x)), x + 1)[1], float)
    # What the stand-in runs beside its caller, as a GPU runs all.
    long = lambda x: x + 0 * jnp.sum(jnp.sin(jnp.arange(1e4) + x))

    def function(place_gpu, place_cpu):
        inner = place_gpu(lambda x: long(note(long(2 * x))))
        middle = place_cpu(lambda x: jnp.sin(inner(x)))
        step = lambda i, x: 2 * middle(long(x))
        if outside == "alone":
            return place_gpu(lambda x: step(0, x))
        return place_gpu(lambda x: jax.lax.fori_loop(0, 3, step, x))

    observed = bellhop.qjit(function(on_gpu, lambda f: bellhop.accelerate(f, dev="cpu:0")))(1.0)
    calls, x = [], 1.0
    for _ in range(1 if outside == "alone" else 3):
        calls.append(2 * x)
        x = 2 * np.sin(2 * x + 1)
    np.testing.assert_allclose(observed, x)
    np.testing.assert_allclose(called, calls)


LINEAR_ALGEBRA = {
    "cholesky": jnp.linalg.cholesky,
    "eigh": lambda a: jnp.linalg.eigh(a)[0],
    "svd": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "qr": lambda a: jnp.abs(jnp.linalg.qr(a)[1]),
    "solve": lambda a: jnp.linalg.solve(a, a[0]),
    "expm": jax.scipy.linalg.expm,
    "gradient of a determinant": jax.grad(lambda a: jnp.linalg.slogdet(a)[1]),
}


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_linear_algebra(name):
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    matrix = matrix @ matrix.T + np.eye(4)
    function = LINEAR_ALGEBRA[name]
    observed = bellhop.qjit(on_gpu(function))(matrix)
    np.testing.assert_allclose(observed, on_host(function)(matrix), rtol=1e-9)


TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
TYPES += " complex64 complex128 int2 int4 uint4 float8_e4m3fn float8_e5m2 float4_e2m1fn"


def test_every_type_and_size_crosses():
    arrays = {
        f"{dtype} {shape}": jnp.ones(shape, dtype)
        for dtype in TYPES.split()
        for shape in ((), (3,), (0, 2))
    }
    given = {"a": arrays, "nothing": None, "empty": ()}
    returned = bellhop.qjit(on_gpu(lambda tree: tree))(given)
    assert jax.tree.structure(returned) == jax.tree.structure(given)
    for name, array in arrays.items():
        assert returned["a"][name].dtype == array.dtype
        np.testing.assert_array_equal(returned["a"][name], array)


@pytest.mark.parametrize("function", [lambda: {}, lambda: jnp.zeros((0,)), lambda: jnp.arange(3)])
def test_no_arguments_and_no_results(function):
    observed = bellhop.qjit(lambda: on_gpu(function)())()
    assert jax.tree.structure(observed) == jax.tree.structure(function())
    jax.tree.map(np.testing.assert_array_equal, observed, function())


def test_keys_and_random_numbers():
    def draw(key):
        first, second = jax.random.split(key)
        return first, jax.random.normal(second, (3,)), jax.random.bits(jax.random.key(7))

    key = jax.random.key(3)
    (first, *observed), (expected_key, *expected) = bellhop.qjit(on_gpu(draw))(key), draw(key)
    assert first.dtype == key.dtype
    np.testing.assert_array_equal(jax.random.key_data(first), jax.random.key_data(expected_key))
    for one, other in zip(observed, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_arguments_that_are_donated_or_committed_anywhere():
    f = bellhop.qjit(lambda x: on_gpu(lambda x: 2 * x, donate_argnums=0)(x) + x)
    for device in (*jax.devices("gpu"), *jax.devices("cpu")):
        argument = jax.device_put(X, device)
        np.testing.assert_array_equal(f(argument), 3 * X)
        np.testing.assert_array_equal(argument, X)


def test_argument_that_lies_on_the_gpu_stays_there(counts, gpu):
    f = on_gpu(lambda x: 2 * x)
    argument = jax.device_put(X, gpu)
    jax.block_until_ready(f(argument))
    with counts() as counted:
        result = jax.block_until_ready(f(f(argument)))
    assert counted == Counts(executions=2)
    assert result.devices() == {gpu}


WEIGHTS = np.arange(16.0).reshape(4, 4) / 16


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


# Of a function that is accelerated and an argument on the host.
CROSSING_ONCE = {
    "one region": lambda on, x: on(jnp.sin)(x),
    "chain": lambda on, x: on(jnp.cos)(2 * on(jnp.sin)(x)),
    "loop of regions": lambda on, x: jax.lax.fori_loop(0, 5, lambda i, x: on(jnp.sin)(x), x),
    "captured weights": lambda on, x: on(lambda x: jnp.tanh(WEIGHTS @ x))(x),
    "gradient": lambda on, x: jax.grad(lambda x: jnp.sum(on(jnp.sin)(x)))(x),
    "fed by a circuit": lambda on, x: on(jnp.sin)(circuit(x[1]) * np.ones(4)),
}


@pytest.mark.parametrize("name", CROSSING_ONCE)
def test_each_kind_of_program_crosses_once_each_way(name, counts):
    function = CROSSING_ONCE[name]
    f = bellhop.qjit(lambda x: function(on_gpu, x))
    f(X)
    with counts() as counted:
        result = f(X)
    assert counted == Counts(executions=1, to_device=1, to_host=1)
    if name == "fed by a circuit":
        expected = np.full(4, np.sin(np.cos(X[1])))
    else:
        expected = on_host(lambda x: function(lambda f: f, x))(X)
    np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_method():
    class Scale:
        factor = 3.0

        scaled = on_gpu(lambda self, x: self.factor * x)

    scale = Scale()
    np.testing.assert_array_equal(bellhop.qjit(lambda x: scale.scaled(x))(X), 3 * X)


def test_qjit_function_in_shard_map():
    devices = jax.devices("gpu")[:2]
    if len(devices) < 2:
        TWO_GPUS.skip()
    add = bellhop.pure_callback(lambda x: x + 1, jax.ShapeDtypeStruct((2,), np.float64))
    f = bellhop.qjit(lambda x: 2 * add(x))
    spec, mesh = jax.sharding.PartitionSpec("x"), jax.sharding.Mesh(np.array(devices), ("x",))
    over = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)
    for call in (over, jax.jit(over)):
        np.testing.assert_array_equal(call(X), 2 * (X + 1))


def test_second_gpu_as_default_device():
    devices = jax.devices("gpu")
    if len(devices) < 2:
        TWO_GPUS.skip()
    with jax.default_device(devices[1]):
        f = bellhop.accelerate(lambda x: 2 * x)
        assert f(jnp.asarray(X)).devices() == {devices[1]}
        np.testing.assert_array_equal(bellhop.qjit(lambda x: f(x))(X), 2 * X)
        np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(f(x)))(X), np.full(4, 2.0))


def test_native_and_linear_callbacks_are_called_on_the_host():
    cbrt = bellhop.native_callback(library="libm.so.6", symbol="cbrt", result_type=float)
    cbrt.jvp(lambda x, dx: (cbrt(x[0]), dx[0] / (3 * cbrt(x[0]) ** 2)))
    double = bellhop.pure_callback(lambda u: 2 * np.asarray(u), jax.ShapeDtypeStruct((4,), float))
    double = double.transpose(symmetric=True)
    region = on_gpu(lambda u: jnp.sum(jax.vmap(cbrt)(double(u)) ** 2))
    value, gradient = bellhop.qjit(jax.value_and_grad(region))(X + 1)
    expected, slope = jax.value_and_grad(lambda u: jnp.sum(jnp.cbrt(2 * u) ** 2))(X + 1)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
