"""Arguments of a program that regions take where they lie: on a GPU, on the host, of Python's."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import TWO_GPUS
from tests.standin.fixtures import Counts

import bellhop
from bellhop.devices.devices import resolve_target

W, X = np.arange(12.0).reshape(3, 4) / 7, np.arange(4.0)


def layer(w, x):
    return jnp.tanh(w @ x)


def on(device, function=layer, **options):
    return bellhop.accelerate(function, dev=device, **options)


def loss(f):
    return lambda w, x: jnp.sum(f(w, x) ** 2)


def shared(f):
    """A region takes the weights in each iteration, and a callback stands between."""
    half = bellhop.pure_callback(lambda x: x / 2, jax.ShapeDtypeStruct((4,), np.float64))

    def function(w, x):
        step = lambda i, x: half(jnp.sum(f(w, x)) * x)
        return f(w, jax.lax.fori_loop(0, 3, step, x))

    return function


def twice(f):
    half = bellhop.pure_callback(lambda y: y / 2, jax.ShapeDtypeStruct((3,), np.float64))
    return lambda w, x: f(w, x) + f(w, half(f(w, x))[0] * jnp.arange(4.0))


# A function of what is accelerated, then, with all arguments on the GPU, how many arrays go there,
# come back, and how often something runs.
PROGRAMS = {
    "region": (lambda f: f, (0, 1, 1)),
    "pytree": (lambda f: lambda *tree: f(**{"w": {"a": tree}["a"][0], "x": tree[1]}), (0, 1, 1)),
    "value and gradient": (lambda f: jax.value_and_grad(loss(f), (0, 1)), (0, 3, 1)),
    "batch": (lambda f: jax.vmap(f, (None, 1), 1), (0, 1, 1)),
    "gradients of a batch": (
        lambda f: jax.vmap(jax.grad(loss(f)), (None, 1)),
        (0, 1, 1),
    ),
    "loop": (lambda f: lambda w, x: jax.lax.fori_loop(0, 3, lambda i, v: f(w, v)[:1] * x, x), None),
    # The callback's array goes there for each step, and what the loop begins with comes here.
    "loop with a callback": (shared, (4, 5, 4)),
    "function of JAX's": (lambda f: twice(jax.jit(lambda w, x: f(w, x))), (1, 2, 2)),
    # The barrier of jax.checkpoint keeps the two regions apart.
    "checkpoint": (lambda f: jax.grad(loss(jax.checkpoint(lambda w, x: f(w, x)))), (1, 2, 2)),
    "host takes it too": (lambda f: lambda w, x: f(w, x) + jnp.sin(x)[:3], (0, 2, 1)),
}
BATCHED = {"batch", "gradients of a batch"}


def arguments(name):
    return W, np.stack([X, X + 1], 1) if name in BATCHED else X


def expected(function, *args):
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.jit(function(layer))(*args)


def compare(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), one, other)


PLACES = {
    "numpy": lambda x, device: x,
    "host": lambda x, device: jax.device_put(x, jax.devices("cpu")[0]),
    "there": jax.device_put,
    "default there": lambda x, device: _by_default(x, device),
}


def _by_default(x, device):
    with jax.default_device(device):
        return jnp.asarray(x) + 0


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_wherever_arguments_lie(name, place, other):
    device = jax.devices("cpu")[1]
    function, _ = PROGRAMS[name]
    f = bellhop.qjit(function(on(other)))
    args = arguments(name)
    for _ in range(2):
        compare(f(*(PLACES[place](x, device) for x in args)), expected(function, *args))


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["there", "default there"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_goes_to_the_host_and_back(name, place, gpu, counts):
    function, least = PROGRAMS[name]
    f = bellhop.qjit(function(on(gpu)))
    args = arguments(name)
    f(*args)
    for _ in range(2):
        lying = jax.block_until_ready([PLACES[place](x, gpu) for x in args])
        with counts() as counted:
            result = jax.block_until_ready(f(*lying))
        compare(result, expected(function, *args))
        if least is not None:
            assert (counted.to_device, counted.to_host, counted.executions) == least
        assert not any(x.is_deleted() for x in lying)


@pytest.mark.gpu
def test_which_arguments_are_taken_is_the_default_device_s_matter(gpu):
    """A region without ``dev`` takes what lies on a GPU by the one, and by the other the host."""
    host = jax.devices("cpu")[0]
    f = bellhop.qjit(lambda w, x: 2 * bellhop.accelerate(layer)(w, x))
    there = jax.device_put(W, gpu)
    elsewhere = [jax.device_put(X, device) for device in (host, jax.devices("gpu")[-1])]
    with jax.default_device(host):
        f(W, X)
    for default in (gpu, host, gpu):
        with jax.default_device(default):
            for w in (W, there):
                for x in (X, *elsewhere):
                    np.testing.assert_allclose(f(w, x), 2 * np.tanh(W @ X), rtol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("later", ["gpu", "cpu"])
def test_compiled_ahead_of_time_by_another_default_device(later, gpu, counts):
    """It is the program of when it was lowered, and takes what that takes."""
    f = bellhop.qjit(lambda w, x: 2 * bellhop.accelerate(layer)(w, x))
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    by_device = {}
    for name in ("gpu", "cpu"):
        with jax.default_device(jax.devices(name)[0]):
            by_device[name] = f.lower(W, X).compile()
    with jax.default_device(jax.devices(later)[0]):
        with counts() as counted:
            result = jax.block_until_ready(by_device["gpu"](w, x))
        for each in (result, by_device["cpu"](w, x)):
            np.testing.assert_allclose(each, 2 * np.tanh(W @ X), rtol=1e-9)
    # Neither argument comes to the host: the region's result alone.
    assert (counted.to_device, counted.to_host, counted.executions) == (0, 1, 1)


@pytest.mark.gpu
def test_first_call_moves_nothing_either(gpu, counts):
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    f = bellhop.qjit(on(gpu))
    with counts() as counted:
        compare(f(w, x), expected(lambda f: f, W, X))
    # The handle of the region's table.
    assert (counted.to_device, counted.to_device_bytes, counted.to_host) == (1, 8, 1)


@pytest.mark.gpu
def test_host_fetches_once_what_several_take(gpu, counts):
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    f = bellhop.qjit(lambda w, x: on(gpu)(w, x + 1) + on(gpu, lambda x: 2 * x)(x)[:3] + x[:3])
    f(w, x)
    y = jax.block_until_ready(jax.device_put(X + 1, gpu))
    with counts() as counted:
        f(w, y)
    # x, and two results; x + 1 goes there.
    assert (counted.to_device, counted.to_host) == (1, 3)


@pytest.mark.gpu
def test_array_on_another_gpu(gpu, counts):
    if len(jax.devices("gpu")) < 2:
        TWO_GPUS.skip()
    f = bellhop.qjit(on(gpu))
    w, x = jax.device_put(W, jax.devices("gpu")[1]), jax.device_put(X, gpu)
    f(w, x)
    with counts() as counted:
        compare(f(w, x), expected(lambda f: f, W, X))
    assert counted == Counts(executions=1, between_devices=1, to_host=1)


@pytest.mark.gpu
def test_sharded_arguments_stay_on_their_devices(counts):
    devices = jax.devices("gpu")[:2]
    if len(devices) < 2:
        TWO_GPUS.skip()
    spec, mesh = jax.sharding.PartitionSpec("x"), jax.sharding.Mesh(np.array(devices), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, spec)
    f = bellhop.qjit(on(sharding, lambda x: 2 * x))
    x = jax.block_until_ready(jax.device_put(X, sharding))
    f(x)
    with counts() as counted:
        np.testing.assert_array_equal(f(x), 2 * X)
    assert (counted.to_device, counted.to_host) == (0, 2)


@pytest.mark.gpu
def test_key_on_the_gpu(gpu, counts):
    f = bellhop.qjit(on(gpu, lambda key: jax.random.uniform(key, (3,))))
    key = jax.block_until_ready(jax.device_put(jax.random.key(3), gpu))
    f(key)
    with counts() as counted:
        result = f(key)
    np.testing.assert_allclose(result, jax.random.uniform(jax.random.key(3), (3,)))
    assert (counted.to_device, counted.to_host) == (0, 1)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("donated", [0, 1, (0, 1)])
def test_donated_arguments(donated, place, other):
    """The program may overwrite one before a region takes it: here the second."""
    device = resolve_target(other)
    function = lambda f: lambda w, x: jnp.sin(x) * jnp.sum(f(w, jnp.cos(x)) + f(w, x))
    f = bellhop.qjit(function(on(other)), donate_argnums=donated)
    for _ in range(3):
        compare(f(*(PLACES[place](x, device) for x in (W, X))), expected(function, W, X))


def test_donated_state_of_a_loop(other):
    """Results of one step are the arguments of the next."""
    scale = on(other, lambda w: 0.5 * jnp.sin(w))
    step = lambda f: lambda w: jnp.cos(w) * f(w)
    f, w = bellhop.qjit(step(scale), donate_argnums=0), X
    for _ in range(4):
        w = f(w)
    reference = X
    for _ in range(4):
        reference = expected(lambda _: step(lambda w: 0.5 * jnp.sin(w)), reference)
    compare(w, reference)


@pytest.mark.parametrize("options", [{}, {"static_argnums": 3}])
def test_callback_that_writes_into_an_argument(options, other):
    """The program has it as it was when it was called."""
    x = X.copy()

    def overwrite(y):
        x[:] = 100
        return y

    write = bellhop.pure_callback(overwrite, jax.ShapeDtypeStruct((), np.float64))
    scale = on(other, lambda y, x: y * x)
    f = bellhop.qjit(lambda w, x, y, n: on(other)(w, x) + n * scale(write(y), x)[:3], **options)
    for _ in range(3):
        x[:] = X
        compare(f(W, x, 1.0, 2), expected(lambda f: lambda w, x: f(w, x) + 2 * x[:3], W, X))


def test_function_that_calls_itself_with_other_arguments(other):
    """Each run of a program has its own arguments."""
    scale = on(other, lambda x: 3 * x)

    def again(y):
        return np.asarray(0.0 if y > 3 else f(y + 1))

    f = bellhop.qjit(lambda x: scale(x) + bellhop.pure_callback(again, float)(x) + scale(x + 0.5))

    def reference(x):
        return 3 * x + (0.0 if x > 3 else reference(x + 1)) + 3 * (x + 0.5)

    for _ in range(2):
        assert float(f(1.0)) == reference(1.0)


def test_calls_from_many_threads(other):
    f = bellhop.qjit(on(other))
    results = {}

    def call(i):
        for _ in range(5):
            results[i] = np.asarray(f(W, X + i))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in results.items():
        compare(result, expected(lambda f: f, W, X + i))


SCALARS = {"bool": True, "int": 3, "float": 2.5, "complex": 1 + 2j, "NumPy": np.float32(1.5)}


@pytest.mark.parametrize("name", SCALARS)
def test_numbers_of_python(name, other):
    f = bellhop.qjit(on(other, lambda x: x * 2))
    observed, reference = f(SCALARS[name]), expected(lambda _: lambda x: x * 2, SCALARS[name])
    assert (observed.dtype, observed) == (reference.dtype, reference)


def test_other_ways_to_run_a_program(other, tmp_path):
    def function(w, n, *, x):
        return on(other)(w, x) * n

    reference = 2 * expected(lambda f: f, W, X)
    f = bellhop.qjit(function)
    compare(f.lower(W, 2.0, x=X).compile()(W, 2.0, x=X), reference)
    compare(f(W, 2.0, x=X), reference)
    compare(bellhop.qjit(function, static_argnums=1)(W, 2, x=X), reference)

    for compiled in (False, True):
        f.save(tmp_path / "program", compiled=compiled)
        loaded = bellhop.load(tmp_path / "program", trust=True)
        for _ in range(2):
            compare(loaded(W, 2.0, x=X), reference)

    @bellhop.qjit
    def declared(w: jax.ShapeDtypeStruct((3, 4), float), x: jax.ShapeDtypeStruct((4,), float)):
        return on(other)(w, x)

    for _ in range(2):
        compare(declared(W, X.astype(int)), expected(lambda f: f, W, X))


@pytest.mark.gpu
def test_compiled_ahead_of_time_for_arguments_on_the_gpu(gpu, counts):
    function, _ = PROGRAMS["host takes it too"]
    w, x = jax.device_put((W, X), gpu)
    f = bellhop.qjit(function(on(gpu))).lower(w, x).compile()
    f(w, x)
    x = jax.block_until_ready(x + 1)
    with counts() as counted:
        result = f(w, x)
    compare(result, expected(function, W, X + 1))
    # The host's x, and the result of the region.
    assert (counted.to_device, counted.to_host) == (0, 2)


def test_argument_that_nothing_uses(other):
    f = bellhop.qjit(lambda w, unused, x: on(other)(w, x))
    for _ in range(2):
        compare(f(W, {"a": [1.0, X]}, X), expected(lambda f: f, W, X))


@pytest.mark.parametrize("mapped", [jax.jit, lambda f: jax.jit(jax.vmap(f))], ids=["jit", "vmap"])
def test_a_circuit_that_a_program_of_jax_takes_in_has_no_arguments(mapped):
    """Its program is called with none: only a call of a qjit function has some."""
    seen = []

    def doubled(x):
        bellhop.debug.callback(lambda x: seen.append(float(x)))(x)
        return 2 * x

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(bellhop.accelerate(doubled, dev="cpu:1")(x), wires=0)
        return qml.expval(qml.Z(0))

    x = np.full([1][: mapped is not jax.jit], 0.3)
    np.testing.assert_allclose(mapped(bellhop.qjit(circuit))(x), np.cos(2 * x), atol=1e-12)
    jax.effects_barrier()
    assert seen == [0.3]
