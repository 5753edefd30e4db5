"""What ``dev`` may be, and where regions then run."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from tests.needs import TWO_GPUS
from tests.processes import run_in_processes

import bellhop
from bellhop._jax.private import make_cpu_client
from bellhop.compiler.regions import Region

X = np.arange(8.0).reshape(4, 2)


@pytest.fixture
def runs(monkeypatch):
    """Record each run of a region: its name, its target, the devices of its results."""
    seen = []
    original = Region.launch

    def launch(self, arguments):
        results = original(self, arguments)
        seen.append((self.name, self.target, {d for r in results for d in r.sharding.device_set}))
        return results

    monkeypatch.setattr(Region, "launch", launch)
    return seen


def both():
    return jax.devices("cpu")[:2]


SHARDED = {
    "list": lambda: both(),
    "names": lambda: ["cpu:0", "cpu:1"],
    "tuple reversed": lambda: tuple(reversed(both())),
    "array": lambda: np.array(both()),
    "sharding": lambda: NamedSharding(Mesh(np.array(both()), ("x",)), PartitionSpec("x")),
    "mesh": lambda: Mesh(np.array(both()), ("x",)),
    "second axis": lambda: NamedSharding(Mesh(np.array(both()), ("y",)), PartitionSpec(None, "y")),
    "replicated": lambda: NamedSharding(Mesh(np.array(both()), ("x",)), PartitionSpec()),
}


@pytest.mark.parametrize("make", SHARDED.values(), ids=SHARDED)
def test_region_runs_sharded_over_several_devices(make, runs):
    f = bellhop.accelerate(lambda x, n, odd: (x @ x.T * n, jnp.sum(odd)), dev=make())
    g = bellhop.qjit(lambda x, n, odd: f(x, n, odd))
    for _ in range(2):
        product, total = g(X, 3, np.arange(5.0))
        np.testing.assert_allclose(product, X @ X.T * 3)
        assert total == 10.0
    assert [devices for *_, devices in runs] == [set(both())] * 2


def test_sharding_divides_the_arguments_that_it_fits():
    from bellhop.devices.devices import find_sharding, resolve_target

    target = resolve_target(both())
    assert find_sharding(target, (4, 2)).shard_shape((4, 2)) == (2, 2)
    for shape in ((), (3, 2), (5,)):
        assert find_sharding(target, shape).is_fully_replicated


def test_sharded_region_under_transformations():
    def f(x):
        return jnp.sum(jnp.sin(x) ** 2)

    sharded = bellhop.accelerate(f, dev=both())
    np.testing.assert_allclose(bellhop.qjit(jax.grad(sharded))(X), jax.grad(f)(X), rtol=1e-12)
    batched = bellhop.qjit(lambda x: jax.vmap(jax.grad(sharded))(x))
    np.testing.assert_allclose(batched(X), jax.vmap(jax.grad(f))(X), rtol=1e-12)


def constrained(mesh):
    split = NamedSharding(mesh, PartitionSpec(None, "x"))
    return lambda x: jnp.sum(jax.lax.with_sharding_constraint(jnp.sin(x), split) ** 2)


def mapped(mesh):
    spec = PartitionSpec("x")

    def part(x):
        scale = 1.0 + jax.lax.axis_index("x")
        return scale * x + jax.lax.psum(jnp.sum(x**2), "x")

    over = jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec)
    return lambda x: jnp.sum(over(x) ** 2)


@pytest.mark.parametrize("dev", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("make", [constrained, mapped])
def test_sharded_region_partitions_itself(make, dev, runs):
    devices = jax.devices(dev)[:2]
    if len(devices) < 2:
        TWO_GPUS.skip()
    # The region is spread over the devices in one order, its function in the other.
    mesh, reverse = (Mesh(np.array(order), ("x",)) for order in (devices, devices[::-1]))
    function = make(reverse)
    region = bellhop.accelerate(lambda x: function(x) - 2 * function(x + 0), dev=mesh)
    value = bellhop.qjit(lambda x: jax.value_and_grad(lambda x: region(jnp.cos(x)))(x))(X)
    expected = jax.value_and_grad(lambda x: -function(jnp.cos(x)))(X)
    for observed, reference in zip(value, expected, strict=True):
        np.testing.assert_allclose(observed, reference, rtol=1e-12)
    assert {frozenset(places) for *_, places in runs} == {frozenset(devices)}


@pytest.mark.parametrize("make", [constrained, mapped])
def test_region_that_partitions_itself_over_others_is_refused(make):
    region = bellhop.accelerate(make(Mesh(np.array(both()), ("x",))), dev="cpu:1")
    with pytest.raises(bellhop.CompileError, match=r"region on cpu:1 has a .* over 2 devices"):
        bellhop.qjit(lambda x: region(x))(X)


def test_sharded_region_on_its_own():
    y = bellhop.accelerate(jnp.sin, dev=both())(X)
    assert y.sharding.device_set == set(both())
    np.testing.assert_allclose(y, np.sin(X))


def test_one_device_in_a_list_or_a_sharding_is_that_device(runs):
    second = both()[1]
    for dev in ([second], ["cpu:1"], SingleDeviceSharding(second)):
        f = bellhop.accelerate(jnp.sin, dev=dev)
        bellhop.qjit(lambda x, f=f: f(x))(1.0)
    assert [target for _, target, _ in runs] == [second] * 3


def test_equal_shardings_have_one_name_and_others_another():
    from bellhop.devices.devices import find_target, resolve_target, target_name

    first, again, reverse = (
        resolve_target(dev) for dev in (both(), list(both()), list(reversed(both())))
    )
    assert target_name(first) == target_name(again) != target_name(reverse)
    assert find_target(target_name(reverse)) == reverse


def test_device_of_another_client_is_not_taken_for_its_namesake(runs):
    client = make_cpu_client()
    (first, *_), host = client.local_devices(), both()[0]
    assert (first.platform, first.id) == (host.platform, host.id)
    f = bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin, dev=first)(x))
    for _ in range(2):
        np.testing.assert_allclose(f(X), np.sin(X))
    assert [target for _, target, _ in runs] == [first] * 2
    # Nor is it part of the program.
    assert all(target.client is client for _, target, _ in runs)
    both_of_a_name = bellhop.qjit(
        lambda x: (bellhop.accelerate(jnp.sin, dev=first)(x), bellhop.accelerate(jnp.cos)(x))
    )
    np.testing.assert_allclose(both_of_a_name(X), (np.sin(X), np.cos(X)))


@pytest.mark.gpu
def test_errors_list_the_devices_of_all_platforms(gpu):
    with pytest.raises(ValueError, match="there is no device 'tpu'") as raised:
        bellhop.accelerate(jnp.sin, dev="tpu")
    for device in (gpu, *both()):
        assert f"{device.platform}:{device.id}" in str(raised.value)


@pytest.mark.subprocess
def test_names_are_those_of_the_own_process():
    program = """
from bellhop.devices.devices import resolve_target
own = jax.local_devices()[0]
other = next(device for device in devices if device.process_index != own.process_index)
assert resolve_target("cpu") == resolve_target(None) == resolve_target(f"cpu:{own.id}") == own
for dev in (f"cpu:{other.id}", other):
    try:
        bellhop.accelerate(jnp.sin, dev=dev)
    except ValueError as error:
        assert f"cpu:{own.id}" in str(error), error
        assert isinstance(dev, str) or "is a device of process" in str(error)
    else:
        raise AssertionError("not refused")
value = bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin, dev="cpu")(x))(1.0)
assert value.devices() == {own}
print("RESULT", float(value))
"""
    for line in run_in_processes(program):
        assert float(line.split()[1]) == pytest.approx(np.sin(1.0))


@pytest.mark.gpu
@pytest.mark.subprocess
def test_names_of_gpus_are_those_of_the_own_process(counts):
    """Two processes may not share a GPU of the machine, so that it is the stand-in's."""
    program = """
for name in ("gpu", "cuda", "cuda:1"):
    number = jax.process_index("cpu")
    f = bellhop.qjit(bellhop.accelerate(lambda x: x + number, dev=name), out_shardings=name)
    result = f(np.arange(2.0))
    assert result.devices() == {jax.local_devices(backend="gpu")[name == "cuda:1"]}
print("RESULT", *map(float, result))
"""
    assert sorted(run_in_processes(program)) == ["RESULT 0.0 1.0", "RESULT 1.0 2.0"]


def test_device_twice_in_a_list_is_an_error():
    with pytest.raises(ValueError, match="names a device twice"):
        bellhop.accelerate(jnp.sin, dev=["cpu:1", "cpu:1"])


def test_callback_in_a_sharded_region_is_an_error():
    double = bellhop.pure_callback(lambda x: 2 * x, float)
    f = bellhop.accelerate(lambda x: double(x), dev=both())
    with pytest.raises(
        bellhop.CompileError,
        match=r"several devices \(cpu:0, cpu:1\), where callbacks are not supported",
    ):
        bellhop.qjit(lambda x: f(x))(1.0)


def test_programs_and_regions_go_to_the_default_device_of_the_host(runs):
    _, second = both()
    f = bellhop.accelerate(jnp.sin)
    g = bellhop.qjit(lambda x: f(x) + 1)
    with jax.default_device(second):
        y = g(1.0)
    assert y.devices() == {second}
    assert [(target, devices) for _, target, devices in runs] == [(second, {second})]


def test_default_device_without_context(monkeypatch, runs):
    first, second = both()
    monkeypatch.setattr(
        jax, "local_devices", lambda *a, backend=None: [first if backend else second]
    )
    g = bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin)(x) + 1)
    assert g(1.0).devices() == {first}
    assert [target for _, target, _ in runs] == [second]


def test_regions_are_lowered_for_their_own_platform(monkeypatch):
    """What is LAPACK on the CPU must not reach a GPU; seen in the text, without a GPU."""
    from bellhop.compiler.lowering_context import begin_lowering

    def accelerate_cuda_0__cholesky(x):
        return jnp.linalg.cholesky(x)

    def program(x):
        return jax.jit(accelerate_cuda_0__cholesky)(x), jnp.linalg.cholesky(x)

    # The module; bellhop.accelerate is the function.
    module = sys.modules["bellhop.accelerate"]
    monkeypatch.setattr(module, "find_target", lambda name: name)
    monkeypatch.setattr(module, "target_platform", lambda name: name.split(":")[0])
    traced = jax.jit(program).trace(X.T @ X)
    with begin_lowering():
        text = str(traced.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo"))
    assert text.count("@cusolver_potrf_ffi") == 1
    assert text.count("@lapack_dpotrf_ffi") == 1
