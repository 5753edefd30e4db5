"""Results that the caller asks for on a device: what crosses, where they lie, and their values."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import TWO_GPUS
from tests.standin.fixtures import Counts

import bellhop
from bellhop.devices.devices import resolve_target
from bellhop_runtime import pending_regions

W, X = np.arange(16.0).reshape(4, 4) / 7, np.arange(4.0)
HALF = bellhop.pure_callback(lambda x: x / 2, jax.ShapeDtypeStruct((4,), np.float64))


def layer(w, x):
    return jnp.tanh(w @ x)


def loss(f):
    return lambda w, x: jnp.sum(f(w, x) ** 2)


def step(f):
    """Gradient descent: what stands behind the region is cheap, and goes there too."""

    def function(w, x):
        value, (dw, _) = jax.value_and_grad(loss(f), (0, 1))(w, x)
        return {"value": value, "w": w - 0.1 * dw}

    return function


def descent(f):
    """What a loop carries from region to region stays on the device, whatever else it does."""
    return lambda w, x: jax.lax.fori_loop(0, 3, lambda i, c: (f(c[0], c[0]), HALF(c[1])), (w, x))


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x[1], 0)
    return qml.expval(qml.Z(0))


# A function of what is accelerated; where its results are asked for ("there" is the GPU); and, with
# all arguments on the GPU, how many arrays go there, come back, and how often something runs.
PROGRAMS = {
    "region": (lambda f: f, "there", (0, 0, 1)),
    "cheap behind": (lambda f: lambda w, x: 2 * f(w, x) + x, "there", (0, 0, 1)),
    "gradient": (lambda f: jax.grad(loss(f)), "there", (0, 0, 1)),
    "step": (step, "there", (0, 0, 1)),
    "value here": (step, {"value": None, "w": "there"}, (0, 1, 1)),
    "one of two": (lambda f: lambda w, x: (f(w, x), f(w, f(w, x))), (None, "there"), (0, 1, 1)),
    "here and there": (
        lambda f: lambda w, x: (lambda y: (y, y, [y]))(f(w, x)),
        ("there", None, ["there"]),
        # It is copied there.
        (0, 1, 2),
    ),
    "batch": (lambda f: lambda w, x: jax.vmap(f, (None, 0))(w, w), "there", (0, 0, 1)),
    "loop": (
        lambda f: lambda w, x: jax.lax.fori_loop(0, 3, lambda i, v: f(w, v), x),
        "there",
        (0, 0, 1),
    ),
    "loop with a callback": (descent, ("there", None), (0, 1, 3)),
    "all of a loop": (descent, "there", (1, 1, 3)),
    "argument": (lambda f: lambda w, x: (x, {"w": w}), "there", (0, 0, 2)),
    "host": (lambda f: lambda w, x: jnp.sort(x), "there", (1, 1, 0)),
    "circuit": (lambda f: lambda w, x: circuit(x), "there", (1, 1, 0)),
    "circuit of a region": (lambda f: lambda w, x: circuit(f(w, x)), "there", (1, 1, 1)),
    "region of a circuit": (lambda f: lambda w, x: f(w, circuit(x) * X), "there", (1, 1, 1)),
}


def expected(name):
    function, *_ = PROGRAMS[name]
    with jax.default_device(jax.devices("cpu")[0]):
        return bellhop.qjit(function(layer))(W, X)


def asked(name, device):
    _, where, _ = PROGRAMS[name]
    is_leaf = lambda value: value is None
    return jax.tree.map(lambda each: each and device, where, is_leaf=is_leaf)


def compare(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), one, other)


def assert_lies(result, where, device):
    """Hold each result against where it was asked for."""
    host = jax.devices("cpu")[0]
    of_each = jax.tree.broadcast(where, result, is_leaf=lambda value: value is None)
    for leaf, place in zip(
        jax.tree.leaves(result),
        jax.tree.leaves(of_each, is_leaf=lambda value: value is None),
        strict=True,
    ):
        assert leaf.devices() == {device if place else host}
        if place:
            assert leaf.committed


@pytest.fixture(autouse=True)
def nothing_stays_held():
    """Whoever called a program owns what it returned, and the run nothing any more."""
    yield
    assert pending_regions() == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, dev):
    device, (function, where, _) = resolve_target(dev), PROGRAMS[name]
    f = bellhop.qjit(function(bellhop.accelerate(layer, dev=dev)), out_shardings=asked(name, dev))
    for _ in range(2):
        result = f(W, X)
        assert_lies(result, where, device)
        compare(result, expected(name))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_crosses_that_need_not(name, gpu, counts):
    function, _, least = PROGRAMS[name]
    f = bellhop.qjit(function(bellhop.accelerate(layer, dev=gpu)), out_shardings=asked(name, gpu))
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    f(w, x)
    for _ in range(2):
        w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
        with counts() as counted:
            result = jax.block_until_ready(f(w, x))
        assert (counted.to_device, counted.to_host, counted.executions) == least
        compare(result, expected(name))


@pytest.mark.gpu
def test_parameters_never_leave_the_gpu(gpu, counts):
    """Results of one call are arguments of the next, as in a loop of optax."""
    f = bellhop.qjit(step(bellhop.accelerate(layer, dev=gpu)), out_shardings=gpu)
    w, x = jax.device_put((W, X), gpu)
    w = jax.block_until_ready(f(w, x)["w"])
    with counts() as counted:
        for _ in range(5):
            w = f(w, x)["w"]
        jax.block_until_ready(w)
    assert counted == Counts(executions=5)
    reference, plain = jnp.asarray(W), jax.jit(step(layer))
    for _ in range(6):
        reference = plain(reference, X)["w"]
    np.testing.assert_allclose(w, reference)


@pytest.mark.gpu
def test_eager_region_stays_on_the_gpu(gpu, counts):
    """As a jax.jit function of arguments there does, outside of qjit."""
    f = bellhop.accelerate(layer, dev=gpu)
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    f(w, x)
    with counts() as counted:
        result = jax.block_until_ready(f(w, x))
    assert (counted, result.devices()) == (Counts(executions=1), {gpu})


@pytest.mark.gpu
def test_other_gpu_than_that_of_the_region(gpu, counts):
    if len(jax.devices("gpu")) < 2:
        TWO_GPUS.skip()
    second = jax.devices("gpu")[1]
    f = bellhop.qjit(bellhop.accelerate(layer, dev=gpu), out_shardings=second)
    w, x = jax.block_until_ready(jax.device_put((W, X), gpu))
    f(w, x)
    with counts() as counted:
        result = jax.block_until_ready(f(w, x))
    assert result.devices() == {second}
    # As from a region of one to a region of the other: by way of the host.
    assert counted == Counts(executions=1, to_device=1, to_host=1)
    compare(result, expected("region"))


@pytest.mark.gpu
def test_sharded_results_stay_in_their_parts(counts):
    devices = jax.devices("gpu")[:2]
    if len(devices) < 2:
        TWO_GPUS.skip()
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = bellhop.qjit(
        lambda x: 2 * bellhop.accelerate(jnp.sin, dev=sharding)(x), out_shardings=sharding
    )
    x = jax.block_until_ready(jax.device_put(X, sharding))
    f(x)
    with counts() as counted:
        result = jax.block_until_ready(f(x))
    assert (counted.to_device, counted.to_host, result.sharding) == (0, 0, sharding)
    np.testing.assert_allclose(result, 2 * np.sin(X))


def test_sharding_of_host_devices():
    devices = jax.devices("cpu")[:2]
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = bellhop.qjit(lambda x: (x, jnp.sin(x)), out_shardings=(None, sharding))
    here, there = f(X)
    assert (here.devices(), there.sharding) == ({devices[0]}, sharding)
    np.testing.assert_allclose(there, np.sin(X))
    for misfit in (np.arange(3.0), 3.0):
        with pytest.raises(ValueError, match="out_shardings: .* does not fit result 1 of shape"):
            f(misfit)


def test_sharding_under_transformations():
    """It is that of one result: the axes of a batch are none of its own, as in ``jax.jit``."""
    devices = jax.devices("cpu")
    mesh = jax.sharding.Mesh(np.array(devices[:2]), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    batched = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))
    f = bellhop.qjit(bellhop.accelerate(jnp.sin, dev=devices[1]), out_shardings=sharding)
    rows = np.arange(12.0).reshape(3, 4)
    for argument in (rows, *(jax.device_put(rows, device) for device in devices[:2])):
        result = jax.vmap(f)(argument)
        assert result.sharding.is_equivalent_to(batched, 2)
        np.testing.assert_allclose(result, np.sin(rows))
        gradient = jax.grad(lambda x: jnp.sum(jax.vmap(f)(x) ** 2))(argument)
        np.testing.assert_allclose(gradient, np.sin(2 * rows))


DTYPES = ["bool", "int8", "uint32", "int64", "bfloat16", "float16", "float32", "complex64"]


@pytest.mark.parametrize("in_region", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_types(dtype, in_region, other):
    same = bellhop.accelerate(jnp.flip, dev=other) if in_region else jnp.flip
    f = bellhop.qjit(lambda x: same(x), out_shardings=other)
    # A handle has two words too.
    x = np.array([1, 0], jnp.dtype(dtype))
    for _ in range(2):
        result = f(x)
        assert (result.dtype, result.devices()) == (x.dtype, {resolve_target(other)})
        np.testing.assert_array_equal(result, x[::-1])


def test_keys_zero_sizes_and_no_results(other):
    uniform = bellhop.accelerate(lambda key: jax.random.split(key, 3), dev=other)
    device = resolve_target(other)

    @bellhop.qjit(out_shardings=(other, {"empty": other, "none": other}))
    def f(key, x):
        return uniform(key), {"empty": (x[:0], jnp.sin(x)[:, None][:, :0]), "none": None}

    key = jax.random.key(3)
    for _ in range(2):
        keys, rest = f(key, X)
        assert keys.devices() == {device}
        assert jnp.array_equal(
            jax.random.key_data(keys), jax.random.key_data(jax.random.split(key, 3))
        )
        assert [x.shape for x in rest["empty"]] == [(0,), (4, 0)]
        assert all(x.devices() == {device} for x in rest["empty"])
        assert rest["none"] is None
    assert bellhop.qjit(lambda x: None, out_shardings=other)(X) is None


def test_transformations(other):
    device = resolve_target(other)
    region = bellhop.accelerate(layer, dev=other)
    f = bellhop.qjit(loss(region), out_shardings=other)
    value, gradient = jax.value_and_grad(f)(W, X)
    reference = jax.jit(jax.value_and_grad(loss(layer)))(W, X)
    compare((value, gradient), reference)
    # What is asked for is where the function's result is, and no word about its derivative.
    assert value.devices() == {device}
    batched = jax.vmap(f, (None, 0))(W, np.stack([X, X + 1]))
    compare(batched, jax.vmap(loss(layer), (None, 0))(W, np.stack([X, X + 1])))
    assert batched.devices() == {device}
    _, tangent = jax.jvp(lambda x: f(W, x), (X,), (X,))
    compare(tangent, jax.jvp(lambda x: loss(layer)(W, x), (X,), (X,))[1])
    compare(jax.hessian(f, 1)(W, X), jax.jit(jax.hessian(loss(layer), 1))(W, X))
    g = bellhop.qjit(bellhop.grad(loss(region)), out_shardings=other)
    compare(g(W, X), reference[1])
    assert g(W, X).devices() == {device}


def test_inside_other_programs(other):
    """The outermost program says where its results are."""
    host = jax.devices("cpu")[0]
    f = bellhop.qjit(bellhop.accelerate(layer, dev=other), out_shardings=other)
    nested = bellhop.qjit(lambda w, x: 2 * f(w, x))
    result = nested(W, X)
    compare(result, 2 * expected("region"))
    assert result.devices() == {host}
    with jax.default_device(host):
        result = jax.jit(lambda w, x: 2 * f(w, x))(W, X)
    compare(result, 2 * expected("region"))
    assert result.devices() == {host}


def test_other_ways_to_run_a_program(other, tmp_path):
    device = resolve_target(other)

    def function(w, n, *, x):
        return {"y": bellhop.accelerate(layer, dev=other)(w, x) * n, "x": x}

    where = {"y": other, "x": None}

    def check(result):
        compare(result, {"y": 2 * expected("region"), "x": X})
        assert_lies(result, where, device)

    f = bellhop.qjit(function, out_shardings=where)
    check(f.lower(W, 2.0, x=X).compile()(W, 2.0, x=X))
    check(f(W, 2.0, x=X))
    check(bellhop.qjit(function, static_argnums=1, out_shardings=where)(W, 2, x=X))
    with jax.disable_jit():
        assert f(W, 2.0, x=X)["y"].devices() == {device}
    for compiled in (False, True):
        f.save(tmp_path / "program", compiled=compiled)
        loaded = bellhop.load(tmp_path / "program", trust=True)
        for _ in range(2):
            check(loaded(W, 2.0, x=X))

    @bellhop.qjit(out_shardings=where)
    def declared(w: jax.ShapeDtypeStruct((4, 4), float), x: jax.ShapeDtypeStruct((4,), float)):
        return function(w, 2.0, x=x)

    for _ in range(2):
        check(declared(W, X.astype(int)))


def test_effects_and_failures(other, capsys):
    """What a run that fails has left on the device goes with it."""

    def fail(y):
        if y[0] > 0:
            raise ArithmeticError("no")
        return y

    region = bellhop.accelerate(layer, dev=other)
    checked = bellhop.pure_callback(fail, jax.ShapeDtypeStruct((4,), np.float64))

    @bellhop.qjit(out_shardings=(other, None))
    def f(w, x):
        bellhop.debug.print("run")
        return region(w, x), checked(x)

    for _ in range(2):
        compare(f(W, X), (expected("region"), X))
    with pytest.raises(ArithmeticError, match="no"):
        f(W, X + 1)
    assert pending_regions() == 0
    assert capsys.readouterr().out.startswith("run\n" * 2)


def log_there(other):
    region = bellhop.accelerate(layer, dev=other)
    return bellhop.qjit(lambda w, x: (region(w, x), jnp.log(x)), out_shardings=(other, None))


def test_results_that_are_refused_after_the_run(other):
    """Nobody takes what the run keeps on the device: it goes with the call, and not later."""
    f = log_there(other)
    refused = []
    with jax.debug_nans(True):
        for _ in range(3):
            with pytest.raises(FloatingPointError, match="nan") as caught:
                f(W, X - 1)
            refused.append(caught.value)
            assert pending_regions() == 0
        compare(f(W, X + 1), (layer(W, X + 1), np.log(X + 1)))


@pytest.mark.parametrize("region", [None, "cpu"])
@pytest.mark.parametrize(
    ("function", "expected"), [(jnp.log, np.log(0.25)), (bellhop.grad(jnp.sqrt), 1.0)]
)
def test_results_of_the_host_that_are_not_finite(function, expected, region, other):
    """They are moved, and nothing computes with them there."""
    function = bellhop.accelerate(function, dev=region) if region else function
    f = bellhop.qjit(function, out_shardings=other)
    assert f(0.25) == expected
    with jax.debug_nans(True):
        for call in (f, f.lower(0.25).compile()):
            for _ in range(2):
                with pytest.raises(FloatingPointError, match="encountered in"):
                    call(-1.0)
                assert call(0.25) == expected


def test_results_in_threads_of_which_some_are_refused(other):
    f = log_there(other)

    def call(number):
        x = X + 1 if number % 2 else X - 1
        try:
            with jax.debug_nans(True):
                return x, f(W, x)
        except FloatingPointError:
            return x, None

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(24)))
    assert pending_regions() == 0
    for x, result in results:
        if x[0] < 0:
            assert result is None
        else:
            compare(result, (layer(W, x), np.log(x)))


def test_results_of_a_structure_that_cannot_be_made(other):
    @jax.tree_util.register_pytree_node_class
    class Refused:
        def __init__(self, value):
            self.value = value

        def tree_flatten(self):
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            if isinstance(*children, jax.Array) and not isinstance(*children, jax.core.Tracer):
                raise ArithmeticError("no such structure")
            return cls(*children)

    f = bellhop.qjit(lambda w, x: Refused(bellhop.accelerate(layer, dev=other)(w, x)))
    g = bellhop.qjit(
        lambda w, x: Refused(bellhop.accelerate(layer, dev=other)(w, x)), out_shardings=other
    )
    for function in (f, g):
        with pytest.raises(ArithmeticError, match="no such structure"):
            function(W, X)
        assert pending_regions() == 0


OF_ONE_VALUE = {
    "calls": lambda f: lambda x: (f(x), f(x)),
    "result": lambda f: lambda x: (lambda y: (y, y))(f(x)),
    "argument": lambda f: lambda x: (x, x),
    "loop": lambda f: lambda x: (x, jax.lax.fori_loop(0, x.size - 2, lambda i, y: f(y), x)),
}


@pytest.mark.parametrize("is_key", [False, True])
@pytest.mark.parametrize("name", OF_ONE_VALUE)
def test_results_are_the_callers_each(name, is_key, other):
    """One may be donated, and the other one, and the argument, be used."""
    region = bellhop.accelerate(lambda x: jnp.roll(x, 1), dev=other)
    f = bellhop.qjit(OF_ONE_VALUE[name](region), out_shardings=other)
    x = jax.random.split(jax.random.key(3)) if is_key else np.array([3, 5])
    there = jax.device_put(x, resolve_target(other))
    for argument in (x, there, there):
        one, two = f(argument)
        jax.jit(lambda *values: values, donate_argnums=(0, 1))(one, two)
        assert (one.is_deleted(), two.is_deleted()) == (True, True)
        assert jnp.array_equal(argument, x)


def test_what_is_refused(other):
    f = lambda x: (x, {"a": x})
    with pytest.raises(ValueError, match="out_shardings has the structure .* and the result"):
        bellhop.qjit(f, out_shardings=(other,))(X)
    with pytest.raises(ValueError, match="out_shardings: there is no device 'tpu:7'"):
        bellhop.qjit(f, out_shardings=(other, "tpu:7"))(X)
    with pytest.raises(TypeError, match="out_shardings takes None, a jax.Device, .* a pytree of"):
        bellhop.qjit(f, out_shardings=3)(X)
    pinned = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[1], memory_kind="pinned_host")
    with pytest.raises(ValueError, match="out_shardings: .* has the memory kind 'pinned"):
        bellhop.qjit(f, out_shardings=pinned)(X)
